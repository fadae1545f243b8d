"""What a page promises about arguments, as a declaration from which inputs are drawn and shrunk.

    signature={"query": Float("... T K"), "key": Float("... S K"), "mask": Mask("T S | ... T S")}

Sizes are named: the same name has the same size in all arguments, `...` stands for any leading
sizes, and `H*K` for a product.

A kind of value is an object with a method `sample`. It gets the `Draw` of the input, and the
arguments that were drawn `earlier` in the same call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nmtcourse.homework.inputs import LONG, Draw


@dataclass(frozen=True)
class Float:
    """A tensor of floating-point numbers; all of an input have the same type.

    It may be float16 or bfloat16 if `half`. Some of the numbers may be -inf if `infinite`, though
    not a whole row. Rows are shifted by some
    hundred, or by some ten thousand, if `far`. Numbers are divided by the root of
    the size called `scale`. All may be `large` times as large. It requires a gradient if `grad`.
    """

    shape: str
    infinite: bool = False
    far: bool = False
    scale: str = ""
    half: bool = True
    large: float = 1.0
    grad: bool = False

    def sample(self, draw: Draw, earlier: dict[str, Any]) -> Tensor:
        """One such tensor."""
        shape = draw.shape(self.shape)
        scale = 1.0
        if self.scale:
            scale = max(0.5, draw.named(self.scale) ** -0.5)
        numbers = draw.normal(*shape, scale=scale, large=self.large)
        if self.far and draw.choose(3) == 2:
            rows = torch.randint(-2, 3, (*shape[:-1], 1), generator=draw.generator)
            step = 300
            if not draw.half:
                step = draw.one_of([300, 20_000])
            numbers = draw.laid(numbers + step * rows)
        if self.infinite and draw.choose(3) == 2:
            numbers = numbers.masked_fill(~draw.mask(*shape), -math.inf)
        if self.grad:
            numbers.requires_grad_()
        return numbers


@dataclass(frozen=True)
class Mask:
    """A boolean tensor in one of several shapes, or None if it is `optional`.

    A size with a question mark may be 1 instead; the first of `...?` may be missing. Where it is
    not `empty`, each row of the last dimension has a True.
    """

    shapes: str
    optional: bool = False
    empty: bool = True

    def sample(self, draw: Draw, earlier: dict[str, Any]) -> Tensor | None:
        """One such mask."""
        shapes: list[str | None] = [text.strip() for text in self.shapes.split("|")]
        if self.optional:
            shapes = [None, *shapes]
        shape = draw.one_of(shapes)
        if shape is None:
            return None
        sizes: list[int] = []
        for name in shape.split():
            named_sizes = draw.shape(name.rstrip("?"))  # of `...`, any number of them
            if name == "...?":
                missing = draw.choose(len(named_sizes) + 1)
                named_sizes = named_sizes[missing:]
            for size in named_sizes:
                if "?" in name:
                    size = draw.one_of([size, size, 1])
                sizes.append(size)
        return draw.mask(*sizes, empty=self.empty)


@dataclass(frozen=True)
class Ids:
    """Whole numbers from `low` to below the size called `below`; some are 0 if `padded`.

    At least one is not 0; some hold the highest number as often as any other.
    """

    shape: str
    below: str
    low: int = 0
    padded: bool = False

    def sample(self, draw: Draw, earlier: dict[str, Any]) -> Tensor:
        """One such tensor."""
        draw.huge = False  # a loop over all pairs of 520 words would be too slow
        shape = draw.shape(self.shape)
        ids = draw.ids(self.low, draw.named(self.below), *shape)
        if draw.choose(2) or draw.sizing == LONG:
            highest = draw.named(self.below) - 1
            last = ids
            if ids.dim():
                last = ids[..., -1:]
            last.fill_(highest)
        if self.padded and draw.choose(2):
            hidden = torch.rand(shape, generator=draw.generator) < draw.one_of([0.4, 0.9])
            hidden.view(-1)[draw.random.randrange(hidden.numel())] = False
            ids = draw.laid(ids.masked_fill(hidden, 0))
        return ids


@dataclass(frozen=True)
class Size:
    """A size with a name, as a number."""

    name: str

    def sample(self, draw: Draw, earlier: dict[str, Any]) -> int:
        """The size."""
        return draw.named(self.name)


@dataclass(frozen=True)
class Whole:
    """A whole number between two bounds, a small one more often; a multiple of `step`."""

    low: int
    high: int
    step: int = 1

    def sample(self, draw: Draw, earlier: dict[str, Any]) -> int:
        """One such number."""
        count = (self.high - self.low) // self.step + 1
        most = draw.one_of([min(count, 12), min(count, 12), count])
        steps = draw.choose(most)
        if draw.turn:  # after the choice: a later turn has the same choices, and other numbers
            steps = draw.random.randrange(most)
        return self.low + self.step * steps


class OneOf:
    """One of several values, or what one of several kinds gives."""

    def __init__(self, *values: Any):
        self.values = values

    def sample(self, draw: Draw, earlier: dict[str, Any]) -> Any:
        """One of them."""
        return sample(draw.one_of(self.values), draw, earlier)


@dataclass(frozen=True)
class Named:
    """A dictionary of such values by name."""

    parts: Mapping[str, Any]

    def sample(self, draw: Draw, earlier: dict[str, Any]) -> dict[str, Any]:
        """One such dictionary, in any order."""
        names = draw.shuffled([*self.parts])
        return {name: self.parts[name].sample(draw, earlier) for name in names}


@dataclass(frozen=True)
class Either:
    """An earlier argument itself, unless its numbers are large, or a value of its own."""

    name: str
    kind: Any

    def sample(self, draw: Draw, earlier: dict[str, Any]) -> Any:
        """One of the two; the sizes of the other are those of the earlier argument."""
        if draw.choose(4) == 3 and draw.kind != 3:  # the product of two large ones is too large
            argument = earlier[self.name]
            for name, size in zip(self.kind.shape.split(), argument.shape, strict=True):
                if name.isalpha():  # no `...`, number or product
                    draw.known[name] = size
            return argument
        return self.kind.sample(draw, earlier)


@dataclass(frozen=True)
class Made:
    """What a function makes of a `Draw`, and of the arguments before if it `needs` them."""

    make: Callable[..., Any]
    needs: bool = False
    half: bool = False

    def sample(self, draw: Draw, earlier: dict[str, Any]) -> Any:
        """One such value."""
        if self.needs:
            return self.make(draw, earlier)
        return self.make(draw)


def sample(kind: Any, draw: Draw, earlier: dict[str, Any]) -> Any:
    """A value of a kind; what is no kind of value is a value itself."""
    if hasattr(kind, "sample"):
        return kind.sample(draw, earlier)
    return kind


def draw_arguments(
    signature: Mapping[str, Any], draw: Draw, before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The arguments of one call by name.

    `before` has those of earlier calls of a trace.
    """
    drawn: dict[str, Any] = {**(before or {})}
    # Half precision for all of them or for none: an input has one type of numbers.
    kinds = [kind for kind in signature.values() if isinstance(kind, Float | Made)]
    if before is None and kinds and all(kind.half for kind in kinds):
        draw.halved()
    for name, kind in signature.items():
        drawn[name] = sample(kind, draw, drawn)
    return drawn


