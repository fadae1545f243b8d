"""The result of a task, and of a notebook."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, StringConstraints

from nmtcourse.homework.task import Assignment

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)  # from another process
Text = Annotated[str, StringConstraints(max_length=20_000)]


@dataclass(frozen=True)
class Mark:
    """The result of one task: points, and the parts of the verdict.

    `points` is None if the task could not be graded, or is not graded yet. `begun` is False for a
    stub.
    """

    __pydantic_config__ = STRICT

    task: Text
    title: Text
    points: float | None
    possible: float
    measured: Text = ""
    cause: Text = ""
    text: Text = ""
    begun: bool = True
    behaviour: Text = ""

    @property
    def full(self) -> bool:
        """Whether no points are missing."""
        return self.points == self.possible

    @property
    def share(self) -> str:
        """The points as a table shows them, which has no number where there is none."""
        return "" if self.points is None else f"{self.points:g}"


@dataclass
class Marked:
    """The result of a notebook: a mark for each task, and notices about the file.

    `was_run` is False if there is no notebook, or none that could be run. `choices` are the letters
    chosen, and `answers` the student's answers without layout and comments.
    """

    path: Path
    assignment: Assignment
    marks: list[Mark] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    seconds: float = 0.0
    was_run: bool = True
    choices: dict[str, str] = field(default_factory=dict)
    answers: str = ""
    digest: str = ""
    language: str = "en"
    submitted: str = ""  # when its file was changed last

    @property
    def points(self) -> float:
        """The points of all tasks that could be graded."""
        return round(sum(mark.points or 0.0 for mark in self.marks), 1)
