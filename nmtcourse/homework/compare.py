"""The two comparisons of most checks: two results are equal, and an answer has a form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nmtcourse.homework.task import Finding


def same(result: Any, expected: Any, what: str, *, cause: str = "", tolerance: float = 0) -> None:
    """Raise Finding unless two tensors, numbers or other values are equal up to rounding.

    `what` names the result in the report. The default tolerance is 1e-4 for float32 and 1e-8 for
    float64.
    """
    if not isinstance(expected, Tensor | float):
        if isinstance(result, Tensor) or result != expected:
            raise Finding(f"{what}: {short(result)}", short(expected), cause)
        return
    if isinstance(expected, float):
        is_number = isinstance(result, int | float) or (
            isinstance(result, Tensor) and result.numel() == 1
        )
        if not is_number:
            raise Finding(f"{what} is {short(result)}", f"the number {expected:.5g}", cause)
        result, expected = torch.tensor(float(result)), torch.tensor(expected)
        tolerance = tolerance or 1e-4
    shaped(result, expected.shape, what)
    if result.dtype != expected.dtype and result.is_floating_point():
        finding = Finding(f"{what} has the dtype {result.dtype}", f"{expected.dtype}", cause)
        finding.usual = "A tensor made without `dtype=` is float32, whatever the input is."
        raise finding
    if torch.bool in (result.dtype, expected.dtype):  # torch has no isfinite for these
        result, expected = result.float(), expected.float()
    if not result.isfinite().equal(expected.isfinite()):
        wrong = (result.isfinite() != expected.isfinite()).nonzero()
        place = wrong[0].tolist()
        at, value = f" at {place}" if place else "", float(result[tuple(place)])
        wanted = f"{float(expected[tuple(place)]):.5g}"
        raise Finding(f"{what}{at} is {value:.5g}, one of {len(wrong)} wrong ones", wanted, cause)
    tolerance = tolerance or (1e-4 if expected.dtype != torch.float64 else 1e-8)
    gap = (result.detach().double() - expected.detach().double()).nan_to_num().abs()
    if gap.numel() and float(gap.max()) > tolerance * max(1.0, float(expected.abs().max())):
        place = tuple(torch.unravel_index(gap.argmax(), gap.shape))
        where = [int(i) for i in place]
        at = f" at {where}" if where else ""
        raise Finding(
            f"{what}{at} is {float(result[place]):.5g}", f"{float(expected[place]):.5g}", cause
        )


def shaped(result: Any, shape: Any, what: str) -> None:
    """Raise Finding unless the result is a tensor of that shape."""
    if not isinstance(result, Tensor):
        cause = "A function without `return` gives None." if result is None else ""
        raise Finding(f"{what} is {short(result)}", "a tensor", cause)
    if tuple(result.shape) != tuple(shape):
        squeezed = tuple(result.shape) == tuple(size for size in shape if size != 1)
        cause = "An axis of size one is lost: `squeeze()` alone removes all." * squeezed
        raise Finding(f"{what} has the shape {tuple(result.shape)}", f"{tuple(shape)}", cause)


def holds(condition: Any, measured: str, expected: str, cause: str = "") -> None:
    """Raise Finding unless the condition is true."""
    if not condition:
        raise Finding(measured, expected, cause)


def refuses(call: Callable, given: tuple, what: str, named: str = "") -> None:
    """Raise Finding unless a call raises ValueError, whose message contains `named`."""
    try:
        call(*given)
    except ValueError as error:
        holds(named in str(error), f"the message {str(error)!r}", f"a message that names {named}")
    except Exception as error:
        holds(False, f"{type(error).__name__} for {what}", "ValueError")
    else:
        holds(False, f"no error for {what}", "ValueError")


def short(thing: Any) -> str:
    """A value in at most 80 characters.

    >>> short([1, 2, 3])
    '[1, 2, 3]'
    """
    if isinstance(thing, Tensor) and thing.numel() > 6:
        return f"a tensor of shape {tuple(thing.shape)}"
    text = " ".join(repr(thing).split())
    return text if len(text) <= 80 else f"{text[:60]} … {text[-15:]}"
