"""Does a sentence look like what a model was trained on?  A model without such a sense translates
anything, and says of nothing that it is nonsense.

Of the source side of the training pairs three things are counted: words, first words, sentences.  A
sentence is unlike them when its words are rare, its first word is, and it is short, by the sum of
the three in standard deviations of the validation set; or when too many of its words are new.  Each
limit is a high quantile of the same measure on the validation set, so that both together speak on
at most 2 % of sentences that the model can be expected to translate.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from itertools import groupby
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from nmtlib.data.corpus import Corpus
from nmtlib.files import write_atomically
from nmtlib.run import find_run

FILE = "familiar.json"
WORD = re.compile(r"[^\W_]+|[^\w\s]")  # a word or a sign; as in explorer/web/familiar.js
UNLIKE, NEW = 0.985, 0.995  # quantiles of the validation set, which the limits are
FEWEST = (
    200  # its sentences; of fewer a quantile is the largest value, and new ones often exceed it
)


def words(sentence: str) -> list[str]:
    """The words and signs of a sentence in lower case."""
    return WORD.findall(sentence.lower())


@dataclass(frozen=True)
class Familiar:
    """What was counted: `words` and `firsts` are counts with their words, all in one string.

    `mean` and `deviation` are those of the three measures on the validation set, `limits` those of
    their sum and of the share of new words.
    """

    sentences: int
    words: dict[str, str]
    firsts: dict[str, str]
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    deviation: tuple[float, ...] = (1.0, 1.0, 1.0)
    limits: tuple[float, float] = (math.inf, 1.0)

    @classmethod
    def learn(cls, training: Iterable[str], validation: Sequence[str]) -> Familiar:
        """Count the source sentences of a corpus; both splits must have words."""
        read = [found for found in map(words, training) if found]
        counts = Counter(word for sentence in read for word in sentence)
        new = cls(len(read), packed(counts), packed(Counter(s[0] for s in read)))
        seen = [found for found in map(words, validation) if found]
        columns = [*zip(*map(new.surprises, seen), strict=True)]
        mean, deviation = map(fmean, columns), (pstdev(column) or 1.0 for column in columns)
        scaled = replace(new, mean=tuple(mean), deviation=tuple(deviation))
        limits = quantile(map(scaled.unlike, seen), UNLIKE), quantile(map(new.share, seen), NEW)
        return replace(scaled, limits=limits)

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each word occurs in the training text."""
        return unpacked(self.words)

    @cached_property
    def total(self) -> int:
        """The words of the training text."""
        return self.counts.total()

    @cached_property
    def first_counts(self) -> Counter[str]:
        """How many sentences begin with each word."""
        return unpacked(self.firsts)

    def surprises(self, sentence: list[str]) -> tuple[float, float, float]:
        """How rare its words are, how rare its first word is, in nats, and how short it is."""
        total = self.total
        rare = fmean(math.log(total / (self.counts[word] + 0.5)) for word in sentence)
        first = math.log(self.sentences / (self.first_counts[sentence[0]] + 0.5))
        return rare, first, -math.log(len(sentence))

    def unlike(self, sentence: list[str]) -> float:
        """The sum of the surprises, each in standard deviations from its mean."""
        parts = zip(self.surprises(sentence), self.mean, self.deviation, strict=True)
        return sum((value - mean) / deviation for value, mean, deviation in parts)

    def new_words(self, sentence: list[str]) -> list[str]:
        """Its words that are not in the training text, each once."""
        return [w for w in dict.fromkeys(sentence) if w not in self.counts and w.isalnum()]

    def share(self, sentence: list[str]) -> float:
        """The share of its words that are new."""
        return sum(word not in self.counts for word in sentence) / len(sentence)

    def remark(self, text: str) -> str:
        """One line about a sentence unlike the training text; "" about any other."""
        sentence = words(text)
        if not sentence:
            return ""
        high = self.unlike(sentence), self.share(sentence)
        if all(value <= limit for value, limit in zip(high, self.limits, strict=True)):
            return ""
        about = f"unlike the {self.sentences:,} sentences that this model was trained on"
        new = ", ".join(self.new_words(sentence)[:4])
        return f"{text!r} is {about}{f'; not among their words: {new}' if new else ''}"

    def save(self, folder: Path) -> None:
        """Write it beside the weights of a run."""
        write_atomically(folder / FILE, json.dumps(asdict(self), ensure_ascii=False) + "\n")


def packed(counts: Counter[str]) -> dict[str, str]:
    """Count -> its words in alphabetical order, separated by spaces; the most frequent first."""
    order = sorted(counts, key=lambda word: (-counts[word], word))
    return {str(n): " ".join(group) for n, group in groupby(order, counts.__getitem__)}


def unpacked(groups: dict[str, str]) -> Counter[str]:
    """The counts of `packed`."""
    return Counter({word: int(n) for n, group in groups.items() for word in group.split(" ")})


def quantile(values: Iterable[float], q: float) -> float:
    """The smallest value that at least a share q of the values does not exceed."""
    order = sorted(values)
    return order[math.ceil(q * len(order)) - 1]


def learn(folder: Path, corpus: Corpus) -> Familiar | None:
    """Count a corpus for the run that was trained on it, and store it there.

    None where the validation set has fewer than `FEWEST` sentences: nothing is stored.
    """
    if len(corpus.validation) < FEWEST:
        return None
    sources = [[pair.source for pair in split] for split in (corpus.train, corpus.validation)]
    found = Familiar.learn(*sources)
    found.save(folder)
    return found


def to_dict(run: str | Path) -> dict[str, Any] | None:
    """The same in values that JSON holds."""
    found = load(run)
    return asdict(found) if found else None


@cache
def load(run: str | Path) -> Familiar | None:
    """What a run, or a shipped model by its name, knows of its training text, or None."""
    file = find_run(run).folder / FILE
    return Familiar(**json.loads(file.read_text("utf-8"))) if file.is_file() else None
