"""English to Chinese, for notebook 14: its test set, and what was counted and trained once.

The 2,636 test sentences of `cmn-eng-simple` come with the package (CC BY 2.0 FR, tatoeba.org); what
was counted in its training data, and what was trained on it, is recorded.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from nltk.util import ngrams

from nmtlib.data.corpus import Pair
from nmtlib.data.tokenizers import JOIN_MARK
from nmtlib.training.history import EpochRecord

HERE = Path(__file__).parent / "recorded"
TEST, FACTS, RECORDED = (
    HERE / "cmn-test.txt.gz",
    HERE / "cmn_facts.json",
    HERE / "english_chinese.json",
)


@dataclass(frozen=True)
class Run:
    """One run of the recipe: what it scored on the test set, and its epochs."""

    seed: int
    bleu_nltk: float
    history: list[EpochRecord]

    @property
    def best(self) -> EpochRecord:
        """The epoch with the lowest validation loss."""
        return min(self.history, key=lambda epoch: epoch.validation_nll)


def test_pairs() -> list[Pair]:
    """The test set as it was published: English with subword marks, Chinese cut by spaces.

    >>> test_pairs()[0].target
    '不要 小看 我 的 力量 。'
    """
    lines = gzip.decompress(TEST.read_bytes()).decode("utf-8").splitlines()
    return [Pair(*(side.strip() for side in line.split("\t"))) for line in lines]


def facts() -> dict[str, Any]:
    """What was counted in the whole corpus cmn-en-zh."""
    return json.loads(FACTS.read_text("utf-8"))


def runs(path: Path = RECORDED) -> list[Run]:
    """The recorded runs, one for each seed.

    Raises FileNotFoundError where nothing is recorded.
    """
    recorded_runs = []
    for run in json.loads(path.read_text("utf-8"))["runs"]:
        history = [EpochRecord(**epoch) for epoch in run["history"]]
        recorded_runs.append(Run(run["seed"], run["bleu_nltk"], history))
    return recorded_runs


def outputs(path: Path = RECORDED) -> list[str]:
    """The translations of all test sentences by the first recorded run."""
    return json.loads(path.read_text("utf-8"))["outputs"]


def bootstrap(
    outputs: Sequence[str], references: Sequence[str], draws: int = 1000
) -> np.ndarray[Any, Any]:
    """NLTK BLEU over words on random draws of the sentences, with replacement, (draws,).

    Each call draws the same sentences, so the difference of two calls is paired.  Koehn 2004.
    """
    rows = []
    for pair in zip(outputs, references, strict=True):
        output, reference = (text.split() for text in pair)
        grams = [(Counter(ngrams(output, n)), Counter(ngrams(reference, n))) for n in (1, 2, 3, 4)]
        matched = [(mine & theirs).total() for mine, theirs in grams]
        totals = [max(1, mine.total()) for mine, _ in grams]  # as NLTK counts
        rows.append([len(output), len(reference), *matched, *totals])
    share = np.full(len(rows), 1 / len(rows))
    times = np.random.default_rng(0).multinomial(len(rows), share, size=draws)
    sums = times @ np.array(rows, dtype=float)  # (draws, 10)
    brevity = np.minimum(0, 1 - sums[:, 1] / sums[:, 0])
    with np.errstate(divide="ignore"):  # log 0 = -inf: BLEU is 0 where nothing matches
        return np.exp(brevity + np.log(sums[:, 2:6] / sums[:, 6:]).mean(axis=1))


def without_marks(text: str) -> str:
    """Text whose subword marks were removed as if they were punctuation.

    >>> without_marks("bran@@ dy")
    'bran dy'
    """
    return text.replace(JOIN_MARK, "")


def miscuts(texts: Sequence[str], factor: int = 20) -> list[tuple[str, str]]:
    """Neighbouring words that are commoner if split elsewhere: ("汤姆拒 绝", "汤姆 拒绝").

    The product of the two words' counts in all the texts is then more than `factor` times as large;
    the clearest come first.
    """
    counts = Counter(word for text in texts for word in text.split())
    cases = []
    for one, following in (pair for text in texts for pair in pairwise(text.split())):
        whole = one + following
        ways = [(whole[:i], whole[i:]) for i in range(1, len(whole))]
        best = max(ways, key=lambda way: counts[way[0]] * counts[way[1]])
        gain = counts[best[0]] * counts[best[1]] / (counts[one] * counts[following])
        if gain > factor:
            cases.append((gain, f"{one} {following}", " ".join(best)))
    return [(segmented, better) for _, segmented, better in sorted(cases, reverse=True)]
