"""Text before training, for notebook 01: a corpus with defects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nmtlib.data.corpus import Pair

MISSING_FROM = 700  # line after which one file lacks a line


def broken_copy(pairs: Sequence[Pair], test: Sequence[Pair]) -> list[Pair]:
    """Some pairs, at least 1,000, with the defects that learners report of files they trained on.

    An empty target in every 97th line, markup in every 89th, a pair repeated in every 83rd, a test
    pair in every 79th, a target cut to one word in every 73rd; one target lacks from line 701 on.
    Raises ValueError for fewer pairs.
    """
    if len(pairs) < 1000:
        raise ValueError(f"{len(pairs)} pairs are too few for the defects; give 1,000 or more")
    copy = list(pairs)
    for line in range(1, len(copy) + 1):
        index, pair = line - 1, copy[line - 1]
        if line % 97 == 0:
            copy[index] = replace(pair, target="")
        elif line % 89 == 0:
            copy[index] = replace(pair, source=f"{pair.source} &quot;", target=pair.target)
        elif line % 83 == 0:
            copy[index] = copy[index - 1]
        elif line % 79 == 0:
            copy[index] = test[line]
        elif line % 73 == 0:
            copy[index] = replace(pair, target=pair.target.split()[0])
    targets = [pair.target for pair in copy]
    del targets[MISSING_FROM]
    return [replace(pair, target=text) for pair, text in zip(copy, targets, strict=False)]
