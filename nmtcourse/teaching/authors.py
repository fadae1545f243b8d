"""The cases of three published reports, for notebooks 12, 13 and 14: as recorded, and their metric.

`benchmarks/authors.py` trained what is read here.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from nmtcourse.teaching.chinese import bootstrap
from nmtlib.inference.metrics import bleu_nltk

RECORDED = Path(__file__).parent / "recorded" / "authors"
UNKNOWN = "<UNK>"


def read_case(name: str) -> dict[str, Any]:
    """What was recorded of a case: 'marks', 'talks', 'classic' or 'large'."""
    return json.loads((RECORDED / f"{name}.json").read_text("utf-8"))


def from_ids(text: str, words: Collection[str]) -> str:
    """A text as it comes back from the ids of a vocabulary: all other words are <UNK>.

    >>> from_ids("我 爱 北京", {"我", "爱"})
    '我 爱 <UNK>'
    """
    return " ".join(word if word in words else UNKNOWN for word in text.split())


def score(outputs: Sequence[str], references: Sequence[str]) -> float:
    """NLTK BLEU over words, from 0 to 1."""
    return bleu_nltk([text.split() for text in outputs], [text.split() for text in references])


def paired_error(one: Sequence[str], other: Sequence[str], references: Sequence[str]) -> float:
    """The standard error of the difference of two systems' BLEU on the same sentences."""
    difference = bootstrap(one, references) - bootstrap(other, references)
    return float(difference.std())
