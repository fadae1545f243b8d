"""Do the lines of both sides belong together?  Lengths, names and numbers tell.

A long sentence has a long translation, and names and numbers stay the same.  So each line has some
evidence for a partner: the logarithm of how much likelier its length and its names are next to this
partner than next to an arbitrary one.  Lines that are out of step have no evidence for their own
partner, but for one some lines away.  A sum of evidence over adjacent lines exceeds `ENOUGH` by
chance with a probability of exp(-ENOUGH) (the likelihood ratio is a martingale).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nmtcourse.doctor.kinds import Finding
from nmtcourse.doctor.survey import Survey, examples

FURTHEST = 20  # lines by which a shift is looked for
LEAST = 40  # pairs; fewer tell nothing
BLOCKS, BLOCK = 24, 100  # the model is fitted to the best of so many blocks of at least so many
ENOUGH = 25.0  # nats


class Fit(NamedTuple):
    """How partners look: the target's log length is slope * source's + base, give or take."""

    slope: float
    base: float
    spread: float
    mean: float
    wide: float
    shared: float  # how often partners have a name or number in common
    chance: float  # how often arbitrary lines do
    correlation: float


def judge_order(survey: Survey) -> Iterator[Finding]:
    """Lines that belong to other lines than their own."""
    rows = np.flatnonzero(survey.kept)
    if len(rows) < LEAST:
        return
    lengths = [np.log(survey.numbers[f"chars_{side}"][rows] + 1.0) for side in "st"]
    anchors = [survey.numbers[f"anchors_{side}"][rows] for side in "st"]
    fit = best_fit(lengths, anchors)
    own = evidence(fit, lengths, anchors, 0)
    shifts = {}
    for lag in [k for k in range(-FURTHEST, FURTHEST + 1) if k and abs(k) < len(rows) // 2]:
        moved = evidence(fit, lengths, anchors, lag)
        first, last, sum_ = best_stretch(moved - own)
        if moved[first:last].sum() > ENOUGH / 2:  # they must fit, not only fit less badly
            shifts[lag] = (sum_, first, last)
    if shifts:
        lag = max(shifts, key=lambda k: shifts[k][0])
        sum_, first, last = shifts[lag]
        if sum_ > ENOUGH:
            yield shifted(survey, rows, lag, first, last)
            return
    first, last, sum_ = best_stretch(-own)
    fits = own[:first].sum() + own[last:].sum()
    if sum_ > ENOUGH + np.log(len(rows)) and fits > ENOUGH and last - first >= BLOCK:
        yield unrelated(survey, rows, first, last)
    elif nowhere(lengths, anchors, fit) and len(rows) >= 2 * BLOCK:
        sentences = np.median(survey.numbers["words_s"][rows]) >= 4  # not a list of words
        yield Finding(
            "unrelated",
            survey.split.name,
            len(rows),
            len(survey),
            examples(survey.split, [int(row) for row in rows[:3]]),
            "from the first line to the last, lengths and names are like those of arbitrary pairs",
            "read some pairs: was one file sorted or shuffled?",
            "wrong" if sentences else "warning",
        )


def nowhere(lengths: list[np.ndarray], anchors: list[np.ndarray], fit: Fit) -> bool:
    """Whether neither lengths nor names of partners go together, by four standard errors."""
    count = len(lengths[0])
    common = float(((anchors[0] & anchors[1]) != 0).mean())
    error = np.sqrt(fit.chance * (1 - fit.chance) / count)
    r = correlation(*lengths)
    return r * np.sqrt(count) < 4 and common - fit.chance < 4 * error + 0.005


def best_fit(lengths: list[np.ndarray], anchors: list[np.ndarray]) -> Fit:
    """The model of the block and lag whose lengths correlate best."""
    count = len(lengths[0])
    size = max(BLOCK, -(-count // BLOCKS))
    best, stretch = correlation(*lengths), (0, count, 0)
    for first in range(0, max(count - size // 2, 1), size):
        last = min(first + size, count)
        for lag in range(-FURTHEST, FURTHEST + 1):
            if first + lag >= 0 and last + lag <= count:
                r = correlation(lengths[0][first:last], lengths[1][first + lag : last + lag])
                r -= 0.1 * (lag != 0)  # chance alone finds a good lag among forty
                if r > best:
                    best, stretch = r, (first, last, lag)
    first, last, lag = stretch
    x, y = lengths[0][first:last], lengths[1][first + lag : last + lag]
    slope, base = np.polyfit(x, y, 1) if x.std() > 1e-9 else (0.0, y.mean())
    spread = max(float((y - slope * x - base).std()), 0.05)
    common = (anchors[0][first:last] & anchors[1][first + lag : last + lag]) != 0
    far = np.roll(anchors[1], count // 2)
    chance = float(((anchors[0] & far) != 0).mean())
    mean, wide = float(lengths[1].mean()), max(float(lengths[1].std()), 0.05)
    clip = [float(np.clip(p, 0.005, 0.995)) for p in (common.mean(), chance)]
    return Fit(float(slope), float(base), spread, mean, wide, max(clip), clip[1], best)


def correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson's correlation, 0 where one side does not vary."""
    x, y = x - x.mean(), y - y.mean()
    size = np.sqrt((x * x).sum() * (y * y).sum())
    return float((x * y).sum() / size) if size > 1e-12 else 0.0


