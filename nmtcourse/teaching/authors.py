"""The cases of three published reports, for notebooks 12, 13 and 14: as recorded, and their metric.

benchmarks/README.md says how the records were made.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from nmtlib.inference.metrics import bleu_nltk
from nmtlib.training.history import EpochRecord

RECORDED = Path(__file__).parent / "recorded" / "authors"
UNKNOWN = "<UNK>"


def read_case(name: str) -> dict[str, Any]:
    """What was recorded of a case: 'marks', 'talks', 'classic', 'large' or 'memory'."""
    return json.loads((RECORDED / f"{name}.json").read_text("utf-8"))


def runs_by_case(name: str) -> dict[str, list[dict[str, Any]]]:
    """The runs of 'talks', 'classic', 'large' or 'marks' for each of its cases, seed by seed."""
    cases: dict[str, list[dict[str, Any]]] = {}
    for run in read_case(name)["runs"]:
        cases.setdefault(run.get("case") or run["loader"], []).append(run)
    return cases


def histories(name: str) -> dict[str, list[list[EpochRecord]]]:
    """The epochs of each case, seed by seed, as `case_studies.draw_report` takes them."""
    return {
        case: [[EpochRecord(**row) for row in run["history"]] for run in runs]
        for case, runs in runs_by_case(name).items()
    }


def from_ids(text: str, words: Collection[str]) -> str:
    """A text as it comes back from the ids of a vocabulary: all other words are <UNK>.

    >>> from_ids("我 爱 北京", {"我", "爱"})
    '我 爱 <UNK>'
    """
    return " ".join(word if word in words else UNKNOWN for word in text.split())


def score(outputs: Sequence[str], references: Sequence[str]) -> float:
    """NLTK BLEU over words, from 0 to 1."""
    return bleu_nltk([text.split() for text in outputs], [text.split() for text in references])
