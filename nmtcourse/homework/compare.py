"""Comparisons of checks: two results are equal, an answer has a form, a call is refused."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

DATA = (type(None), bool, int, float, str, bytes, list, tuple, set, frozenset, Mapping)
ROUNDING = {torch.float64: 1e-9, torch.float16: 1e-2, torch.bfloat16: 6e-2}  # otherwise 1e-4
USUAL_TYPES = (torch.float32, torch.int64, torch.bool)  # a report names every other one


# Exact numbers, which are as right as a float; a subclass of the answer's may lie.
FRACTIONS = (Fraction, Decimal)


class Finding(AssertionError):
    """A property does not hold: what was measured, what was expected, and perhaps a cause.

    `usual` is the advice that goes with an exception, `given` the part of `measured` that says what
    the answer was called with. A `minor` one is of the type of the right numbers. `path` leads to
    the wrong part of a value, such as "[0, 1]" or ".shape", and `part` is that part as text.
    `shown` says after which calls the fault is seen, and `lines` show it.
    """

    usual = given = ""
    minor = False
    shown: Any = None
    lines: Sequence[str] = ()

    def __init__(
        self, measured: str, expected: str, cause: str = "", path: str = "", part: str = ""
    ):
        super().__init__(f"{measured}; expected {expected}")
        self.measured, self.expected, self.cause = measured, expected, cause
        self.path, self.part = path, part

    @property
    def is_rough(self) -> bool:
        """Whether an error was raised, or a shape is wrong: plainer than a wrong number."""
        return self.path.endswith(".shape") or not self.part


@dataclass
class Shown:
    """Where a fault is seen: what was looked at, its value, and the calls before."""

    what: str
    value: Any
    calls: list[Any]


class Forged(BaseException):
    """What another process sent is no transcript of an answer; a check does not catch it."""


def same(
    result: Any,
    expected: Any,
    what: str,
    *,
    cause: str = "",
    tolerance: float = 0,
    moved: float = 0,
    path: str = "",
) -> None:
    """Raise Finding unless two tensors, numbers, containers of them or other values are equal.

    Numbers are equal up to rounding; `tolerance` is relative to the largest number, and several
    times `moved` is added to it. `what` names the result in the report, and `path` says where in a
    larger value it is.
    """
    if moved == math.inf:  # the solution itself is not certain: this value decides nothing
        return None
    if isinstance(expected, Tensor):
        return _same_tensor(result, expected, what, cause, tolerance, 8 * moved, path)
    if isinstance(expected, bool) and isinstance(result, Tensor) and result.shape == ():
        result = result.detach().numpy()[()]
    if isinstance(result, np.generic):
        result = result.item()
    if isinstance(expected, float) and type(result) in FRACTIONS:
        result = float(result)
    if isinstance(expected, float) and isinstance(result, int | float):
        # By way of float32: Python's floats are held to the precision of torch's.
        measured, right = torch.tensor(float(result)).double(), torch.tensor(expected).double()
        return _same_tensor(measured, right, what, cause, tolerance or 1e-4, 8 * moved, path)
    if isinstance(expected, list | tuple) and isinstance(result, (type(expected), tuple)):
        for place, (item, right) in enumerate(zip(result, expected, strict=False)):
            part = f"{what}: number {place}"
            inside = f"{path}[{place}]"
            same(item, right, part, cause=cause, tolerance=tolerance, moved=moved, path=inside)
        if len(result) != len(expected):
            about = f"{what}: {len(result)} of them, {short(result)}"
            raise Finding(about, f"{len(expected)}", "", path, short(result))
        return None
    if isinstance(expected, Mapping) and isinstance(result, Mapping):
        same(sorted(result), sorted(expected), f"the names in {what}", cause=cause)
        for name, value in expected.items():
            part = f"{what} of {name}"
            inside = f"{path}[{name!r}]"
            same(
                result[name],
                value,
                part,
                cause=cause,
                tolerance=tolerance,
                moved=moved,
                path=inside,
            )
        return None
    # True == 1 == 1.0 in Python, and an object that is no data may call itself equal to anything.
    needs_type = isinstance(expected, bool | int) or not isinstance(result, DATA)
    differs = needs_type and type(result) is not type(expected)
    if differs or result != expected:
        correct = short(expected)
        if isinstance(expected, float):
            correct = f"the number {expected:.4g}"
        raise Finding(f"{what} is {short(result)}", correct, cause, path, short(result))
    return None


def _same_tensor(
    result: Any,
    expected: Tensor,
    what: str,
    cause: str,
    tolerance: float,
    moved: float,
    path: str,
) -> None:
    shaped(result, expected.shape, what, path)
    if result.dtype != expected.dtype:
        kind = f"{result.dtype}"
        measured = f"{what} has the dtype {kind}"
        finding = Finding(measured, f"{expected.dtype}", "", f"{path}.dtype", kind)
        # Minor, if the numbers are right in the coarser of the two types.
        with contextlib.suppress(Finding, RuntimeError):
            coarse = max((result.dtype, expected.dtype), key=lambda d: ROUNDING.get(d, 1e-4))
            same(result.to(coarse), expected.to(coarse), what, tolerance=tolerance)
            finding.minor = True
        raise finding
    if result.layout == torch.strided and torch.equal(result, expected):  # as most are
        return
    tolerance = tolerance or ROUNDING.get(expected.dtype, 1e-4)
    numbers, right = result.detach().double(), expected.detach().double()
    # First infinite numbers and NaN, which must be the same; then the size of the others.
    wrong = numbers.isfinite() != right.isfinite()
    wrong |= ~right.isfinite() & (numbers != right) & ~(numbers.isnan() & right.isnan())
    if not wrong.any():
        gaps = (numbers - right).nan_to_num().abs()
        largest = 0.0
        if gaps.numel():
            largest = float(right.nan_to_num(0, 0, 0).abs().max())
        wrong = gaps > tolerance * max(1.0, largest) + moved
    if wrong.any():
        place = tuple(wrong.nonzero()[0].tolist())
        at = ""
        if place:
            at = f" at {list(place)}"
            path += f"{list(place)}"
        if expected.dtype == torch.bool:
            part, correct = f"{bool(result[place])}", f"{bool(expected[place])}"
        else:
            part, correct = apart(float(numbers[place]), float(right[place]))
        raise Finding(f"{what}{at} is {part}", correct, cause, path, part)


def apart(value: float, other: float) -> tuple[str, str]:
    """Two numbers in four digits, or in as many as show that they differ.

    >>> apart(0.123456, 0.5)
    ('0.1235', '0.5')
    >>> apart(0.59000001, 0.59)
    ('0.59000001', '0.59')
    """
    for digits in range(4, 17):
        if number(value, digits) != number(other, digits):
            break
    return number(value, digits), number(other, digits)


def number(value: float, digits: int = 4) -> str:
    """A number in so many digits.

    >>> number(0.123456)
    '0.1235'
    """
    if math.isfinite(value) and value == int(value):
        return str(int(value))
    return f"{value:.{digits}g}"


def shaped(result: Any, shape: Any, what: str, path: str = "") -> None:
    """Raise Finding unless the result is a tensor of that shape."""
    if not isinstance(result, Tensor):
        cause = "A function without `return` gives None." if result is None else ""
        raise Finding(f"{what} is {short(result)}", "a tensor", cause, path, short(result))
    measured = tuple(result.shape)
    if measured != tuple(shape):
        about = f"{what} has the shape {measured}"
        raise Finding(about, f"{tuple(shape)}", "", f"{path}.shape", f"{measured}")


def gradients(result: Tensor, towards: Tensor, *inputs: Tensor) -> list[Tensor]:
    """The gradients of inputs for that of a result; zeros for an input that is not used."""
    shaped(result, towards.shape, "a result")
    if not result.requires_grad:
        return [torch.zeros_like(x) for x in inputs]
    slopes = torch.autograd.grad(result, inputs, towards.to(result.dtype), allow_unused=True)
    dense = []
    for slope, tensor in zip(slopes, inputs, strict=True):
        if slope is None:
            dense.append(torch.zeros_like(tensor))
        else:
            dense.append(slope.to_dense())
    return dense


def holds(condition: Any, measured: str, expected: str, cause: str = "") -> None:
    """Raise Finding unless the condition is true."""
    if not condition:
        raise Finding(measured, expected, cause)


def refuses(call: Callable, arguments: tuple, what: str, named: int | None = None) -> None:
    """Raise Finding unless a call raises ValueError, whose message has the number `named`."""
    try:
        result = call(*arguments)
    except ValueError as error:
        if named is not None:
            numbers = re.findall(r"(?<!\w)-\d+|\d+", str(error))
            measured = f"the message {str(error)!r} for {what}"
            holds(str(named) in numbers, measured, f"a message that names {named}")
    except NotImplementedError:
        raise
    except Exception as error:
        holds(False, f"{type(error).__name__} for {what}", "ValueError")
    else:
        holds(False, f"no error for {what}, but {short(result)}", "ValueError")


def short(value: Any) -> str:
    """A value in at most 80 characters.

    >>> short([1, 2, 3])
    '[1, 2, 3]'
    """
    if isinstance(value, Tensor) and value.numel() > 6:
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, Tensor):
        return f"{_rounded(value.tolist())}{_unusual_type(value)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:60]} … {text[-15:]}"


def _unusual_type(tensor: Tensor) -> str:
    """The type of a tensor after a space; nothing for a usual one."""
    if tensor.dtype in USUAL_TYPES:
        return ""
    return f" {tensor.dtype}".replace("torch.", "")


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return value


def described(arguments: Mapping[str, Any]) -> str:
    """The arguments of a call in words; modules, functions and weights are left out.

    >>> described({"x": torch.zeros(2, 5), "n_heads": 2})
    'x of shape (2, 5), n_heads = 2'
    """
    parts = []
    for name, value in arguments.items():
        if isinstance(value, Tensor) and value.numel() > 6:
            parts.append(f"{name} of shape {tuple(value.shape)}{_unusual_type(value)}")
        elif isinstance(value, torch.nn.Module | torch.Generator) or callable(value):
            continue
        elif isinstance(value, dict) and any(isinstance(v, Tensor) for v in value.values()):
            continue
        elif value is not None:
            parts.append(f"{name} = {short(value)}")
    return ", ".join(parts)
