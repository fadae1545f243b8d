"""What a page promises about arguments, as a declaration from which inputs are drawn and shrunk.

    signature={"query": Float("... T K"), "key": Float("... S K"), "mask": Mask("T S | ... T S")}

Sizes are named: the same name has the same size in all arguments, `...` stands for any leading
sizes, and `H*K` for a product.

Every input hangs on a list of small choices, so that it can be repeated and shrunk (MacIver and
Donaldson 2020, "Test-case reduction via test-case generation"). Its structure (sizes, types,
layouts, masks) follows from its number alone: all students, with any seed, meet the same edges, and
the seed decides nothing but the numbers. The choices are our own since those of `hypothesis` depend
on the constants in whatever modules are loaded, and a verdict may not.
"""

from __future__ import annotations

import copy
import math
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

TYPES = (torch.float32, torch.float64)
HALVES = (torch.float16, torch.bfloat16)
LARGE = {"V": 301}  # one size of some inputs; other ones are 101
LEAST = {"V": 3}  # a vocabulary has more than one word; other sizes are at least 1
SHRINKS = 60  # simpler inputs that are tried
EQUAL, LONG, UNEQUAL, LEAST_OF_ALL = 4, 5, 6, 7  # how the sizes of an input go together; else any

Item = TypeVar("Item")


def seed_in(variable: str) -> int:
    """The seed in an environment variable, or 0 if it is not set.

    Raises ValueError if it is not a whole number.
    """
    given = os.environ.get(variable, "0")
    try:
        return int(given)
    except ValueError:
        raise ValueError(
            f"the environment variable {variable} must be a whole number, such as 20261, not "
            f"{given[:80]!r}; set it again, or unset it for the numbers that students see"
        ) from None


