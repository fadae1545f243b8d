"""Quicker linear maps for inference on a CPU: two thirds of the time of decoding is spent in them.

Nothing here changes the model: as long as a block runs, its linear maps are computed in another
way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def onednn_linear(weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    """`torch.nn.functional.linear` of float32 values on a CPU, x (..., in) -> (..., out), computed
    by oneDNN.
    """
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def bfloat16_linear(weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    """A linear map of float32 values, x (..., in) -> (..., out), that multiplies in bfloat16."""
    return F.linear(x.bfloat16(), weight, bias).float()


@contextmanager
def onednn_linears(model: nn.Module) -> Iterator[None]:
    """While the block runs, oneDNN computes the float32 linear maps of a model on a CPU; it knows
    no gradients.

    torch itself asks Intel's MKL, which uses half the width of other makers' vector units.  The
    results differ by rounding alone.  Other types and devices, and builds of torch without oneDNN,
    are left as they are.
    """
    there = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    with _replaced({m: partial(onednn_linear, m.weight, m.bias) for m in _linears(model) if there}):
        yield


@contextmanager
def bfloat16_linears(model: nn.Module) -> Iterator[None]:
    """While the block runs, the float32 linear maps of a model on a CPU multiply in bfloat16; all
    else stays float32.

    That is quicker where the processor multiplies bfloat16 natively, and changes some translations
    by a word.
    """
    with _replaced(
        {
            m: partial(
                bfloat16_linear,
                *(None if t is None else t.detach().bfloat16() for t in (m.weight, m.bias)),
            )
            for m in _linears(model)
        }
    ):
        yield


def _linears(model: nn.Module) -> list[nn.Linear]:
    """The linear maps in float32 on a CPU, without those that another block has replaced already."""
    return [
        m
        for m in model.modules()
        if type(m) is nn.Linear
        and m.weight.device.type == "cpu"
        and m.weight.dtype == torch.float32
        and "forward" not in m.__dict__
    ]


@contextmanager
def _replaced(forwards: dict[nn.Linear, Callable[[Tensor], Tensor]]) -> Iterator[None]:
    try:
        for module, forward in forwards.items():
            module.forward = forward
        yield
    finally:
        for module in forwards:
            module.__dict__.pop("forward", None)
