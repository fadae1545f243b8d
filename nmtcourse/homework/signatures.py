"""What a page promises about arguments, as a declaration from which inputs are drawn and shrunk.

    signature={"query": Float("... T K"), "key": Float("... S K"), "mask": Mask("T S | ... T S")}

Sizes are named: the same name has the same size in all arguments, `...` stands for any leading
sizes, and `H*K` for a product.
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
    not a whole row. Rows are shifted by some hundred if `far`. Numbers are divided by the root of
    the size called `scale`. All may be `large` times as large. It requires a gradient if `grad`.
    """

    shape: str
    infinite: bool = False
    far: bool = False
    scale: str = ""
    half: bool = True
    large: float = 1.0
    grad: bool = False

    def sample(self, draw: Draw, known: dict[str, Any]) -> Tensor:
        """One such tensor."""
        shape = draw.shape(self.shape)
        scale = max(0.5, draw.named(self.scale) ** -0.5) if self.scale else 1.0
        found = draw.normal(*shape, scale=scale, large=self.large)
        if self.far and draw.choose(3) == 2:
            rows = torch.randint(-2, 3, (*shape[:-1], 1), generator=draw.generator)
            found = draw.laid(found + 300 * rows)
        if self.infinite and draw.choose(3) == 2:
            found = found.masked_fill(~draw.mask(*shape), -math.inf)
        return found.requires_grad_() if self.grad else found


@dataclass(frozen=True)
class Mask:
    """A boolean tensor in one of several shapes, or None if it is `optional`.

    A size with a question mark may be 1 instead; the first of `...?` may be missing. Where it is
    not `empty`, each row of the last dimension has a True.
    """

    shapes: str
    optional: bool = False
    empty: bool = True

    def sample(self, draw: Draw, known: dict[str, Any]) -> Tensor | None:
        """One such mask."""
        shapes = [None] * self.optional + [each.strip() for each in self.shapes.split("|")]
        shape = draw.one_of(shapes)
        sizes: list[int] = []
        for name in (shape or "").split():
            own = draw.shape(name.rstrip("?"))
            own = own[draw.choose(len(own) + 1) :] if name == "...?" else own
            sizes += [draw.one_of([n, n, 1]) if "?" in name else n for n in own]
        return None if shape is None else draw.mask(*sizes, empty=self.empty)


@dataclass(frozen=True)
class Ids:
    """Whole numbers from `low` to below the size called `below`; some are 0 if `padded`.

    At least one is not 0; some hold the highest number as often as any other.
    """

    shape: str
    below: str
    low: int = 0
    padded: bool = False

    def sample(self, draw: Draw, known: dict[str, Any]) -> Tensor:
        """One such tensor."""
        shape = draw.shape(self.shape)
        found = draw.ids(self.low, draw.named(self.below), *shape)
        if draw.choose(2) or draw.sizing == LONG:
            (found[..., -1:] if found.dim() else found).fill_(draw.named(self.below) - 1)
        if self.padded and draw.choose(2):
            hidden = torch.rand(shape, generator=draw.generator) < draw.one_of([0.4, 0.9])
            hidden.view(-1)[draw.random.randrange(hidden.numel())] = False
            found = draw.laid(found.masked_fill(hidden, 0))
        return found


@dataclass(frozen=True)
class Size:
    """A size with a name, as a number."""

    name: str

    def sample(self, draw: Draw, known: dict[str, Any]) -> int:
        """The size."""
        return draw.named(self.name)


@dataclass(frozen=True)
class Whole:
    """A whole number between two bounds, a small one more often; a multiple of `step`."""

    low: int
    high: int
    step: int = 1

    def sample(self, draw: Draw, known: dict[str, Any]) -> int:
        """One such number."""
        count = (self.high - self.low) // self.step + 1
        most = draw.one_of([min(count, 12), min(count, 12), count])
        chosen = draw.choose(most)
        return self.low + self.step * (draw.random.randrange(most) if draw.turn else chosen)


class OneOf:
    """One of several values, or what one of several kinds gives."""

    def __init__(self, *values: Any):
        self.values = values

    def sample(self, draw: Draw, known: dict[str, Any]) -> Any:
        """One of them."""
        found = draw.one_of(self.values)
        return found.sample(draw, known) if hasattr(found, "sample") else found


@dataclass(frozen=True)
class Named:
    """A dictionary of such values by name."""

    parts: Mapping[str, Any]

    def sample(self, draw: Draw, known: dict[str, Any]) -> dict[str, Any]:
        """One such dictionary, in any order."""
        return {n: self.parts[n].sample(draw, known) for n in draw.shuffled([*self.parts])}


@dataclass(frozen=True)
class Either:
    """An earlier argument itself, unless its numbers are large, or a value of its own."""

    name: str
    other: Any

    def sample(self, draw: Draw, known: dict[str, Any]) -> Any:
        """One of the two; the sizes of the other are those of the earlier argument."""
        if draw.choose(4) == 3 and draw.kind != 3:  # the product of two large ones is too large
            own = zip(self.other.shape.split(), known[self.name].shape, strict=True)
            draw.known |= {name: size for name, size in own if name.isalpha()}
            return known[self.name]
        return self.other.sample(draw, known)


@dataclass(frozen=True)
class Made:
    """What a function makes of a `Draw`, and of the arguments before if it `needs` them."""

    make: Callable[..., Any]
    needs: bool = False
    half: bool = False

    def sample(self, draw: Draw, known: dict[str, Any]) -> Any:
        """One such value."""
        return self.make(draw, known) if self.needs else self.make(draw)


def arguments(
    signature: Mapping[str, Any], draw: Draw, before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The arguments of one call by name; what is no kind of value is a value itself.

    `before` has those of earlier calls of a trace.
    """
    known: dict[str, Any] = {**(before or {})}
    kinds = [kind for kind in signature.values() if isinstance(kind, Float | Made)]
    if before is None and kinds and all(kind.half for kind in kinds):
        draw.halved()
    for name, kind in signature.items():
        known[name] = kind.sample(draw, known) if hasattr(kind, "sample") else kind
    return known


def left_in(given: Mapping[str, Any], changes: tuple[str, ...] = ()) -> Any:
    """What a call leaves in its arguments: how often each was called, a module that it changes."""
    for name, value in given.items():
        if hasattr(value, "calls"):
            yield f"the calls of {name}", value.calls
        if name in changes and isinstance(value, torch.nn.Module):
            yield f"whether {name} is in training mode", value.training
            for part, weight in sorted(value.named_parameters()):
                slope = torch.zeros_like(weight) if weight.grad is None else weight.grad
                yield f"the gradient of {part}", slope, 1e-5  # as exact as float32
                yield f"the weight {part}", weight, 1e-5


def results(found: Any, tracked: bool) -> Any:
    """What is compared of a result: itself, or its parts; a list is like a tuple.

    Whether it requires a gradient is, where one can be `tracked` to an argument.
    """
    several = isinstance(found, list | tuple) and any(map(torch.is_tensor, found))
    if several:
        yield "the number of results", len(found)
    elif isinstance(found, list | tuple):
        found = [*found]
    for place, part in enumerate(found if several else [found], 1):
        what = f"result {place}" if several else "your result"
        yield what, part
        if tracked and isinstance(part, Tensor):
            yield f"whether {what} requires a gradient", part.requires_grad
