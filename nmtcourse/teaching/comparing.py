"""Is a difference between two lists of results larger than chance would often make it?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from nmtcourse.teaching.language import say
from nmtlib.errors import require

# Student's t: beyond so many standard errors lie 5 % of differences that chance made.
LIMITS = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}
LIMITS |= {10: 2.23, 12: 2.18, 15: 2.13, 20: 2.09, 30: 2.04, 60: 2.00}


class Comparison(NamedTuple):
    """A difference of two means, its standard error, and how many of these are the limit."""

    difference: float
    error: float
    limit: float

    @property
    def errors(self) -> float:
        """The difference in standard errors."""
        if self.error == 0:
            return math.copysign(math.inf, self.difference) if self.difference else 0.0
        return self.difference / self.error

    @property
    def beyond(self) -> bool:
        """Whether chance alone would rarely make such a difference."""
        return abs(self.errors) > self.limit

    def __str__(self) -> str:
        verdict = "beyond" if self.beyond else "within"
        return say(
            f"difference {self.difference:+.3f}, standard error {self.error:.3f}: "
            f"{abs(self.errors):.1f} errors, {verdict} the limit of {self.limit}"
        )


def compare(a: Sequence[float], b: Sequence[float], *, paired: bool) -> Comparison:
    """The mean of `a` minus that of `b`, with its error and limit.

    `paired`: the results belong together one by one, such as runs from the same seed.  Raises
    ValueError for fewer than two results, and for pairs of different number.

    >>> print(compare([2.78, 2.68, 2.75], [2.61, 2.48, 2.58], paired=True))
    difference +0.180, standard error 0.010: 18.0 errors, beyond the limit of 4.3
    >>> print(compare([2.78, 2.68, 2.75], [2.61, 2.48, 2.58], paired=False))
    difference +0.180, standard error 0.049: 3.7 errors, beyond the limit of 2.78
    """
    require(min(len(a), len(b)) >= 2, "results", "two or more on each side", [len(a), len(b)])
    difference = statistics.fmean(a) - statistics.fmean(b)
    if paired:
        require(len(a) == len(b), "paired results", "as many on each side", [len(a), len(b)])
        differences = [one - other for one, other in zip(a, b, strict=True)]
        error = statistics.stdev(differences) / math.sqrt(len(a))
        freedom = len(a) - 1
    else:
        variances = statistics.variance(a) / len(a), statistics.variance(b) / len(b)
        error, freedom = math.sqrt(sum(variances)), len(a) + len(b) - 2
    limit = LIMITS[max(known for known in LIMITS if known <= freedom)]
    return Comparison(difference, error, limit)
