"""Do the lines of both sides belong together?  Lengths, names, numbers and words tell.

A long sentence has a long translation, and names and numbers stay the same.  Each line has some
evidence for a partner: the logarithm of how much likelier its length and its names are next to this
partner than next to an *arbitrary line of the neighbourhood*.  Lines that are out of step have no
evidence for their own partner, but for one some lines away.

Why the neighbourhood, and not the whole file: in a file that is sorted (by length, by alphabet)
neighbours are alike, and a partner 20 lines away fits as well as the right one, or better where
lengths rise along the file.  So only what a line has beyond its neighbourhood counts: the running
mean is subtracted from the log lengths, and a name that all neighbours have is no evidence.  A sum
of such evidence over adjacent lines exceeds `ENOUGH` by chance with a probability of exp(-ENOUGH):
if the lines of a neighbourhood are exchangeable, the likelihood ratio is a martingale.

    lag                -1     0    +1    +2
    aligned lines    -0.9  +1.1  -0.8  -1.0    nats a line
    one line late    -0.8  -0.9  +1.1  -0.9
    a sorted file     0.0   0.0   0.0   0.0

An alarm also needs a peak, and the words must not contradict it: see `together`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from nmtcourse.doctor.kinds import Finding
from nmtcourse.doctor.survey import Survey, examples
from nmtcourse.doctor.together import CHANCE, SURE, association

FURTHEST = 20  # lines by which a shift is looked for
NEAR = 24  # lines on each side that make the neighbourhood
LEAST = 40  # pairs; fewer tell nothing
BLOCKS, BLOCK = 24, 100  # the model is fitted to the best of so many blocks of at least so many
ENOUGH = 25.0  # nats
NIL = 0.1  # where log lengths vary less than this around their mean, they tell nothing
READ = 4_000  # pairs whose words are compared


class Sides(NamedTuple):
    """What is known of both sides of each pair, source and target.

    `lengths` are log lengths without the running mean, `tells` where they vary enough to be
    evidence, `anchors` the names and numbers as bits.
    """

    lengths: list[np.ndarray]
    tells: np.ndarray
    anchors: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.tells)


class Fit(NamedTuple):
    """How partners look: the target's log length is slope * source's + base, give or take."""

    slope: float
    base: float
    spread: float
    shared: float  # how often partners have a name or number in common
    chance: float  # how often arbitrary lines do


def judge_order(survey: Survey) -> Iterator[Finding]:
    """Lines that belong to other lines than their own."""
    rows = np.flatnonzero(survey.kept)
    if len(rows) < LEAST:
        return
    sides = measure_sides(survey, rows)
    fit = best_fit(sides)
    neighbourhood = mean_likelihood(fit, sides)
    own = likelihood(fit, sides, 0) - neighbourhood
    finding = find_shift(survey, rows, sides, fit, neighbourhood, own)
    finding = finding or find_unrelated(survey, rows, own)
    if finding:
        yield finding


def measure_sides(survey: Survey, rows: np.ndarray) -> Sides:
    """What some rows of a survey have beyond their neighbourhood."""
    lengths, tells = [], np.ones(len(rows), bool)
    for side in "st":
        beyond = without_trend(np.log(survey.numbers[f"chars_{side}"][rows] + 1.0))
        tells &= np.sqrt(running_mean(beyond**2)) > NIL
        lengths.append(beyond)
    return Sides(lengths, tells, [survey.numbers[f"anchors_{side}"][rows] for side in "st"])


def without_trend(values: np.ndarray) -> np.ndarray:
    """Values minus their running mean; its window is symmetric, so a slope leaves nothing."""
    return values - running_mean(values)


def running_mean(values: np.ndarray) -> np.ndarray:
    """The mean of each value and its neighbours, as many before it as after it."""
    places = np.arange(len(values))
    half = np.minimum(np.minimum(places, places[::-1]), NEAR)
    total = np.concatenate([[0.0], np.cumsum(values)])
    return (total[places + half + 1] - total[places - half]) / (2 * half + 1)


def best_fit(sides: Sides) -> Fit:
    """The model of the block and lag whose lengths correlate best."""
    count = len(sides)
    source, target = sides.lengths
    size = max(BLOCK, -(-count // BLOCKS))
    best, stretch = correlation(source, target), (0, count, 0)
    for first in range(0, max(count - size // 2, 1), size):
        last = min(first + size, count)
        for lag in range(-FURTHEST, FURTHEST + 1):
            if first + lag >= 0 and last + lag <= count:
                r = correlation(source[first:last], target[first + lag : last + lag])
                r -= 0.1 * (lag != 0)  # chance alone finds a good lag among forty
                if r > best:
                    best, stretch = r, (first, last, lag)
    first, last, lag = stretch
    x, y = source[first:last], target[first + lag : last + lag]
    slope, base = np.polyfit(x, y, 1) if x.std() > 1e-9 else (0.0, y.mean())
    spread = max(float((y - slope * x - base).std()), 0.05)
    common = (sides.anchors[0][first:last] & sides.anchors[1][first + lag : last + lag]) != 0
    far = np.roll(sides.anchors[1], count // 2)
    chance = float(np.clip(((sides.anchors[0] & far) != 0).mean(), 0.005, 0.995))
    shared = max(float(np.clip(common.mean(), 0.005, 0.995)), chance)
    return Fit(float(slope), float(base), spread, shared, chance)


def correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson's correlation, 0 where one side does not vary."""
    x, y = x - x.mean(), y - y.mean()
    size = np.sqrt((x * x).sum() * (y * y).sum())
    return float((x * y).sum() / size) if size > 1e-12 else 0.0


