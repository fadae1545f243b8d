"""The registry of checks: functions that each measure one property of an adapter."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nmtcheck.adapter import Adapter

Measure = Callable[[Adapter, int], str]


class Finding(AssertionError):
    """A property does not hold: what was measured, and what fits better than causes.toml.

    What fits is a guess; `nmtcheck.measure.proof` alone calls it a proved cause.
    """

    proved = False
    repair: Callable[[Adapter], Adapter] | None = None  # with which the check passes

    def __init__(self, measured: str, fits: str = ""):
        super().__init__(measured)
        self.measured, self.fits = measured, fits


@dataclass(frozen=True)
class Check:
    """One property of an implementation.

    `property` says in one sentence what holds, `cause` what may lead to a failure, `notebook` which
    notebook explains it, and `needs` which parts of the adapter it calls.
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


CAUSES = tomllib.loads(Path(__file__).with_name("causes.toml").read_text("utf-8"))
CHECKS: dict[str, Check] = {}  # by id, in the order in which they are run


def check(
    id: str, *needs: str, cause: str = "", notebook: str = ""
) -> Callable[[Measure], Measure]:
    """Register a function, which calls these parts of an adapter, as a check.

    Its docstring states the property; cause and notebook are those of causes.toml unless given.
    Raises ValueError for an id that is taken or has no entry there, a part that no adapter has, or
    a missing docstring.
    """

    def register(measure: Measure) -> Measure:
        if id in CHECKS:
            raise ValueError(f"there are two checks with the id {id!r}")
        if not measure.__doc__:
            raise ValueError(f"the check {id!r} needs a docstring that states the property")
        about = {"cause": cause, "notebook": notebook} if cause else CAUSES.get(id)
        if about is None:
            raise ValueError(f"the check {id!r} has no entry in causes.toml; write its cause there")
        for part in needs:
            Adapter().has(part)
        CHECKS[id] = Check(id, measure.__doc__.strip(), **about, needs=needs, measure=measure)
        return measure

    return register
