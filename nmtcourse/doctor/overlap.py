"""Pairs that occur more than once, in one split or in several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nmtcourse.doctor.kinds import EXAMPLES, Finding, Level
from nmtcourse.doctor.survey import Survey, examples


def judge_overlap(surveys: Mapping[str, Survey]) -> Iterator[Finding]:
    """Duplicates in train, sources of train in the other splits, exactly and loosely."""
    train = surveys["train"]
    again = train.kept & repeated(train.numbers["pair_key"])
    if count := int(again.sum()):
        yield finding_about(train, "duplicate", again, f"{count:,} are copies of an earlier pair")
    several = train.kept & ~again & repeated(train.numbers["source_key"])
    if several.any():
        yield finding_about(train, "many", several)
    for name in ("validation", "test"):
        if name in surveys:
            yield from leaks(train, surveys[name])
    if {"validation", "test"} <= surveys.keys():
        test, validation = surveys["test"], surveys["validation"]
        both = test.kept & np.isin(test.numbers["source_key"], sources(validation))
        if both.any():
            yield finding_about(test, "shared", both)


def leaks(train: Survey, held_out: Survey) -> Iterator[Finding]:
    """Sources of a held-out split that are in train too."""
    exact, loose = leaked(train, held_out)
    kind = "validation leak" if held_out.split.name == "validation" else "leak"
    if exact.any():
        finding = finding_about(held_out, kind, exact)
        share = exact.sum() / max(len(held_out), 1)
        if kind == "validation leak" and 0.1 <= share < 0.5:
            finding.level_given = "warning"
        yield finding
    if loose.any():
        yield finding_about(held_out, "loose leak", loose)


def leaked(train: Survey, held_out: Survey) -> tuple[np.ndarray, np.ndarray]:
    """Which rows of a split have a source that train has exactly, and which have it loosely."""
    exact = held_out.kept & np.isin(
        held_out.numbers["strict_key"], train.numbers["strict_key"][train.kept]
    )
    loose = held_out.kept & np.isin(held_out.numbers["source_key"], sources(train))
    return exact, loose & ~exact


def sources(survey: Survey) -> np.ndarray:
    """The keys of the sources of the rows that are pairs."""
    return np.unique(survey.numbers["source_key"][survey.kept])


def repeated(keys: np.ndarray) -> np.ndarray:
    """Which entries occurred before in the array."""
    _, first = np.unique(keys, return_index=True)
    again = np.ones(len(keys), dtype=bool)
    again[first] = False
    return again


def finding_about(
    survey: Survey, kind: str, rows: np.ndarray, detail: str = "", level: Level | None = None
) -> Finding:
    """A finding about the marked rows of a split, with the first of them as examples."""
    finding = Finding(kind, survey.split.name, int(rows.sum()), len(survey), detail=detail)
    finding.examples = examples(survey.split, np.flatnonzero(rows)[:EXAMPLES].tolist())
    finding.level_given = level
    return finding