def likelihood(fit: Fit, sides: Sides, lag: int) -> np.ndarray:
    """How well the line `lag` further on fits each source line, in nats; NaN beyond the end."""
    count = len(sides)
    partner = np.arange(count) + lag
    there = (partner >= 0) & (partner < count)
    partner = partner.clip(0, count - 1)
    miss = (sides.lengths[1][partner] - fit.slope * sides.lengths[0] - fit.base) / fit.spread
    fitting = np.where(sides.tells & sides.tells[partner], -np.minimum(miss**2, 16) / 2, 0.0)
    common = (sides.anchors[0] & sides.anchors[1][partner]) != 0
    yes, no = np.log(fit.shared / fit.chance), np.log((1 - fit.shared) / (1 - fit.chance))
    return np.where(there, fitting + np.where(common, yes, no), np.nan)


def mean_likelihood(fit: Fit, sides: Sides) -> np.ndarray:
    """For each source line, the logarithm of the mean likelihood of the lines around it."""
    total, times = np.zeros(len(sides)), np.zeros(len(sides))
    for lag in range(-NEAR, NEAR + 1):
        values = likelihood(fit, sides, lag)
        there = ~np.isnan(values)
        total[there] += np.exp(values[there])
        times += there
    return np.log(total / times)


def find_shift(
    survey: Survey,
    rows: np.ndarray,
    sides: Sides,
    fit: Fit,
    neighbourhood: np.ndarray,
    own: np.ndarray,
) -> Finding | None:
    """The stretch of lines that fits best some lines away, if there is one."""

    def evidence(lag: int) -> np.ndarray:
        return np.nan_to_num(likelihood(fit, sides, lag) - neighbourhood)

    best, place = ENOUGH, (0, 0, 0)
    for lag in range(-FURTHEST, FURTHEST + 1):
        if not lag or abs(lag) >= len(rows) // 2:
            continue
        moved = evidence(lag)
        first, last, gain = best_stretch(moved - own)
        # It must fit, not only fit less badly than the own partner.
        if gain > best and moved[first:last].sum() > ENOUGH / 2:
            best, place = gain, (lag, first, last)
    lag, first, last = place
    if not lag:
        return None
    # A shift is a peak among the lags.  What grows from lag to lag is a trend along the file.
    fits = evidence(lag)[first:last].sum()
    beside = max(evidence(lag + step)[first:last].sum() for step in (-2, -1, 1, 2))
    if fits - beside < ENOUGH / 2 or contradicted(survey, rows[first:last], lag):
        return None
    return shifted(survey, rows, lag, first, last)


def contradicted(survey: Survey, rows: np.ndarray, lag: int) -> bool:
    """Whether the words of the own partners go together, and better than those of others."""
    sources, targets = texts_of(survey, rows)
    with_own = association(sources, targets)
    if with_own is None or with_own < SURE:
        return False
    moved = (sources[:-lag], targets[lag:]) if lag > 0 else (sources[-lag:], targets[:lag])
    return with_own > (association(*moved) or 0.0)


def texts_of(survey: Survey, rows: np.ndarray) -> tuple[list[str], list[str]]:
    """The sides of some rows of a split, of the first `READ`, in a second pass over its files."""
    wanted = {int(row) for row in rows[:READ]}
    pairs = [
        (row.source, row.target)
        for position, row in enumerate(islice(survey.split.rows(), max(wanted) + 1))
        if position in wanted
    ]
    return [source for source, _ in pairs], [target for _, target in pairs]


def find_unrelated(survey: Survey, rows: np.ndarray, own: np.ndarray) -> Finding | None:
    """Lines that fit their own partners worse than arbitrary ones: a stretch, or the whole file.

    Lengths alone accuse nobody: entries of a dictionary fit no better than by chance.  It is wrong
    where words recur and do not go together either, and otherwise a note.
    """
    first, last, misfit = best_stretch(-own)
    fits = own[:first].sum() + own[last:].sum()
    if misfit > ENOUGH + np.log(len(rows)) and fits > ENOUGH and last - first >= BLOCK:
        together = association(*texts_of(survey, rows[first:last]))
        if together is None or together < SURE:
            return unrelated(survey, rows[first:last], len(rows), together)
    elif own.sum() < ENOUGH and len(rows) >= 2 * BLOCK:
        together = association(*texts_of(survey, rows))
        if together is None or together < SURE:
            return unrelated(survey, rows, len(rows), together)
    return None


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


def unrelated(survey: Survey, rows: np.ndarray, total: int, together: float | None) -> Finding:
    """The finding that some lines, or all, have no partners.

    It is a note where the words do not tell: absence of evidence is no evidence.
    """
    lines = [int(rows[0]), int(rows[-1])]
    where = "from the first line to the last"
    if len(rows) < total:
        where = f"lines {lines[0] + 1:,} to {lines[1] + 1:,}"
    detail = f"{where}, lengths and names are like those of arbitrary pairs"
    advice = "read some of them: are they sorted, shuffled or shifted by a lot?"
    against = together is not None and together < CHANCE
    if against:
        detail += ", and so are the words"
    return Finding(
        "unrelated",
        survey.split.name,
        len(rows),
        len(survey),
        examples(survey.split, list(range(lines[0], lines[0] + 3))),
        detail,
        advice,
        "wrong" if against else "note",
    )
