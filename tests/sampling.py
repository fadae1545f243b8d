"""Which cases run at a commit: a sample that the day's sources choose; at night all of them.

Each process of one run chooses the same cases, each commit chooses others, and in the end every
case has had its turn.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Hashable, Iterable
from functools import cache
from pathlib import Path
from typing import TypeVar

from digests import digest_of

Case = TypeVar("Case")
ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("nmt*/**/*.py", "tests/**/*.py")


def everything() -> bool:
    """Whether nothing waits for the night."""
    return bool(os.environ.get("NMTLIB_ALL"))


@cache
def today() -> str:
    """The digest of the packages and the tests."""
    return digest_of(ROOT, *SOURCES)


def sampled(
    cases: Iterable[Case],
    key: str,
    *,
    count: int = 1,
    share: float = 0.0,
    by: Callable[[Case], Hashable] = lambda case: None,
    enough: bool = True,
) -> list[Case]:
    """`count` cases of each group, or a `share` of it where that is more, in their order.

    `by` says to which group a case belongs; `key` keeps two families from choosing alike.  These
    are all cases where a sample is not `enough`, as no record of all holds any more, and at night.
    """
    cases = list(cases)
    if everything() or not enough:
        return cases
    groups: dict[Hashable, list[tuple[str, int]]] = {}
    for number, case in enumerate(cases):
        rank = hashlib.sha256(f"{today()} {key} {number}".encode()).hexdigest()
        groups.setdefault(by(case), []).append((rank, number))
    chosen = {
        number
        for group in groups.values()
        for _, number in sorted(group)[: max(count, math.ceil(share * len(group)))]
    }
    return [case for number, case in enumerate(cases) if number in chosen]
