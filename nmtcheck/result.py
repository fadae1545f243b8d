"""The verdict of one check, with help for the repair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from nmtcheck.registry import Check

Verdict = Literal["passed", "failed", "error", "timeout", "skipped"]


@dataclass(frozen=True)
class Result:
    """One check's verdict, what it measured, and its time in seconds.

    'failed': the property does not hold; 'error': the implementation raised an exception;
    'timeout': it did not return; 'skipped': a part is missing, or nothing could be decided.
    `cause` is empty for what passed; `follows` names the check whose failure explains this one;
    `printed` is what the code under the check wrote to its output and error streams.
    """

    check: Check
    verdict: Verdict
    measured: str
    cause: str = ""
    seconds: float = 0.0
    printed: str = ""
    follows: str = ""

    @property
    def bad(self) -> bool:
        """Whether there is something to repair."""
        return self.verdict in ("failed", "error", "timeout")

    @property
    def expected(self) -> str:
        """The property, in one sentence."""
        return self.check.property

    @property
    def read(self) -> str:
        """The notebook that explains the property."""
        return f"notebooks/{self.check.notebook}.ipynb"

    @property
    def notes(self) -> list[tuple[str, str]]:
        """What was measured and what helps with a repair, each with its label."""
        notes = [("measured", self.measured), ("expected", self.expected)]
        return [*notes, ("likely cause", self.cause), ("read", self.read)]

    def to_dict(self) -> dict[str, Any]:
        """The result as data for JSON; what is empty is left out."""
        data = {"check": self.check.id, "verdict": self.verdict, "measured": self.measured}
        if self.bad:
            data |= {"expected": self.expected, "cause": self.cause, "read": self.read}
        data |= {"follows": self.follows, "printed": self.printed}
        return {key: value for key, value in data.items() if value}
