"""What a page promises about arguments, as a declaration from which inputs are drawn.

    signature={"query": Float("... T K"), "key": Float("... S K"), "mask": Mask("T S | ... T S")}

Sizes are named: the same name has the same size in all arguments, `...` stands for any leading
sizes, and `H*K` for a product. `anything` is the property that follows: whatever the page allows,
the answer gives what the solution gives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from nmtcourse.homework.draw import Draw

STATEMENT = "For any arguments that the text allows, the result is that of the definition."
ADVICE = "Which of these have you not tried yet: sizes, types, masks, equal numbers, large ones?"
LARGE = 101  # one size of some inputs
LEAST = {"V": 3}  # a vocabulary has more than one word; other sizes are at least 1


class Sizes:
    """The named sizes of one input."""

    def __init__(self, draw: Draw):
        self.draw, self.known = draw, dict[str, int]()
        self.kind = draw.choose(6)  # 3, 4: all are equal; 5: the first is large

    @cached_property
    def leading(self) -> list[int]:
        """The sizes that `...` stands for."""
        return [self.draw.size(1, 3) for _ in range(self.draw.choose(3))]

    @cached_property
    def common(self) -> int:
        """The size of all, where they are equal."""
        return self.draw.size(2, 4)

    def of(self, name: str) -> int:
        """The size with a name, a number, or a product of these."""
        if "*" in name:
            return math.prod(map(self.of, name.split("*")))
        if name.isdigit():
            return int(name)
        if name not in self.known:
            large = self.kind == 5 and not self.known
            drawn = LARGE if large else self.draw.size(LEAST.get(name, 1), 6)
            self.known[name] = max(self.common, 3) if self.kind in (3, 4) else drawn
        return self.known[name]

    def shape(self, names: str) -> list[int]:
        """The sizes in a text such as "... T S"."""
        found: list[int] = []
        for name in names.split():
            found += self.leading if name == "..." else [self.of(name)]
        return found


@dataclass(frozen=True)
class Float:
    """A tensor of floating-point numbers; all of an input have the same type.

    It may be float16 or bfloat16 if `half`. Some of the numbers may be -inf if `infinite`, though
    not a whole row. Rows are shifted by some hundred if `far`. Numbers are divided by the root of
    the size called `scale`.
    """

    shape: str
    infinite: bool = False
    far: bool = False
    scale: str = ""
    half: bool = True

    def sample(self, draw: Draw, sizes: Sizes, known: dict[str, Any]) -> Tensor:
        """One such tensor."""
        shape = sizes.shape(self.shape)
        scale = max(0.5, sizes.of(self.scale) ** -0.5) if self.scale else 1.0
        found = draw.normal(*shape, scale=scale)
        if self.far and draw.choose(3) == 2:
            rows = torch.randint(-2, 3, (*shape[:-1], 1), generator=draw.generator)
            found = draw.laid(found + 300 * rows)
        if self.infinite and draw.choose(3) == 2:
            found = found.masked_fill(~draw.mask(*shape), -math.inf)
        return found


@dataclass(frozen=True)
class Mask:
    """A boolean tensor in one of several shapes, or None if it is `optional`.

    Where it is not `empty`, each row of the last dimension has a True.
    """

    shapes: str
    optional: bool = False
    empty: bool = True

    def sample(self, draw: Draw, sizes: Sizes, known: dict[str, Any]) -> Tensor | None:
        """One such mask."""
        shapes = [None] * self.optional + [each.strip() for each in self.shapes.split("|")]
        shape = draw.one_of(shapes)
        return None if shape is None else draw.mask(*sizes.shape(shape), empty=self.empty)


@dataclass(frozen=True)
class Ids:
    """Whole numbers from `low` to below the size called `below`; some are 0 if `padded`."""

    shape: str
    below: str
    low: int = 0
    padded: bool = False

    def sample(self, draw: Draw, sizes: Sizes, known: dict[str, Any]) -> Tensor:
        """One such tensor."""
        shape = sizes.shape(self.shape)
        found = draw.ids(self.low, sizes.of(self.below), *shape)
        if self.padded and draw.choose(2):
            hidden = torch.rand(shape, generator=draw.generator) < 0.4
            hidden.view(-1)[0] = False
            found = draw.laid(found.masked_fill(hidden, 0))
        return found


@dataclass(frozen=True)
class Size:
    """A size with a name, as a number."""

    name: str

    def sample(self, draw: Draw, sizes: Sizes, known: dict[str, Any]) -> int:
        """The size."""
        return sizes.of(self.name)


@dataclass(frozen=True)
class Whole:
    """A whole number between two bounds, a small one more often; a multiple of `step`."""

    low: int
    high: int
    step: int = 1

    def sample(self, draw: Draw, sizes: Sizes, known: dict[str, Any]) -> int:
        """One such number."""
        count = (self.high - self.low) // self.step + 1
        near = min(count, 12)
        return self.low + self.step * draw.choose(draw.one_of([near, near, count]))


@dataclass(frozen=True)
class OneOf:
    """One of several values."""

    values: tuple[Any, ...]

    def sample(self, draw: Draw, sizes: Sizes, known: dict[str, Any]) -> Any:
        """One of them."""
        return draw.one_of(self.values)


@dataclass(frozen=True)
class Named:
    """A dictionary of such values by name."""

    parts: Mapping[str, Any]

    def sample(self, draw: Draw, sizes: Sizes, known: dict[str, Any]) -> dict[str, Any]:
        """One such dictionary."""
        return {name: part.sample(draw, sizes, known) for name, part in self.parts.items()}


@dataclass(frozen=True)
class Either:
    """An earlier argument itself, or a value of its own."""

    name: str
    other: Any

    def sample(self, draw: Draw, sizes: Sizes, known: dict[str, Any]) -> Any:
        """One of the two; the sizes of the other are those of the earlier argument."""
        if draw.choose(4) == 3:
            own = zip(self.other.shape.split(), known[self.name].shape, strict=True)
            sizes.known |= {name: size for name, size in own if name.isalpha()}
            return known[self.name]
        return self.other.sample(draw, sizes, known)


def arguments(signature: Mapping[str, Any], draw: Draw) -> list[Any]:
    """The arguments of one call."""
    sizes, known = Sizes(draw), dict[str, Any]()
    if all(getattr(kind, "half", True) for kind in signature.values()):
        draw.halved()
    for name, kind in signature.items():
        known[name] = kind.sample(draw, sizes, known)
    return [*known.values()]


def anything(signature: Mapping[str, Any]) -> Any:
    """The property that follows from a signature."""

    def measure(answer: Any, draw: Draw) -> Any:
        found = answer(*arguments(signature, draw))
        if not isinstance(found, tuple | list):
            yield "your result", found
            return
        yield "the number of results", len(found)
        for place, part in enumerate(found, 1):
            yield f"result {place}", part

    return measure
