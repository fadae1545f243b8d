"""What a check is: a function that measures one property of an adapter, and what the report says
about it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nmtlib.checks.adapter import Adapter

Measure = Callable[[Adapter, int], str]


class Finding(AssertionError):
    """A property does not hold: what was measured, and the likely cause where it is known better
    than in general.
    """

    def __init__(self, measured: str, cause: str = ""):
        super().__init__(measured)
        self.measured, self.cause = measured, cause


@dataclass(frozen=True)
class Check:
    """One property of an implementation.

    `property` says in one sentence what holds, `cause` what it is mostly due to when it does not,
    `notebook` which notebook explains it, and `needs` which parts of the adapter it calls.
    `measure(adapter, seed)` returns one line about what it measured, raises `Finding` where the
    property does not hold, and NotImplementedError where it cannot tell.
    """

    id: str
    property: str
    cause: str
    notebook: str
    needs: tuple[str, ...]
    measure: Measure

    @property
    def subject(self) -> str:
        """The part of the id before the dot."""
        return self.id.partition(".")[0]


CHECKS: dict[str, Check] = {}  # by id, in the order in which they are run


def check(
    id: str, *, cause: str, notebook: str, needs: tuple[str, ...]
) -> Callable[[Measure], Measure]:
    """Register a function as a check of the property that its docstring states.

    Raises ValueError for an id that is taken, a part that no adapter has, or a missing docstring.
    """

    def register(measure: Measure) -> Measure:
        if id in CHECKS:
            raise ValueError(f"there are two checks with the id {id!r}")
        if not measure.__doc__:
            raise ValueError(
                f"the function of the check {id!r} needs a docstring that states the property"
            )
        for part in needs:
            Adapter().has(part)
        CHECKS[id] = Check(id, measure.__doc__.strip(), cause, notebook, needs, measure)
        return measure

    return register
