"""The result of a notebook as data that comes from another process: checked before it is used."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from nmtcourse.homework.marks import Mark, Marked
from nmtcourse.homework.task import Assignment

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
Text = Annotated[str, StringConstraints(max_length=20_000)]


class Row(BaseModel):
    """The result of a task, as `Mark`."""

    model_config = STRICT
    task: Text
    title: Text
    points: Annotated[float, Field(ge=0)] | None
    possible: float
    measured: Text
    cause: Text
    text: Text
    begun: bool
    behaviour: Text = ""


class Result(BaseModel):
    """The result of a notebook, or why it could not be graded."""

    model_config = STRICT
    failure: Text = ""
    marks: Annotated[list[Row], Field(max_length=20)] = []
    notices: Annotated[list[Text], Field(max_length=1000)] = []
    seconds: float = 0.0
    choices: Annotated[dict[Text, Text], Field(max_length=20)] = {}
    answers: Annotated[str, StringConstraints(max_length=2**22)] = ""
    digest: Text = ""
    language: Text = "en"


class Unexpected(ValueError):
    """Data that are no result of the assignment."""


def require_row(data: Any, assignment: Assignment) -> Row:
    """A row of data. Raises Unexpected unless its points are from 0 to those of its task."""
    try:
        row = Row.model_validate(data)
    except ValidationError as error:
        raise Unexpected(reason(error)) from None
    task = assignment.tasks.get(row.task)
    if task is None or row.possible != task.points:
        raise Unexpected("its process sent the mark of a different task")
    if row.points is not None and row.points > row.possible:
        raise Unexpected("its process sent more points than the task has")
    return row


def require_result(data: Any, assignment: Assignment) -> Result:
    """A result in data. Raises Unexpected unless it has a mark for each task of the assignment."""
    try:
        result = Result.model_validate(data)
    except ValidationError as error:
        raise Unexpected(reason(error)) from None
    rows = [require_row(row.model_dump(), assignment) for row in result.marks]
    if not result.failure and [row.task for row in rows] != [*assignment.tasks]:
        raise Unexpected("its process did not send a mark for each task")
    return result


def reason(error: ValidationError) -> str:
    """What is wrong with data, in a line."""
    where = ".".join(map(str, error.errors()[0]["loc"]))
    return f"its process sent no result ({where}: {error.errors()[0]['msg']})"


def as_data(marked: Marked) -> dict[str, Any]:
    """The result of a notebook as data."""
    names = ("notices", "seconds", "choices", "answers", "digest", "language")
    fields = {name: getattr(marked, name) for name in names}
    rows = [vars(mark) for mark in marked.marks]
    return encodable({"failure": "", "marks": rows, **fields})


def add(result: Result, marked: Marked) -> Marked:
    """A notebook with its result."""
    fields = result.model_dump(exclude={"failure", "marks", "notices"})
    for name, value in fields.items():
        setattr(marked, name, value)
    marked.marks = [Mark(**row.model_dump()) for row in result.marks]
    marked.notices = [*result.notices, *marked.notices]
    return marked


def encodable(value: Any) -> Any:
    """A value whose texts UTF-8 can encode, however odd the characters of a student are."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(each) for key, each in value.items()}
    return [*map(encodable, value)] if isinstance(value, list) else value