def evidence(
    fit: Fit, lengths: list[np.ndarray], anchors: list[np.ndarray], lag: int
) -> np.ndarray:
    """For each source line, in nats, that the line `lag` further on is its translation."""
    count = len(lengths[0])
    partner = np.arange(count) + lag
    there = (partner >= 0) & (partner < count)
    partner = partner.clip(0, count - 1)
    y = lengths[1][partner]
    near = (y - fit.slope * lengths[0] - fit.base) / fit.spread
    anywhere = (y - fit.mean) / fit.wide
    evidence = (np.minimum(anywhere**2, 16) - np.minimum(near**2, 16)) / 2
    evidence += np.log(fit.wide / fit.spread)
    common = (anchors[0] & anchors[1][partner]) != 0
    yes, no = np.log(fit.shared / fit.chance), np.log((1 - fit.shared) / (1 - fit.chance))
    return np.where(there, evidence + np.where(common, yes, no), 0.0)


def best_stretch(values: np.ndarray) -> tuple[int, int, float]:
    """First, last (exclusive) and sum of the adjacent values with the largest sum."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    lowest = np.minimum.accumulate(total)
    last = int(np.argmax(total - lowest))
    first = int(np.argmin(total[: last + 1]))
    return first, last, float(total[last] - total[first])


def shifted(survey: Survey, rows: np.ndarray, lag: int, first: int, last: int) -> Finding:
    """The finding that a stretch of lines is out of step."""
    position = int(rows[first])
    number = position + 1
    count = abs(lag)
    where = "from the first line on" if first < LEAST else f"from about line {number:,} on"
    where += "" if last > len(rows) - LEAST else f", to about line {int(rows[last - 1]) + 1:,}"
    side, partner = ("target", "source") if lag > 0 else ("source", "target")
    lines = f"{count} line{'s' * (count > 1)}"
    return Finding(
        "shifted",
        survey.split.name,
        last - first,
        len(survey),
        examples(survey.split, [position, position + 1, position + 2]),
        f"{where} the {side} is {lines} late",
        f"near line {number:,}, remove {lines} that only the {side} has, "
        f"or add what the {partner} lacks",
    )


def unrelated(survey: Survey, rows: np.ndarray, first: int, last: int) -> Finding:
    """The finding that a stretch of lines has no partners."""
    lines = [int(rows[first]), int(rows[last - 1])]
    return Finding(
        "unrelated",
        survey.split.name,
        last - first,
        len(survey),
        examples(survey.split, list(range(lines[0], lines[0] + 3))),
        f"lines {lines[0] + 1:,} to {lines[1] + 1:,} have lengths and names like arbitrary pairs",
        "read some of them: are they sorted, shuffled or shifted by a lot?",
    )
