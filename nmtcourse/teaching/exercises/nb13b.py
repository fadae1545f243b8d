"""The judge of notebook 13b."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from statistics import mean, stdev

from nmtcourse.teaching.exercises import Wrong, call, name_call, require_equal
from nmtcourse.teaching.language import say

Conditions = Sequence[Sequence[float]]


def judge_1(
    effect: Callable[[Conditions, Conditions], tuple[float, float]], *, draw: Random
) -> str:
    """The mean difference of two groups of conditions, seed by seed, and its standard errors."""
    for _ in range(10):
        seeds = draw.randint(3, 5)
        luck = [draw.uniform(-20, 20) for _ in range(seeds)]  # of a seed, in all conditions
        groups = [
            [[shift + one + draw.uniform(-2, 2) for one in luck] for _ in range(size)]
            for shift, size in ((draw.uniform(40, 60), 3), (50, draw.choice([2, 3])))
        ]
        ones, others = ([mean(row) for row in zip(*group, strict=True)] for group in groups)
        gaps = [one - other for one, other in zip(ones, others, strict=True)]
        expected = mean(gaps), mean(gaps) / (stdev(gaps) / math.sqrt(seeds))
        given = call(effect, *groups)
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise Wrong(say("effect should return two numbers, the difference and its errors"))
        given = given[0], math.copysign(given[1], expected[1])  # errors with or without a sign
        require_equal(name_call(effect, groups), given, expected, why="a difference for each seed")
    return "10 groups of conditions"
