"""Checks of the blocks: residual connections, norms, feed-forward, dropout, and gradients."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcheck.adapter import Adapter, Sizes
from nmtcheck.helpers import (
    TOLERANCE,
    another_word,
    close,
    distance,
    heeds_dropout,
    listed,
    logits,
    prepare,
    source_frame,
    tensor,
)
from nmtcheck.registry import Finding, check

UNHEEDED = "the model has its own dropout, or none: `make_model` does not pass on sizes.dropout"
PLAIN_LIST = "Modules are in a plain list or dictionary; use nn.ModuleList."


def is_norm(module: nn.Module) -> bool:
    """Whether a module normalises, judged by its class."""
    return "norm" in type(module).__name__.lower()


@torch.no_grad()
def run_layer(module: nn.Module, x: Tensor) -> Tensor:
    """What an encoder layer makes of x (B, S, D) without padding, found to have its shape."""
    mask = torch.ones(len(x), 1, 1, x.size(1), dtype=torch.bool)
    return tensor(module(x, mask), "the result of an encoder layer", tuple(x.shape))


class Studied(NamedTuple):
    """What is known of an encoder layer after a look at it with its sub-layers silent.

    Sub-layers are silent when all weights but those of norms are zero; then only the residual path
    is left.
    """

    x: Tensor
    silent: Tensor  # the result for x when the sub-layers are silent
    reads_input: bool  # whether a sub-layer reads x itself
    normalised: bool  # whether the result is normalised when the sub-layers speak


def reads(module: nn.Module, x: Tensor) -> tuple[bool, Tensor]:
    """Whether a sub-module that holds no norm is given x itself, and the module's result for x."""
    raw: list[bool] = []

    def look(_: nn.Module, args: tuple, kwargs: dict) -> None:
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        raw.extend(t.shape == x.shape and torch.allclose(t, x) for t in tensors)

    trivial = nn.Dropout | nn.Identity
    hooks = [
        part.register_forward_pre_hook(look, with_kwargs=True)
        for part in module.modules()
        if part is not module and not isinstance(part, trivial)
        if not any(is_norm(inner) for inner in part.modules())
    ]
    result = run_layer(module, x)
    for hook in hooks:
        hook.remove()
    return any(raw), result


def study(adapter: Adapter) -> Studied:
    """Study an encoder layer, in train mode: torch's eval shortcut calls no sub-module."""
    module, x = adapter.encoder_layer(Sizes()).train(), 2 * torch.randn(2, 5, 16) + 1
    reads_input, result = reads(module, x)
    # LayerNorm makes the first of these 1, RMSNorm the second.
    sizes = result.std(-1), result.pow(2).mean(-1).sqrt()
    normalised = any(bool((size - 1).abs().max() < 0.1) for size in sizes)
    norms = {id(p) for m in module.modules() if is_norm(m) for p in m.parameters()}
    with torch.no_grad():
        for parameter in module.parameters():
            if id(parameter) not in norms:
                parameter.zero_()
    return Studied(x, run_layer(module, x), reads_input, normalised)


@check("layers.residual", "encoder_layer")
def residual(adapter: Adapter, seed: int) -> str:
    """A layer whose sub-layers return zero passes its input on."""
    layer = study(adapter)
    # Post-norm hands the input on normalised: centred, every token keeps its direction.
    centred, given = (y - y.mean(-1, keepdim=True) for y in (layer.silent, layer.x))
    carried = max(float(F.cosine_similarity(centred, given, dim=-1).min()), 0)
    if carried < 0.999:
        message = f"a silent layer keeps only {carried:.0%} of the direction of its input"
        raise Finding(message, "There is no residual connection, or it adds the wrong tensor.")
    off = distance(layer.silent, layer.x)
    if off <= TOLERANCE:
        return "the input comes out unchanged"
    if not layer.reads_input and not layer.normalised:
        message = f"in a pre-norm layer the result differs from the input by {off:.2g}"
        raise Finding(message, "Keep x and add to it: x + sublayer(norm(x)).")
    return "the input comes out normalised, and otherwise unchanged"


@check("layers.normalised_once", "encoder_layer")
def normalised_once(adapter: Adapter, seed: int) -> str:
    """A residual block normalises before or after its sub-layer, not both."""
    layer = study(adapter)
    if not layer.reads_input and layer.normalised:
        raise Finding("sub-layers read normalised input, and the sum is normalised again")
    if layer.reads_input and not layer.normalised:
        message = "sub-layers read unnormalised input, and the result is not normalised either"
        raise Finding(message, "The norm is missing or not called.")
    if layer.normalised:
        return "post-norm: normalised after the sum"
    return "pre-norm: normalised before the sub-layer"


@check("layers.feed_forward", "encoder_layer")
def feed_forward(adapter: Adapter, seed: int) -> str:
    """The feed-forward block affects the result."""
    module, x, width = adapter.encoder_layer(Sizes()).train(), torch.randn(2, 5, 16), Sizes().d_ff
    before, moved = run_layer(module, x), {}
    for name, parameter in module.named_parameters():
        if width in parameter.shape and parameter.dim() > 1:
            with torch.no_grad():
                parameter.add_(torch.randn_like(parameter))
            after = run_layer(module, x)
            moved[name], before = distance(after, before), after
    if not moved:
        raise NotImplementedError(f"no parameter of the layer has the size d_ff = {width}")
    if unused := [name for name, by in moved.items() if by < TOLERANCE]:
        raise Finding(f"{unused[0]!r} can be changed without changing the result")
    least = min(moved.values())
    return f"each of its {len(moved)} matrices changes the result, by {least:.2f} or more"


