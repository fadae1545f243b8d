"""The result of a notebook as data that comes from another process: checked before it is used."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints, TypeAdapter, ValidationError

from nmtcourse.homework.marks import STRICT, Mark, Marked, Text
from nmtcourse.homework.task import Assignment

MARK = TypeAdapter(Mark)


class Result(BaseModel):
    """The result of a notebook, or why it could not be graded."""

    model_config = STRICT
    failure: Text = ""
    marks: Annotated[list[Mark], Field(max_length=20)] = []
    notices: Annotated[list[Text], Field(max_length=1000)] = []
    seconds: float = 0.0
    choices: Annotated[dict[Text, Text], Field(max_length=20)] = {}
    answers: Annotated[str, StringConstraints(max_length=2**22)] = ""
    digest: Text = ""
    language: Text = "en"


class Unexpected(ValueError):
    """Data that are no result of the assignment."""


def require_mark(data: Any, assignment: Assignment) -> Mark:
    """A mark in data. Raises Unexpected unless its points are from 0 to those of its task."""
    try:
        mark = MARK.validate_json(json.dumps(data))
    except ValidationError as error:
        raise Unexpected(reason(error)) from None
    task = assignment.tasks.get(mark.task)
    if task is None or mark.possible != task.points:
        raise Unexpected("its process sent the mark of a different task")
    if mark.points is not None and not 0 <= mark.points <= mark.possible:
        raise Unexpected("its process sent more points than the task has, or less than none")
    return mark


def require_result(data: Any, assignment: Assignment) -> Result:
    """A result in data. Raises Unexpected unless it has a mark for each task of the assignment."""
    try:
        result = Result.model_validate_json(json.dumps(data))
    except ValidationError as error:
        raise Unexpected(reason(error)) from None
    rows = [require_mark(vars(mark), assignment) for mark in result.marks]
    if not result.failure and [mark.task for mark in rows] != [*assignment.tasks]:
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
    marked.marks = [*result.marks]
    marked.notices = [*result.notices, *marked.notices]
    return marked


def encodable(value: Any) -> Any:
    """A value whose texts UTF-8 can encode, however odd the characters of a student are."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(each) for key, each in value.items()}
    return [*map(encodable, value)] if isinstance(value, list) else value