class Draw:
    """One input of a check: structure from choices, numbers from a generator.

    The same number has the same structure for every seed, and so have the same `choices`; number 0
    is the simplest, in which every choice is the first. `turn` 1 has the same structure as turn 0
    with other numbers. `lenient` is set for an input that the page does not promise: there an error
    is no fault, but a wrong result is. `half` is so for errors of a library that lacks the type.
    """

    def __init__(
        self,
        seed: int,
        number: int = 0,
        choices: Sequence[int] | None = None,
        turn: int = 0,
        jitter: bool = False,
    ):
        self.seed, self.number, self.turn = seed, number, turn
        self.lenient = self.half = False
        self.given = [] if number == 0 and choices is None else choices
        self.choices: list[int] = []
        self.fresh = random.Random(number)
        value = f"{seed}/{self.choose(1000, number)}/{turn}"
        self.random = random.Random(value)
        self.value_seed = self.random.getrandbits(62)
        self.generator = torch.Generator().manual_seed(self.value_seed)
        self.noise = torch.Generator().manual_seed(0) if jitter else None
        self.known: dict[str, int] = {}  # sizes by name

    def again(self, turn: int = 0, jitter: bool = False) -> Draw:
        """The same input anew, with `turn` 1 one of the same structure.

        With `jitter`, tensors differ by a few units in the last place.
        """
        return Draw(self.seed, 0, self.choices, turn, jitter)

    def choose(self, count: int, wanted: int | None = None) -> int:
        """A number from 0 to count - 1; 0 is the simplest. A fresh input has the `wanted` one."""
        place = len(self.choices)
        if self.given is not None:
            found = min(self.given[place], count - 1) if place < len(self.given) else 0
        elif wanted is not None:
            found = wanted
        elif self.number % 4 == 1 and self.fresh.random() < 0.5:  # the ends of a range
            found = self.fresh.choice((0, count - 1))
        else:
            found = self.fresh.randrange(count)
        self.choices.append(found)
        return found

    def one_of(self, items: Sequence[Item]) -> Item:
        """One of the items; the first is the simplest."""
        return items[self.choose(len(items))]

    def size(self, low: int = 1, high: int = 9) -> int:
        """A whole number from low to high; the simplest is the second, which shows a pattern."""
        found = self.choose(high - low + 1)
        return low + (1 - found if found < 2 <= high - low + 1 else found)

    def sizes(self, count: int, low: int = 1, high: int = 9, large: int = 100) -> list[int]:
        """Some sizes: any, all equal, or one of them over a hundred."""
        found, kind = [self.size(low, high) for _ in range(count)], self.choose(8, self.number % 8)
        if kind == EQUAL:
            return found[:1] * count
        if count and kind == LONG and large:
            found[self.choose(count)] += large
        return found

    @cached_property
    def sizing(self) -> int:
        """How named sizes go together."""
        return self.choose(8, self.number % 8)

    @cached_property
    def leading(self) -> list[int]:
        """The sizes that `...` stands for."""
        return [self.size(1, 3) for _ in range(self.choose(4))]

    @cached_property
    def common(self) -> int:
        """The size of all, where they are equal."""
        return self.size(2, 4)

    @cached_property
    def long(self) -> int:
        """Which of the named sizes is large, in an input that has one: each in turn."""
        return self.choose(4, self.number // 8 % 4)

    def named(self, name: str) -> int:
        """The size with a name, a number, or a product of these."""
        if "*" in name:
            return math.prod(map(self.named, name.split("*")))
        if name.isdigit():
            return int(name)
        if name not in self.known:
            least, drawn = LEAST.get(name, 1), self.size(LEAST.get(name, 1), 6)
            if self.sizing == EQUAL:
                drawn = max(self.common, 3)
            elif self.sizing == LONG and len(self.known) == self.long:
                drawn = LARGE.get(name, 101)
            elif self.sizing == LEAST_OF_ALL:
                drawn = least
            while self.sizing == UNEQUAL and drawn in self.known.values():
                drawn += 1
            self.known[name] = drawn
        return self.known[name]

    def shape(self, names: str) -> list[int]:
        """The sizes in a text such as "... T S"."""
        found: list[int] = []
        for name in names.split():
            found += self.leading if name == "..." else [self.named(name)]
        return found

    @cached_property
    def dtype(self) -> torch.dtype:
        """The type of this input's numbers: float32 or float64."""
        return self.one_of(TYPES)

    @cached_property
    def layout(self) -> int:
        """How tensors lie in memory: 0 contiguous, 1 with exchanged axes, 2 with gaps."""
        return max(0, self.choose(4, {2: 2, 3: 3}.get(self.number % 4)) - 1)

    def halved(self) -> bool:
        """Use float16 or bfloat16 for a few inputs; returns whether it is so."""
        kinds = (*TYPES[:1] * 3, *TYPES[1:] * 3, *HALVES)
        wanted = -(self.number // 32) % len(kinds) if self.number % 8 == LONG else None
        self.dtype = kinds[self.choose(len(kinds), wanted)]
        self.half = self.dtype in HALVES
        return self.half

    @cached_property
    def kind(self) -> int:
        """What the numbers of this input are: 0 any, 1 small whole ones, 2 tiny, 3 large ones."""
        return max(0, self.choose(6) - 2)

    def normal(self, *shape: int, scale: float = 1.0, large: bool = False) -> Tensor:
        """A tensor of normal numbers with two decimals, in this input's type and layout.

        In some inputs many are equal or 0, in others all are tiny, or `large` where they may be.
        """
        found = scale * torch.randn(*shape, generator=self.generator, dtype=torch.float64)
        if scale < 0.5:
            return self.laid(found)
        found = found.round() if self.kind == 1 else (found * 100).round() / 100
        most = 1e4 if large and not self.half else 1.0
        return self.laid(found * {2: 1e-3, 3: most}.get(self.kind, 1.0))

    def laid(self, values: Tensor) -> Tensor:
        """The same numbers in this input's type and layout."""
        values = values.to(self.dtype) if values.is_floating_point() else values
        if self.noise is not None and values.is_floating_point():
            moved = torch.rand(values.shape, generator=self.noise, dtype=torch.float64) * 8 - 4
            values = values + values * (moved * torch.finfo(values.dtype).eps).to(values.dtype)
        if self.layout == 1 and values.dim() > 1:
            return values.transpose(-2, -1).contiguous().transpose(-2, -1)
        if self.layout == 2 and values.dim():
            return values.repeat_interleave(2, dim=-1)[..., ::2]
        return values

    def ids(self, low: int, high: int, *shape: int) -> Tensor:
        """A tensor of whole numbers from low to high - 1."""
        return self.laid(torch.randint(low, high, shape, generator=self.generator))

    def mask(self, *shape: int, empty: bool = False) -> Tensor:
        """A boolean tensor in which each row of the last dimension has a True, or perhaps none."""
        mask = torch.rand(*shape, generator=self.generator) < 0.6
        if not empty and mask.numel():
            mask[..., 0] |= ~mask.any(-1)
        elif mask.numel():
            mask &= torch.rand(*shape[:-1], 1, generator=self.generator) < 0.7
        return self.laid(mask)

    def module(self, module: nn.Module) -> nn.Module:
        """The module, or a copy of it while the original is spoiled."""
        if not self.choose(2):
            return module
        found = copy.deepcopy(module)
        with torch.no_grad():
            for tensor in module.train(not module.training).state_dict().values():
                tensor.zero_()
        return found

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """The items in another order."""
        return self.random.sample(list(items), len(items))


@dataclass(frozen=True)
class Float:
    """A tensor of floating-point numbers; all of an input have the same type.

    It may be float16 or bfloat16 if `half`. Some of the numbers may be -inf if `infinite`, though
    not a whole row. Rows are shifted by some hundred if `far`. Numbers are divided by the root of
    the size called `scale`. All may be `large`. It requires a gradient if `grad`.
    """

    shape: str
    infinite: bool = False
    far: bool = False
    scale: str = ""
    half: bool = True
    large: bool = False
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

    Where it is not `empty`, each row of the last dimension has a True.
    """

    shapes: str
    optional: bool = False
    empty: bool = True

    def sample(self, draw: Draw, known: dict[str, Any]) -> Tensor | None:
        """One such mask."""
        shapes = [None] * self.optional + [each.strip() for each in self.shapes.split("|")]
        shape = draw.one_of(shapes)
        return None if shape is None else draw.mask(*draw.shape(shape), empty=self.empty)


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
        if draw.choose(2) and found.dim():
            found[..., -1:] = draw.named(self.below) - 1
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
    """An earlier argument itself, or a value of its own."""

    name: str
    other: Any

    def sample(self, draw: Draw, known: dict[str, Any]) -> Any:
        """One of the two; the sizes of the other are those of the earlier argument."""
        if draw.choose(4) == 3:
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


def arguments(signature: Mapping[str, Any], draw: Draw) -> dict[str, Any]:
    """The arguments of one call by name; what is no kind of value is a value itself."""
    known: dict[str, Any] = {}
    kinds = [kind for kind in signature.values() if isinstance(kind, Float | Made)]
    if kinds and all(kind.half for kind in kinds):
        draw.halved()
    for name, kind in signature.items():
        known[name] = kind.sample(draw, known) if hasattr(kind, "sample") else kind
    return known


def results(found: Any) -> Any:
    """What is compared of a result: itself, or its parts; a list of tensors is like a tuple."""
    several = isinstance(found, tuple) or type(found) is list and any(map(torch.is_tensor, found))
    if several:
        yield "the number of results", len(found)
    for place, part in enumerate(found if several else [found], 1):
        what = f"result {place}" if several else "your result"
        yield what, part
        if isinstance(part, Tensor):
            yield f"whether {what} requires a gradient", part.requires_grad


def shrink(choices: list[int], fails: Callable[[list[int]], Any], tries: int = SHRINKS) -> Any:
    """What `fails` returns for the simplest failing choices that are found, or None.

    `fails` returns None for choices without a fault, otherwise something with its `choices`. Fewer
    choices are simpler, then smaller ones.
    """
    best, seen, left = None, {tuple(choices)}, tries

    def better(candidate: list[int]) -> bool:
        nonlocal best, choices, left
        if tuple(candidate) in seen or not left:
            return False
        seen.add(tuple(candidate))
        left -= 1
        found = fails(candidate)
        if found is None or (len(found.choices), found.choices) >= (len(choices), choices):
            return False
        best, choices = found, found.choices
        return True

    changed = True
    while changed and left:
        changed = False
        for block in (8, 4, 2, 1):
            for place in range(len(choices) - block, -1, -1):
                changed |= better(choices[:place] + choices[place + block :])
        for place in range(len(choices)):
            for less in (lambda n: 0, lambda n: n // 2, lambda n: n - 1):
                while place < len(choices) and choices[place]:
                    smaller = less(choices[place])
                    if not better([*choices[:place], smaller, *choices[place + 1 :]]):
                        break
                    changed = True
    return best
