"""Checks of a whole model: shapes, first loss, invariances, learning, tying, counting, saving."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from nmtlib.checks.adapter import Adapter, Sizes
from nmtlib.checks.helpers import (
    TOLERANCE,
    batch,
    build,
    close,
    distance,
    logits,
    nll,
    padded_batch,
    pairs,
    tensor,
)
from nmtlib.checks.registry import Finding, check

MODEL = "07_the_full_model"
TRAINING = "09_training"


@check(
    "model.shape",
    cause="The last projection has another size, or the model returns something else.",
    notebook=MODEL,
    needs=("make_model",),
)
def shape(adapter: Adapter, seed: int) -> str:
    """Logits have the shape (batch, target length, target vocabulary)."""
    source, target, _ = padded_batch(adapter, seed)
    found = logits(adapter, build(adapter, seed), source, target)
    if adapter.resizable and found.size(2) != Sizes().target_vocab_size:
        raise Finding(
            f"the model was asked for {Sizes().target_vocab_size} target words and has {found.size(2)}"
        )
    if float(found.detach().exp().sum(-1).sub(1).abs().max()) < TOLERANCE:
        return f"{tuple(found.shape)} (log-probabilities: that is fine)"
    if found.min() >= 0 and float((found.sum(-1) - 1).abs().max()) < TOLERANCE:
        raise Finding(
            "the result holds probabilities, expected logits",
            "A softmax in forward and another in the loss: cross-entropy takes logits.",
        )
    return f"{tuple(found.shape)}"


@check(
    "model.initial_loss",
    cause="Logits start too large: the output layer or tied embeddings are drawn with too "
    "much variance.",
    notebook=MODEL,
    needs=("make_model",),
)
def initial_loss(adapter: Adapter, seed: int) -> str:
    """A new model guesses evenly: its loss is about the logarithm of the vocabulary size."""
    model = build(
        adapter, seed, noise=0.0, source_vocab_size=101, target_vocab_size=101, d_model=32
    )
    vocab = 101 if adapter.resizable else Sizes().target_vocab_size
    examples = pairs(adapter, seed, [(6, 6)] * 20, vocab)
    size = logits(adapter, model, *batch(adapter, examples)[:2]).size(2)
    found, even = nll(adapter, model, examples), math.log(size)
    if not even - 0.5 < found < even + 1.0:
        raise Finding(
            f"the first loss is {found:.2f} nats, expected about ln {size} = {even:.2f}",
            "The model sees the word it should predict." if found < even else "",
        )
    return f"{found:.2f} nats; ln {size} is {even:.2f}"


@check(
    "model.batch_invariance",
    cause="Something is averaged over the batch, or padding leaks.",
    notebook="06_masking",
    needs=("make_model",),
)
def batch_invariance(adapter: Adapter, seed: int) -> str:
    """A sentence gets the same logits alone, in a batch, and in any order."""
    model, examples = build(adapter, seed), pairs(adapter, seed, [(5, 4), (3, 3), (1, 1)])
    source, target, _ = batch(adapter, examples)
    together, order = logits(adapter, model, source, target), torch.tensor([2, 0, 1])
    real = target != adapter.pad
    reordered = logits(adapter, model, source[order], target[order])
    off = close(
        reordered[real[order]],
        together[order][real[order]],
        "another order of the sentences moves logits",
    )
    for row, example in enumerate(examples):
        alone_source, alone_target, _ = batch(adapter, [example])
        alone = logits(adapter, model, alone_source, alone_target)[0]
        off = max(
            off, close(alone, together[row, : len(alone)], f"sentence {row} alone and in a batch")
        )
    return f"alone, batched and reordered agree within {off:.0e}"


@check(
    "model.overfit",
    cause="Gradients do not reach the weights, or what should be learned is hidden from the model.",
    notebook=TRAINING,
    needs=("make_model",),
)
def overfit(adapter: Adapter, seed: int) -> str:
    """A few pairs can be learned by heart."""
    torch.manual_seed(seed)
    model = adapter.make_model(Sizes(d_model=32, d_ff=64)).train()
    examples = pairs(adapter, seed, [(4, 4), (3, 4), (5, 3)])
    source, target, labels = batch(adapter, examples)
    size, first = sum(p.numel() for p in model.parameters()), nll(adapter, model, examples)
    rate = min(
        4e-3, max(3e-4, 4e-3 * (40_000 / max(size, 1)) ** 0.5)
    )  # large models bear small rates only
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for update in range(1, 201):
        optimizer.param_groups[0]["lr"] = rate * min(update / 10, 1)
        table = logits(adapter, model, source, target, grad=True)
        loss = F.cross_entropy(table.flatten(0, 1), labels.flatten(), ignore_index=adapter.pad)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < 0.1 * first and (last := nll(adapter, model, examples)) < 0.1 * first:
            return f"loss {first:.2f} fell to {last:.2f} in {update} updates"
    last = nll(adapter, model, examples)
    if last > 0.15 * first:
        raise Finding(
            f"after 200 updates on three pairs the loss is {last:.2f}, at first {first:.2f}"
        )
    return f"loss {first:.2f} fell to {last:.2f} in 200 updates"


@check(
    "model.eval_repeats",
    cause="Dropout is applied without asking for the mode: functional dropout needs "
    "training=self.training.",
    notebook=TRAINING,
    needs=("make_model",),
)
def eval_repeats(adapter: Adapter, seed: int) -> str:
    """In eval mode a model repeats itself."""
    model = build(adapter, seed, dropout=0.5).eval()
    source, target, _ = padded_batch(adapter, seed)
    passes = [logits(adapter, model, source, target) for _ in range(2)]
    close(passes[1], passes[0], "two passes in eval mode differ", tolerance=1e-6)
    return "two passes in eval mode are equal" + (", with dropout 0.5" if adapter.resizable else "")


@check(
    "model.double",
    cause="A tensor is a plain attribute or is made with a fixed type, so it does not follow the "
    "model.",
    notebook="03_positional_encoding",
    needs=("make_model",),
)
def double(adapter: Adapter, seed: int) -> str:
    """The whole model moves to another number type."""
    model = build(adapter, seed)
    source, target, _ = padded_batch(adapter, seed)
    single = logits(adapter, model, source, target)
    model.double()
    if left := [name for name, p in model.named_parameters() if p.dtype != torch.float64]:
        raise Finding(f"after model.double() {left[0]!r} is {model.get_parameter(left[0]).dtype}")
    found = logits(adapter, model, source, target)
    if found.dtype != torch.float64:
        raise Finding(f"after model.double() logits are {found.dtype}")
    return (
        f"float64 and float32 agree within {close(found, single, 'float64 and float32 logits'):.0e}"
    )


@check(
    "model.state_dict",
    cause="Weights live in a plain list, dictionary or attribute, where the module does not "
    "see them.",
    notebook=TRAINING,
    needs=("make_model",),
)
def state_dict(adapter: Adapter, seed: int) -> str:
    """The state dict holds all that the logits depend on."""
    model, other = build(adapter, seed), build(adapter, seed + 1)
    source, target, _ = padded_batch(adapter, seed)
    expected = logits(adapter, model, source, target)
    if distance(logits(adapter, other, source, target), expected) < TOLERANCE:
        raise Finding(
            "two models with different random weights give the same logits",
            "The seed is fixed inside the model, or the weights are not used.",
        )
    other.load_state_dict(model.state_dict())
    off = close(
        logits(adapter, other, source, target), expected, "a second model with the same state dict"
    )
    return f"{len(model.state_dict())} tensors make a second model alike (within {off:.0e})"


@check(
    "model.tied",
    cause="Values are copied; assign the Parameter itself.",
    notebook="02_embeddings",
    needs=("tied",),
)
def tied(adapter: Adapter, seed: int) -> str:
    """Embeddings said to be tied are one tensor."""
    tensors = list(adapter.tied())
    if len(tensors) < 2:
        raise Finding(
            f"`tied` returned {len(tensors)} tensor, expected two or more that are meant to be one"
        )
    apart = [n for n, other in enumerate(tensors[1:], start=1) if other is not tensors[0]]
    if apart:
        same = tensors[0].shape == tensors[apart[0]].shape and torch.equal(
            tensors[0], tensors[apart[0]]
        )
        raise Finding(
            f"tensor {apart[0]} is not tensor 0"
            + (", though their values are equal so far" if same else "")
        )
    return f"{len(tensors)} names, one tensor of shape {tuple(tensors[0].shape)}"


@check(
    "model.parameter_count",
    cause="Parameters are added up once for every module that contains them.",
    notebook=MODEL,
    needs=("make_model", "count_parameters"),
)
def parameter_count(adapter: Adapter, seed: int) -> str:
    """The number of parameters counts each tensor once."""
    model = adapter.make_model(Sizes())
    said, expected = (
        adapter.count_parameters(model),
        sum(p.numel() for p in model.parameters() if p.requires_grad),
    )
    if said != expected:
        raise Finding(f"the model is said to have {said:,} parameters; it has {expected:,}")
    return f"{said:,} parameters"


@check(
    "model.checkpoint",
    cause="The model is rebuilt with other hyper-parameters than it was trained with: store "
    "them in the file.",
    notebook=TRAINING,
    needs=("make_model", "reload"),
)
def checkpoint(adapter: Adapter, seed: int) -> str:
    # No size is a default, and the number of heads leaves no trace in the shapes of the weights.
    """A checkpoint rebuilds the model that was saved."""
    model = build(
        adapter, seed, n_heads=2, d_model=24, d_ff=20, n_layers=1, dropout=0.3, max_length=50
    )
    again = adapter.reload(model).eval()
    source, target, _ = padded_batch(adapter, seed)
    expected = logits(adapter, model, source, target)
    off = close(
        logits(adapter, again, source, target),
        expected,
        "logits of the saved and of the rebuilt model",
    )
    rates = [
        sorted(m.p for m in x.modules() if isinstance(m, torch.nn.Dropout)) for x in (model, again)
    ]
    if rates[0] != rates[1]:
        raise Finding(f"the rebuilt model has other dropout probabilities: {sorted(set(rates[1]))}")
    return f"saved and rebuilt model agree within {off:.0e}"


def check_maps(maps: list[Tensor], source: Tensor, target: Tensor, pad: int) -> None:
    """A Finding where the maps are no weights over the source."""
    if not maps:
        raise Finding("no attention map is returned")
    for number, weights in enumerate(maps):
        what = f"the map of decoder layer {number}"
        tensor(weights, what)
        if (len(weights), *weights.shape[2:]) != (len(source), target.size(1), source.size(1)):
            raise Finding(f"{what} has the shape {tuple(weights.shape)}, expected (B, H, T, S)")
        if float((weights.sum(-1) - 1).abs().max()) > TOLERANCE:
            raise Finding(f"rows of {what} do not sum to one")
        hidden = (source == pad)[:, None, None].expand(weights.shape)
        if weights[hidden].abs().max() > TOLERANCE:
            raise Finding(f"{what} looks at PAD", "The padding mask of cross-attention is missing.")


@check(
    "model.attention_maps",
    cause="Maps are collected in another order than they are labelled, or come from "
    "another sentence of the batch.",
    notebook="05_multi_head_attention",
    needs=("make_model", "attention_maps"),
)
def attention_maps(adapter: Adapter, seed: int) -> str:
    """Attention maps belong to the sentence and to the layer that they are shown with."""
    model, examples = build(adapter, seed), pairs(adapter, seed, [(5, 4), (3, 3), (1, 1)])
    source, target, _ = batch(adapter, examples)
    with torch.no_grad():
        maps = adapter.attention_maps(model, source, target)
        check_maps(maps, source, target, adapter.pad)
        alone_source, alone_target, _ = batch(adapter, examples[1:2])
        alone = adapter.attention_maps(model, alone_source, alone_target)
        for number, weights in enumerate(maps):
            own = weights[1:2, :, : alone_target.size(1), : alone_source.size(1)]
            close(
                own, alone[number], f"layer {number} shows another sentence in a batch than alone"
            )
        for name, parameter in model.named_parameters():
            kept = parameter.clone()
            parameter.add_(torch.randn_like(parameter))
            after = adapter.attention_maps(model, source, target)
            parameter.copy_(kept)
            # Whatever reaches a layer reaches every later one: the maps that move are the last
            # ones.
            moved = [distance(a, b) > TOLERANCE for a, b in zip(after, maps, strict=True)]
            if moved != sorted(moved):
                raise Finding(
                    f"a change of {name!r} moves the map of layer {moved.index(True)} and not a later one"
                )
    return f"maps of {len(maps)} layers stand with their sentence and in their order"
