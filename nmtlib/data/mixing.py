"""Real and synthetic sentences in one training: all of the former and some of the latter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nmtlib.data.batching import Example


def mixed_by_epoch(
    real: Sequence[Example], synthetic: Sequence[Example], ratio: float, *, seed: int
) -> Callable[[int], Sequence[Example]]:
    """A function of the epoch, counted from 0: the real examples and `ratio` as many synthetic.

    The synthetic ones are taken in a seeded order, each epoch where the one before ended; when all
    have been taken, they are shuffled anew.  What an epoch holds depends on seed and epoch alone.
    """
    count, size = round(ratio * len(real)), len(synthetic)

    def order(turn: int) -> np.ndarray:
        return np.random.default_rng((seed % 2**64, turn)).permutation(size)

    def examples(epoch: int) -> Sequence[Example]:
        first, last = epoch * count, (epoch + 1) * count
        turns = range(first // size, -(-last // size)) if size else ()
        places = np.concatenate([order(turn) for turn in turns]) if turns else np.arange(0)
        start = first - turns[0] * size if turns else 0
        return [*real, *(synthetic[place] for place in places[start : start + count])]

    return examples