@check("layers.gradient", "make_model")
def gradient(adapter: Adapter, seed: int) -> str:
    """One backward pass reaches every parameter."""
    model, source, target = prepare(adapter, seed)
    logits(adapter, model.train(), source, target, grad=True).pow(2).mean().backward()
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if not trained:
        raise Finding("the model has no trainable parameters", PLAIN_LIST)
    # Vectors may be without gradient for a reason: the bias of the keys moves all scores of a query
    # alike.
    without = [n for n, p in trained if p.grad is None or (p.dim() > 1 and not p.grad.any())]
    if without:
        counts = f"{len(without)} of {len(trained)} parameters"
        raise Finding(f"{counts} get no gradient: {listed(without)}")
    return f"all {len(trained)} parameters get a gradient"


@check("layers.separate_weights", "make_model")
def separate_weights(adapter: Adapter, seed: int) -> str:
    """Every layer has its own weights."""
    sizes = Sizes(source_vocab_size=37, target_vocab_size=37)
    names: dict[tuple, list[str]] = {}
    for name, parameter in adapter.make_model(sizes).named_parameters(remove_duplicate=False):
        # Tied embeddings and a shared position table are meant; weights of layers are not.
        if parameter.dim() > 1 and not {37, sizes.max_length} & set(parameter.shape):
            names.setdefault((parameter.data_ptr(), parameter.shape), []).append(name)
    shared = [group for group in names.values() if len(group) > 1]
    if shared and adapter.resizable:
        raise Finding(f"{shared[0][0]!r} and {shared[0][1]!r} are the same tensor")
    if len(names) < 4:
        raise Finding(f"the model has only {len(names)} matrices in its layers", PLAIN_LIST)
    return f"{len(names)} matrices in the layers, none of them shared"


@check("layers.no_dropout", "make_model", "resizable")
def no_dropout(adapter: Adapter, seed: int) -> str:
    """With dropout 0, train mode and eval mode give the same result."""
    model, source, target = prepare(adapter, seed, dropout=0.0)
    evaluated = logits(adapter, model.eval(), source, target)
    trained = [logits(adapter, model.train(), source, target) for _ in range(2)]
    if not heeds_dropout(adapter, seed) and distance(*trained) > TOLERANCE:
        raise NotImplementedError(UNHEEDED)
    close(*trained, "with dropout 0, two passes in train mode differ")
    # torch's eval shortcut leaves zeros at padded positions.
    real = target != adapter.pad
    message = "with dropout 0, train and eval mode differ"
    cause = "Something other than dropout depends on `self.training`."
    off = close(trained[0][real], evaluated[real], message, cause)
    return f"train and eval mode agree within {off:.0e}"


@check("layers.dropout_rate", "make_model", "resizable")
def dropout_rate(adapter: Adapter, seed: int) -> str:
    """Every dropout has the requested probability."""
    model, source, target = prepare(adapter, seed, dropout=0.3)
    model.train()
    rates = {name: m.p for name, m in model.named_modules() if isinstance(m, nn.Dropout)}
    if 0.3 not in rates.values() and not heeds_dropout(adapter, seed):
        raise NotImplementedError(UNHEEDED)
    others = {name: rate for name, rate in rates.items() if rate not in (0, 0.3)}
    if others:
        found = ", ".join(f"{rate:g}" for rate in sorted(set(others.values())))
        raise Finding(f"dropout 0.3 was requested, but there is {found} in {listed([*others])}")
    moved = distance(*(logits(adapter, model, source, target) for _ in range(2)))
    if moved < TOLERANCE:
        message = "dropout 0.3 was requested, and two passes in train mode are equal"
        raise Finding(message, "Dropout is never applied.")
    modules = f"{len(rates)} dropout modules with 0.3 or 0"
    return f"{modules}; two passes in train mode differ by {moved:.2f}"


@check("layers.dropout_once", "make_model", "resizable")
def dropout_once(adapter: Adapter, seed: int) -> str:
    """No value passes through two dropouts in a row."""
    model, source, target = prepare(adapter, seed, dropout=0.3)
    names = {m: name for name, m in model.train().named_modules() if isinstance(m, nn.Dropout)}
    if not names:
        raise NotImplementedError("the model contains no nn.Dropout")
    dropped, twice = list[Tensor](), list[str]()

    def listen(module: nn.Module, given: tuple, result: Tensor) -> None:
        if module.p and given and any(given[0] is earlier for earlier in dropped):
            twice.append(names[module])
        if module.p:
            dropped.append(result)

    for module in names:
        module.register_forward_hook(listen)
    logits(adapter, model, source, target)
    if twice:
        raise Finding(f"the output of a dropout is dropped again by {listed(twice)}")
    return f"{len(dropped)} dropouts in one pass, none applied to the output of another"


@check("layers.cross_attention", "make_model")
def cross_attention(adapter: Adapter, seed: int) -> str:
    """Every source word affects the logits."""
    model, source, target = prepare(adapter, seed)
    before, moved = logits(adapter, model, source[:1], target[:1]), []
    first, _ = map(len, source_frame(adapter))
    for place in range(first, first + 5):  # the words of the longest source
        changed = source[:1].clone()
        changed[0, place] = another_word(adapter, changed[0, place])
        moved.append(distance(logits(adapter, model, changed, target[:1]), before))
    if min(moved) < 1e-6:
        place = moved.index(min(moved))
        raise Finding(f"a different word at position {place} of the source changes no logit")
    return f"a different source word moves the logits by {min(moved):.2g} or more"
