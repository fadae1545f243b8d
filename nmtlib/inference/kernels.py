"""Copies of a model with other modules inside: quicker linear maps, to translate on a CPU.

Two thirds of the time of decoding there are spent in them.  The model that is given stays as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtlib.errors import require_one_of
from nmtlib.model.attention import MultiHeadAttention

Model = TypeVar("Model", bound=nn.Module)
PRECISIONS = ("fp32", "bf16")


class OneDnnLinear(nn.Module):
    """A float32 linear map on a CPU, (..., in) -> (..., out), computed by oneDNN; no gradients.

    torch itself asks Intel's MKL, which uses half the width of other makers' vector units.  The
    results differ by rounding alone.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight
        _refuse_gradients(weight, x)
        return torch.ops.mkldnn._linear_pointwise(x, weight, self.bias, "none", [], "")

    @staticmethod
    def available() -> bool:
        """Whether this build of torch has oneDNN."""
        there = torch.backends.mkldnn.is_available()
        return there and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class BFloat16Linear(nn.Module):
    """A linear map of float32 values, (..., in) -> (..., out), that multiplies in bfloat16.

    Quicker where the processor multiplies bfloat16 natively; it changes some translations by a
    word.  The weights are a rounded snapshot: what is trained later does not reach them.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.weight = self._rounded(linear.weight)
        self.bias = None if linear.bias is None else self._rounded(linear.bias)

    @staticmethod
    def _rounded(x: nn.Parameter) -> nn.Parameter:
        return nn.Parameter(x.detach().bfloat16(), requires_grad=x.requires_grad)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight
        _refuse_gradients(weight, x)
        return F.linear(x.bfloat16(), weight, self.bias).float()


def convert(model: Model, precision: str = "fp32") -> Model:
    """A copy whose float32 linear maps on a CPU are quicker and know no gradients.

    With "fp32" the copy shares all weights, so it follows what training does to them in place;
    "bf16" rounds those of the linear maps as they are now.  Maps of other types or on other
    devices stay what they are.  Raises ValueError for another precision.
    """
    require_one_of("precision", PRECISIONS, precision)
    quick = BFloat16Linear if precision == "bf16" else OneDnnLinear

    def part(module: nn.Module) -> nn.Module | None:
        exact = type(module) is nn.Linear and module.weight.dtype == torch.float32
        if not exact or module.weight.device.type != "cpu":
            return None
        return quick(module)

    if precision == "fp32" and not OneDnnLinear.available():
        return replaced(model, lambda module: None)
    return replaced(model, part)


def replaced(model: Model, part: Callable[[nn.Module], nn.Module | None]) -> Model:
    """A copy where `part(module)` stands for each module inside, unless that is None.

    The copy shares all tensors of the model, and those who listen to its attention.
    """
    shared = [*model.parameters(), *model.buffers()]
    shared += [m.listeners for m in model.modules() if isinstance(m, MultiHeadAttention)]
    copied = copy.deepcopy(model, {id(thing): thing for thing in shared})
    for parent in list(copied.modules()):
        for name, child in parent.named_children():
            if (other := part(child)) is not None:
                setattr(parent, name, other)
    return copied


def _refuse_gradients(weight: Tensor, x: Tensor) -> None:
    if torch.is_grad_enabled() and (weight.requires_grad or x.requires_grad):
        raise RuntimeError(
            "this copy of a model is for translating and knows no gradients; train the model that "
            "it was made of, or call the copy under torch.no_grad()"
        )
