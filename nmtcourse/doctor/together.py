"""Do the words of partners go together?  The test that no order of the lines can fool.

In parallel text a source word meets the same target words again and again: `Hund` meets `dog`.  So
we count how often each frequent source word and each frequent target word are in the same pair, and
compare with what the same lines give when the targets are moved far away.  Sorting a corpus moves
both sides of a pair together, so it changes nothing about its own count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from nmtcourse.formats.languages import is_unspaced

WORDS = 400  # of each side, the most frequent that are not everywhere
LEAST_TIMES, MOST_OFTEN = (
    4,
    0.3,
)  # a word in fewer pairs, or in a larger share of them, tells little
LEAST_WORDS = 20  # of each side; with fewer nothing is known
MOVES = 8  # ways to move the targets, which give the mean and spread of chance
SURE, CHANCE = (
    6.0,
    3.0,
)  # standard deviations above which words go together, below which they do not


def association(sources: Sequence[str], targets: Sequence[str]) -> float | None:
    """By how many standard deviations the words of partners meet more often than by chance.

    None where too few words recur to tell.
    """
    first, second = occurrences(sources), occurrences(targets)
    if min(first.shape[1], second.shape[1]) < LEAST_WORDS:
        return None
    count = len(sources)
    moved = [dependence(first, np.roll(second, count * k // (MOVES + 1), 0)) for k in range(1, 9)]
    # The spread of eight values is known roughly: a hundredth of the mean is the least it can be.
    spread = max(float(np.std(moved)), 0.01 * float(np.mean(moved)), 1e-9)
    return (dependence(first, second) - float(np.mean(moved))) / spread


def occurrences(texts: Sequence[str]) -> np.ndarray:
    """Which frequent words each text has: (texts, words), 0 or 1."""
    lines = [features(text) for text in texts]
    counts = Counter(word for words in lines for word in words)
    most = MOST_OFTEN * len(texts)
    frequent = [word for word, n in counts.most_common() if LEAST_TIMES <= n <= most][:WORDS]
    columns = {word: column for column, word in enumerate(frequent)}
    matrix = np.zeros((len(texts), len(frequent)), np.float32)
    for row, words in enumerate(lines):
        for word in words:
            if word in columns:
                matrix[row, columns[word]] = 1
    return matrix


def features(text: str) -> set[str]:
    """The words of a text; where it has no spaces, its characters and pairs of characters."""
    if not is_unspaced(text):
        return set(re.findall(r"\w+", text.lower()))
    characters = [character for character in text if character.isalnum()]
    return {*characters, *map("".join, zip(characters, characters[1:], strict=False))}


def dependence(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's chi-square of all words of one side against all words of the other."""
    expected = np.outer(first.sum(0), second.sum(0)) / len(first)
    together = first.T @ second
    return float(((together - expected) ** 2 / expected).sum())
