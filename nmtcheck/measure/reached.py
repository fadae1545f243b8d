"""Whether a model ever comes to the fault of one of its parts."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from nmtcheck.adapter import Adapter
from nmtcheck.measure.helpers import build
from nmtcheck.registry import Finding


def of_the_part(
    adapter: Adapter, found: Finding, reached: Callable[[nn.Module], object], seed: int
) -> Exception:
    """What to raise for a fault of a part: a mere note where the model never comes to it.

    A model comes to it where `reached` is true of it, or raises.
    """
    if adapter.strict or not adapter.has("make_model"):
        return found
    try:
        if reached(build(adapter, seed)):
            return found
    except Exception:  # such as the Finding that its gradients are NaN
        return found
    note = "this is true of the part, but it never happens in the model"
    return NotImplementedError(f"{found.measured}; {note}")
