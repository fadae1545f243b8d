"""Pairs that occur more than once, in one split or in several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nmtcourse.doctor.kinds import EXAMPLES, Finding, Level
from nmtcourse.doctor.survey import Survey, examples
from nmtcourse.doctor.texts import bare

RECURS, RECURS_SHARE = 10, 0.002  # times, and share of the pairs, from which a side recurs
# What programs write for a cell that is empty or failed; twice is enough for these.
MESSAGES = ("nan", "NULL", "#N/A", "#REF!", "#DIV/0!")
TEMPLATES = 0.2  # the share of train that differs from other sources in numbers alone


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


def judge_messages(surveys: Mapping[str, Survey]) -> Iterator[Finding]:
    """Sides that a program wrote, and in train sources that differ in their numbers alone."""
    known = {side: message_keys(surveys["train"], side) for side in ("source", "target")}
    for survey in surveys.values():
        rows = np.zeros(len(survey), bool)
        for side, keys in known.items():
            rows |= survey.kept & np.isin(survey.numbers[f"{side}_key"], keys)
        survey.numbers["message"] = rows
        if rows.any():
            yield finding_about(survey, "message", rows)
    train = surveys["train"]
    templates = train.kept & repeated(train.numbers["template_key"])
    templates &= ~repeated(train.numbers["source_key"])
    if templates.sum() > TEMPLATES * train.kept.sum():
        yield finding_about(train, "templates", templates)


def message_keys(survey: Survey, side: str) -> list[int]:
    """The keys of sides that recur beside others, and are far shorter than these.

    `__NULL__` is beside forty sentences, `Danke.` beside a few that mean the same.  What is known
    to be a message need not recur so often.
    """
    other = "target" if side == "source" else "source"
    keys, words = survey.numbers[f"{side}_key"], survey.numbers[f"words_{other[0]}"]
    usual = float(np.median(words[survey.kept]))
    chars = survey.numbers[f"chars_{side[0]}"]
    short = 0.5 * float(np.median(chars[survey.kept]))  # without spaces, any sentence is one word
    values, times = np.unique(keys[survey.kept], return_counts=True)
    known = [hash(bare(message)) for message in MESSAGES]
    often = times >= max(RECURS, RECURS_SHARE * len(survey))
    often |= (times > 1) & np.isin(values, known)
    found = []
    for key in values[often]:
        rows = survey.kept & (keys == key)
        beside = survey.numbers[f"{other}_key"][rows]
        one_word = survey.numbers[f"words_{side[0]}"][rows].max() == 1
        one_word &= bool(chars[rows].max() < max(short, 5))
        different = len(np.unique(beside)) > 0.8 * len(beside)
        if one_word and different and np.median(words[rows]) >= max(3, 0.6 * usual):
            found.append(int(key))
    return found


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
    known = np.unique(train.numbers["template_key"][train.kept])
    alike = held_out.kept & np.isin(held_out.numbers["template_key"], known) & ~exact & ~loose
    if alike.any():
        yield finding_about(held_out, "number leak", alike)


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
