"""Checks of an encoder layer: residual connections, norms and the feed-forward block."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcheck.adapter import Adapter, Sizes
from nmtcheck.measure.helpers import TOLERANCE, distance, tensor
from nmtcheck.registry import Finding, check


def is_norm(module: nn.Module) -> bool:
    """Whether a module normalises, judged by its class."""
    return "norm" in type(module).__name__.lower()


@torch.no_grad()
def run_layer(module: nn.Module, x: Tensor) -> Tensor:
    """What an encoder layer makes of x (B, S, D) without padding, found to have its shape."""
    mask = torch.ones(len(x), 1, 1, x.size(1), dtype=torch.bool)
    return tensor(module(x, mask), "the result of an encoder layer", tuple(x.shape))


class Studied(NamedTuple):
    """An encoder layer whose sub-layers are silent: all weights but those of norms are zero."""

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
        possible = "There is no residual connection, or it adds the wrong tensor."
        raise Finding(message, possible=possible)
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
        raise Finding(message, possible="The norm is missing or not called.")
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
