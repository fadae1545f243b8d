"""Real and synthetic sentences in one training: all of the former and some of the latter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from nmtcourse.recipes.monolingual import comparable
from nmtlib.data.batching import Example
from nmtlib.data.corpus import SPLITS, Corpus, Pair


def with_synthetic(corpus: Corpus, pairs: Iterable[Pair]) -> Corpus:
    """The corpus with more pairs to train on; those that tell of an evaluation split are left out.

    These are the pairs of which either side is `comparable` with one in another split than train, a
    source also without its first word, which may be a tag.  A note says how many there were.
    """
    held_out: tuple[set[str], set[str]] = set(), set()
    for split in SPLITS[1:]:
        for pair in getattr(corpus, split):
            held_out[0].add(comparable(pair.source))
            held_out[1].add(comparable(pair.target))
    for side in held_out:
        side.discard("")  # what is without a word tells of nothing
    candidates = list(pairs)
    unseen = [
        pair
        for pair in candidates
        if comparable(pair.source) not in held_out[0]
        and comparable(pair.source.partition(" ")[2]) not in held_out[0]
        and comparable(pair.target) not in held_out[1]
    ]
    left_out = len(candidates) - len(unseen)
    note = (
        f"{len(unseen):,} synthetic pairs; {left_out:,} left out, because one of their sides is in "
        "validation or test"
    )
    return replace(corpus, synthetic=unseen, notes=[*corpus.notes, note])


def in_both_directions(corpus: Corpus) -> Corpus:
    """The corpus with each pair that is trained or validated on also read the other way round.

    Synthetic pairs stay: what a model generated, or a tag before it, is to be read, not generated.
    """
    doubled = {
        split: [*pairs, *(pair.reversed() for pair in pairs)]
        for split in ("train", "validation")
        if (pairs := getattr(corpus, split))
    }
    return replace(corpus, **doubled)


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
        return [*real, *(synthetic[number] for number in places[start : start + count])]

    return examples