def left_in(arguments: Mapping[str, Any], changes: tuple[str, ...] = ()) -> Any:
    """What a call leaves in its arguments: how often each was called, a module that it changes."""
    for name, value in arguments.items():
        if hasattr(value, "calls"):
            yield f"the calls of {name}", value.calls
        if name in changes and isinstance(value, torch.nn.Module):
            yield f"whether {name} is in training mode", value.training
            for part, weight in sorted(value.named_parameters()):
                slope = weight.grad
                if slope is None:
                    slope = torch.zeros_like(weight)
                yield f"the gradient of {part}", slope, 1e-5  # as exact as float32
                yield f"the weight {part}", weight, 1e-5


def observe_results(result: Any, tracked: bool) -> Any:
    """What is compared of a result: itself, or its parts; a list is like a tuple.

    Whether it requires a gradient is, where one can be `tracked` to an argument.
    """
    named_parts = [("your result", result)]
    if isinstance(result, list | tuple):
        named_parts = [("your result", [*result])]
        if any(map(torch.is_tensor, result)):
            yield "the number of results", len(result)
            named_parts = [(f"result {number}", part) for number, part in enumerate(result, 1)]
    for name, part in named_parts:
        yield name, part
        if tracked and isinstance(part, Tensor):
            yield f"whether {name} requires a gradient", part.requires_grad
