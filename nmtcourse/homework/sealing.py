"""Results that cross from a process that a student's code can reach: data only, checked, signed.

A message is a line: the HMAC-SHA256 of a JSON text, a space, the text. The key is in the memory of
the two processes that speak, never in a file, an argument or the environment.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import hmac
import os
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from nmtcourse.homework.marks import Mark, Marked
from nmtcourse.homework.task import Assignment

MOST = 2**22  # bytes of a message: 4 MiB
DUMPABLE = 4  # PR_SET_DUMPABLE: 0 closes /proc/PID/fd and /proc/PID/mem to the same user
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


class Result(BaseModel):
    """The result of a notebook, or why it could not be graded."""

    model_config = STRICT
    failure: Text = ""
    marks: Annotated[list[Row], Field(max_length=20)] = []
    notices: Annotated[list[Text], Field(max_length=1000)] = []
    seconds: float = 0.0
    choices: Annotated[dict[Text, Text], Field(max_length=20)] = {}
    answers: Annotated[str, StringConstraints(max_length=MOST)] = ""
    digest: Text = ""
    language: Text = "en"


class Forged(ValueError):
    """A message that the other process cannot have sent."""


def sealed(key: bytes, result: Result) -> bytes:
    """A result as a signed message."""
    text = result.model_dump_json().encode()
    return hmac.new(key, text, hashlib.sha256).hexdigest().encode() + b" " + text


def opened(key: bytes, message: bytes, assignment: Assignment) -> Result:
    """The result in a message.

    Raises Forged unless it was signed with the key and has one mark for each task of the
    assignment, in order, with points from 0 to those of the task.
    """
    seal, _, text = message.partition(b" ")
    if not hmac.compare_digest(seal, hmac.new(key, text, hashlib.sha256).hexdigest().encode()):
        raise Forged("its process sent a message that the judge did not sign")
    try:
        result = Result.model_validate_json(text)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise Forged(f"its process sent no result ({where}: {error.errors()[0]['msg']})") from None
    expected = [(task.id, task.points) for task in assignment.tasks.values()]
    if not result.failure and [(row.task, row.possible) for row in result.marks] != expected:
        raise Forged("its process sent marks of other tasks")
    if any((row.points or 0) > row.possible for row in result.marks):
        raise Forged("its process sent more points than the task has")
    return result


def result_of(marked: Marked) -> Result:
    """The result of a notebook as a message has it."""
    names = ("notices", "seconds", "choices", "answers", "digest", "language")
    fields = {name: getattr(marked, name) for name in names}
    return Result.model_validate(encodable({"marks": [*map(vars, marked.marks)], **fields}))


def encodable(value: Any) -> Any:
    """A value whose texts UTF-8 can encode, however odd the characters of a student are."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(each) for key, each in value.items()}
    return [*map(encodable, value)] if isinstance(value, list) else value


def marks_of(result: Result) -> list[Mark]:
    """The marks in a result."""
    return [Mark(**row.model_dump()) for row in result.marks]


def new_key() -> bytes:
    """A key for one notebook."""
    return os.urandom(32)


def close_memory() -> None:
    """Close the memory and descriptors of this process to others of the same user, on Linux.

    A process of root reads them all the same.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc: Any = ctypes.CDLL(None)
        libc.prctl(DUMPABLE, 0, 0, 0, 0)
