"""Long lists of cases: a few that stand for all run at every commit, and all of them at night."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable

import pytest


def some(
    cases: Iterable, every: int = 1_000_000, by: Callable[..., Hashable] = lambda case: None
) -> list:
    """The cases as parameters of a test, those that wait for the night marked `nightly`.

    At a commit runs the first of each group that `by` makes, and each `every`-th after it.
    """
    seen, parameters = Counter(), []
    for case in cases:
        group = by(case)
        marks = [pytest.mark.nightly] if seen[group] % every else []
        seen[group] += 1
        parameters.append(
            pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks)
        )
    return parameters
