"""Checks of a whole model: shapes, first loss, invariances, learning, tying, counting, saving."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter, Sizes
from nmtcheck.measure.helpers import (
    TOLERANCE,
    batch,
    build,
    close,
    cross_entropy,
    distance,
    logits,
    nll,
    pairs,
    prepare,
    still,
    three_pairs,
)
from nmtcheck.measure.proof import prove_cause
from nmtcheck.registry import Finding, check

DROPPED = "Dropout is active in eval mode: functional dropout needs training=self.training."


@check("model.shape", "make_model")
def shape(adapter: Adapter, seed: int) -> str:
    """Logits have the shape (batch, target length, target vocabulary)."""
    found, asked = logits(adapter, *prepare(adapter, seed)), Sizes().target_vocab_size
    if adapter.resizable and found.size(2) != asked:
        raise Finding(f"the model was made for {asked} target words but returns {found.size(2)}")
    if float(found.detach().exp().sum(-1).sub(1).abs().max()) < TOLERANCE:
        return f"{tuple(found.shape)} (log-probabilities: that is fine)"
    if found.min() >= 0 and float((found.sum(-1) - 1).abs().max()) < TOLERANCE:
        cause = "forward ends in a softmax; losses take logits, or log-probabilities."
        raise Finding("the result contains probabilities, expected logits", cause)
    return f"{tuple(found.shape)}"


@check("model.batch_invariance", "make_model")
def batch_invariance(adapter: Adapter, seed: int) -> str:
    """A sentence has the same logits alone, in a batch, and in any order."""
    model, source, target = prepare(adapter, seed)
    together, order = logits(adapter, model, source, target), torch.tensor([2, 0, 1])
    real = (target != adapter.pad)[order]
    reordered = logits(adapter, model, source[order], target[order])[real]
    off = close(reordered, together[order][real], "a different order of the sentences moves logits")
    for row, example in enumerate(three_pairs(adapter, seed)):
        alone = logits(adapter, model, *batch(adapter, [example])[:2])[0]
        message = f"sentence {row} alone and in a batch"
        off = max(off, close(alone, together[row, : len(alone)], message))
    return f"alone, batched and reordered agree within {off:.0e}"


@check("model.overfit", "make_model")
def overfit(adapter: Adapter, seed: int) -> str:
    """A few pairs can be memorised."""
    torch.manual_seed(seed)
    model = adapter.make_model(Sizes(d_model=32, d_ff=64)).train()
    examples = pairs(adapter, seed, [(4, 4), (3, 4), (5, 3)])
    source, target, labels = batch(adapter, examples)
    size, first = sum(p.numel() for p in model.parameters()), nll(adapter, model, examples)
    # Large models bear small rates only.
    rate = min(4e-3, max(3e-4, 4e-3 * (40_000 / max(size, 1)) ** 0.5))
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for update in range(1, 201):
        optimizer.param_groups[0]["lr"] = rate * min(update / 10, 1)
        table = logits(adapter, model, source, target, grad=True)
        loss = cross_entropy(adapter, table, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < 0.1 * first and nll(adapter, model, examples) < 0.1 * first:
            break
    last = nll(adapter, model, examples)
    if last > 0.15 * first:
        after = f"after {update} updates on three pairs"
        raise Finding(f"{after} the loss is {last:.2f}, at first {first:.2f}")
    return f"loss {first:.2f} fell to {last:.2f} in {update} updates"


@check("model.eval_repeats", "make_model")
def eval_repeats(adapter: Adapter, seed: int) -> str:
    """In eval mode the model is deterministic."""
    model, source, target = prepare(adapter, seed, dropout=0.5)
    passes = [logits(adapter, model, source, target)[target != adapter.pad] for _ in range(2)]
    try:
        close(passes[1], passes[0], "two passes in eval mode differ", tolerance=1e-6)
    except Finding as found:
        found.fits = (
            "Dropout is active in eval mode: functional dropout needs training=self.training."
        )
        raise prove_cause(adapter, seed, found, without_dropout, eval_repeats, "none") from None
    return "two passes in eval mode are equal" + (", with dropout 0.5" if adapter.resizable else "")


def without_dropout(adapter: Adapter) -> Adapter:
    """The adapter of a model that drops nothing in eval mode."""

    def pass_still(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
        with nullcontext() if model.training else still():
            return adapter.logits(model, source, target)

    return replace(adapter, logits=pass_still)


@check("model.double", "make_model")
def double(adapter: Adapter, seed: int) -> str:
    """The whole model changes its dtype."""
    model, source, target = prepare(adapter, seed)
    single = logits(adapter, model, source, target)
    for name, parameter in model.double().named_parameters():
        if parameter.dtype != torch.float64:
            raise Finding(f"after model.double() {name!r} is {parameter.dtype}")
    found = logits(adapter, model, source, target)
    if found.dtype != torch.float64:
        raise Finding(f"after model.double() logits are {found.dtype}")
    real = target != adapter.pad
    off = close(found[real], single[real], "float64 and float32 logits")
    return f"float64 and float32 agree within {off:.0e}"


@check("model.state_dict", "make_model")
def state_dict(adapter: Adapter, seed: int) -> str:
    """The state dict contains everything that the logits depend on."""
    model, source, target = prepare(adapter, seed)
    other, real = build(adapter, seed + 1), target != adapter.pad
    expected = logits(adapter, model, source, target)[real]
    if distance(logits(adapter, other, source, target)[real], expected) < TOLERANCE:
        message = "two models with different random weights give the same logits"
        possible = "The seed is fixed inside the model, or the weights are not used."
        raise Finding(message, possible)
    other.load_state_dict(model.state_dict())
    message = "a second model with the same state dict"
    off = close(logits(adapter, other, source, target)[real], expected, message)
    return f"{len(model.state_dict())} tensors reproduce the model (within {off:.0e})"


def plain_tensors(model: nn.Module) -> Iterator[tuple[nn.Module, str, Tensor]]:
    """The tensors of real numbers that are neither parameters nor buffers: module, name, value."""
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, Tensor) and value.is_floating_point() and value.numel() > 1:
                yield module, name, value


@check("model.device", "make_model")
def device(adapter: Adapter, seed: int) -> str:
    """Everything the model computes with moves with it to a different device."""
    model, source, target = prepare(adapter, seed)
    logits(adapter, model, source, target)  # where no pass succeeds, nothing else can be told
    names = [name for _, name, _ in plain_tensors(model)]
    if not names:
        return "every table of numbers is a parameter or a buffer, which .to(device) moves"
    try:
        elsewhere(adapter, seed)
    except Exception as error:  # it is somebody else's code
        said = f"{names[0]!r} is neither a parameter nor a buffer, and the pass fails elsewhere"
        found = Finding(said, "Use register_buffer, or nn.Parameter if it learns.")
        prove_cause(adapter, seed, found, registered, elsewhere, "it registered")
        raise found if found.proved else NotImplementedError(str(error)) from None
    return f"{names[0]!r} is not a buffer and is moved in every pass"


def elsewhere(adapter: Adapter, seed: int) -> None:
    """Make a pass on the device 'meta', which holds no numbers and is there on every computer."""
    model, source, target = prepare(adapter, seed)
    with torch.no_grad(), torch.device("meta"):  # masks that a pass makes are made there
        adapter.logits(model.to("meta"), source.to("meta"), target.to("meta"))


def registered(adapter: Adapter) -> Adapter:
    """The adapter of models all of whose tensors are parameters or buffers."""

    def make_model(sizes: Sizes) -> nn.Module:
        model = adapter.make_model(sizes)
        for module, name, value in [*plain_tensors(model)]:
            delattr(module, name)
            module.register_buffer(name, value)
        return model

    return replace(adapter, make_model=make_model)
