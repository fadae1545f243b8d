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
    `cause` is empty for what passed, and `proved` where a repair of this code has shown it;
    `repairable` where other checks can be asked with that repair; `follows` names the check whose
    failure explains this one; `printed` is what the code
    under the check wrote to its output and error streams.
    """

    check: Check
    verdict: Verdict
    measured: str
    cause: str = ""
    seconds: float = 0.0
    printed: str = ""
    follows: str = ""
    proved: bool = False
    repairable: bool = False

    @property
    def bad(self) -> bool:
        """Whether there is something to repair."""
        return self.verdict in ("failed", "error", "timeout")

    @property
    def title(self) -> str:
        """The id of the check; an exception is nobody's failure but that of the code."""
        return "your code" if self.verdict == "error" else self.check.id

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
        if self.verdict == "error":
            return [("measured", self.measured)]
        notes = [("measured", self.measured), ("expected", self.expected)]
        cause = [("cause" if self.proved else "fits", self.cause)] if self.cause else []
        return [*notes, *cause, ("read", self.read)]

    def to_dict(self) -> dict[str, Any]:
        """The result as data for JSON; what is empty is left out."""
        data = {"check": self.check.id, "verdict": self.verdict, "measured": self.measured}
        if self.verdict == "error":
            data["title"] = self.title
        elif self.bad:
            causes = {"cause" if self.proved else "fits": self.cause}
            data |= {"expected": self.expected, **causes, "read": self.read}
        data |= {"follows": self.follows, "printed": self.printed}
        return {key: value for key, value in data.items() if value}
