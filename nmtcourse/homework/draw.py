"""Random sizes and tensors for a check: different for each seed, all sizes of a draw different."""

from __future__ import annotations

import os
import random

import torch
from torch import Tensor

TYPES = (torch.float32, torch.float64)


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
    """The random values of one run of a check, numbered from 0; the dtype depends on the number.

    The same seed and number give the same values. Draw 1 has a size of one, where axes are easily
    lost, and draw 2 has larger sizes, so that no answer passes by accident.
    """

    def __init__(self, seed: int, number: int):
        self.number, self.dtype = number, TYPES[number % 2]
        self.random = random.Random(f"{seed}/{number}")
        self.generator = torch.Generator().manual_seed(self.random.getrandbits(62))

    def sizes(self, count: int, low: int = 2, high: int = 9) -> list[int]:
        """Some whole numbers from low to high, all different; see the class for draws 1 and 2."""
        found = self.random.sample(range(low, (4 if self.number == 2 else 1) * high + 1), count)
        if self.number == 1 and low == 2:
            found[self.random.randrange(count)] = 1
        return found

    def normal(self, *shape: int, scale: float = 1.0) -> Tensor:
        """A tensor of normal numbers."""
        return scale * torch.randn(*shape, generator=self.generator, dtype=self.dtype)

    def ids(self, low: int, high: int, *shape: int) -> Tensor:
        """A tensor of whole numbers from low to high - 1."""
        return torch.randint(low, high, shape, generator=self.generator)

    def mask(self, *shape: int) -> Tensor:
        """A boolean tensor in which each row of the last dimension has a True."""
        mask = torch.rand(*shape, generator=self.generator) < 0.6
        mask[..., 0] |= ~mask.any(-1)
        return mask

    def words(self, count: int) -> list[str]:
        """Different random words of two to four syllables."""
        found: dict[str, None] = {}
        while len(found) < count:
            syllables = (
                self.random.choice("bdfklmnrst") + self.random.choice("aeiou")
                for _ in range(self.random.randint(2, 4))
            )
            found["".join(syllables)] = None
        return list(found)
