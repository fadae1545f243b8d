"""A copy of a model with quicker linear maps: on a CPU they take two thirds of decoding."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

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
        refuse_gradients(self.weight, x)
        return _LINEAR(x, self.weight, self.bias, "none", [], "")


def refuse_gradients(weight: Tensor, x: Tensor) -> None:
    """Raise RuntimeError where autograd would ask a quick linear map for its gradients."""
    if torch.is_grad_enabled() and (weight.requires_grad or x.requires_grad):
        raise RuntimeError(
            "this copy of a model translates and has no gradients; train the original model, or "
            "call the copy under torch.no_grad()"
        )


QUICKEST = OneDnnLinear if HAS_ONEDNN else None


def convert(model: Model, quick: type[nn.Module] | None = QUICKEST) -> Model:
    """A copy whose float32 linear maps on a CPU are `quick` ones; the model stays as it is.

    The copy shares the model's tensors and the listeners of its attention, so training in place
    reaches it.  Linear maps of other types or on other devices stay.
    """
    shared: list[object] = [*model.parameters(), *model.buffers()]
    shared += [m.listeners for m in model.modules() if isinstance(m, MultiHeadAttention)]
    copied = copy.deepcopy(model, {id(thing): thing for thing in shared})  # copies none of these
    for parent in list(copied.modules()):
        for name, child in parent.named_children():
            if quick and type(child) is nn.Linear and _is_float32_on_cpu(child.weight):
                setattr(parent, name, quick(child))
    return copied


def _is_float32_on_cpu(x: Tensor) -> bool:
    return x.dtype == torch.float32 and x.device.type == "cpu"
