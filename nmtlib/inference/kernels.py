"""A copy of a model with quicker linear maps: on a CPU they take two thirds of decoding."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtlib.errors import require_one_of
from nmtlib.model.attention import MultiHeadAttention

Model = TypeVar("Model", bound=nn.Module)
_LINEAR: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
HAS_ONEDNN = torch.backends.mkldnn.is_available() and _LINEAR is not None


class OneDnnLinear(nn.Module):
    """A float32 linear map on a CPU, (..., in) -> (..., out), by oneDNN, without gradients.

    torch itself uses Intel's MKL, which fills only half of other makers' vector units.  The results
    differ only by rounding.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight
        _refuse_gradients(weight, x)
        return _LINEAR(x, weight, self.bias, "none", [], "")


class BFloat16Linear(nn.Module):
    """A linear map of float32 values that multiplies in bfloat16, without gradients.

    Quicker where the processor multiplies bfloat16 natively; some translations change by a word.
    The weights are a rounded snapshot: later training does not reach them.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.bias = None
        for name, parameter in linear.named_parameters():
            rounded = parameter.detach().bfloat16()
            setattr(self, name, nn.Parameter(rounded, parameter.requires_grad))

    def forward(self, x: Tensor) -> Tensor:
        weight: Any = self.weight
        _refuse_gradients(weight, x)
        return F.linear(x.bfloat16(), weight, self.bias).float()


def _refuse_gradients(weight: Tensor, x: Tensor) -> None:
    if torch.is_grad_enabled() and (weight.requires_grad or x.requires_grad):
        raise RuntimeError(
            "this copy of a model translates and has no gradients; train the original model, or "
            "call the copy under torch.no_grad()"
        )


def convert(model: Model, precision: str = "fp32") -> Model:
    """A copy whose float32 linear maps on a CPU are quicker; the model stays as it is.

    The copy shares the model's tensors and the listeners of its attention, so training in place
    reaches it; "bf16" rounds the weights of the linear maps as they are now.  Maps of other types
    or on other devices stay, except for "bf16" on a GPU, where the whole copy is bfloat16.  Raises
    ValueError for another precision.
    """
    require_one_of("precision", ("fp32", "bf16"), precision)
    tensors = [*model.parameters(), *model.buffers()]
    whole = precision == "bf16" and any(tensor.device.type != "cpu" for tensor in tensors)
    shared: list[object] = [] if whole else [*tensors]
    shared += [m.listeners for m in model.modules() if isinstance(m, MultiHeadAttention)]
    copied = copy.deepcopy(model, {id(thing): thing for thing in shared})  # copies none of these
    if whole:
        return copied.bfloat16()
    if precision == "fp32" and not HAS_ONEDNN:
        return copied
    quick = BFloat16Linear if precision == "bf16" else OneDnnLinear
    for parent in list(copied.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Linear and _is_float32_on_cpu(child.weight):
                setattr(parent, name, quick(child))
    return copied


def _is_float32_on_cpu(x: Tensor) -> bool:
    return x.dtype == torch.float32 and x.device.type == "cpu"
