"""The result of a task and of a notebook, and as data from another process, which is checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from nmtcourse.homework.catalogue import assignment, stems

if TYPE_CHECKING:
    from nmtcourse.homework.task import Assignment

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)  # from another process
NONE = "any_assignment"  # of a student without a notebook, where nobody has handed one in
Text = Annotated[str, StringConstraints(max_length=20_000)]
Code = Annotated[str, StringConstraints(max_length=2**20)]


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


def table_line(mark: Mark, say: Callable[[str], str]) -> str:
    """The points of a task in a line."""
    return f"{mark.task}  {mark.share or '-':>4} {say('of')} {mark.possible:<3g}  {say(mark.title)}"


@dataclass
class Marked:
    """The result of a notebook: a mark for each task, and notices about the file.

    `was_run` is False if there is no notebook, or none that could be run. `choices` are the letters
    chosen, and `answers` by task what the student has written, without layout and comments.
    """

    path: Path
    number: str  # of its assignment; NONE where nobody has handed one in
    marks: list[Mark] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    seconds: float = 0.0
    was_run: bool = True
    choices: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    digest: str = ""
    language: str = "en"
    submitted: str = ""  # when its file was changed last

    @property
    def stem(self) -> str:
        """The name of its assignment's notebook."""
        return stems().get(self.number, NONE)

    @property
    def assignment(self) -> Assignment:
        """Its assignment."""
        return assignment(self.number)

    @property
    def points(self) -> float:
        """The points of all tasks that could be graded."""
        return round(sum(mark.points or 0.0 for mark in self.marks), 1)


class Result(BaseModel):
    """The result of a notebook, as another process sends it."""

    model_config = STRICT
    marks: Annotated[list[Mark], Field(max_length=20)]
    notices: Annotated[list[Text], Field(max_length=1000)]
    seconds: float
    choices: Annotated[dict[Text, Text], Field(max_length=20)]
    answers: Annotated[dict[Text, Code], Field(max_length=20)]
    language: Text


def require_marked(data: Any, path: Path, number: str) -> Marked:
    """A result in data. Raises ValueError for data of another form."""
    return Marked(path, number, **dict(validated(Result, data)))


def validated(kind: Any, data: Any) -> Any:
    """Data as an object of some kind. Raises ValueError that says what is wrong with them."""
    try:
        return TypeAdapter(kind).validate_json(json.dumps(data))
    except ValidationError as error:
        from nmtlib.settings import explain

        raise ValueError(f"its process sent no result: {explain(error)}") from None


def as_data(marked: Marked) -> dict[str, Any]:
    """The result of a notebook as data."""
    rows = [vars(mark) for mark in marked.marks]
    fields = {name: getattr(marked, name) for name in Result.model_fields}
    return encodable({**fields, "marks": rows})


def encodable(value: Any) -> Any:
    """A value whose texts UTF-8 can encode, however odd the characters of a student are."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [*map(encodable, value)]
    return value
