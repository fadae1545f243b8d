"""Read the tables and options of a class: a grade is a number that somebody questions.

Each row and each option is checked by a model before anything is computed of it. A message names
the file, the line, and what to do.
"""

from __future__ import annotations

import csv
import io
import math
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from nmtcourse.homework.catalogue import assignments
from nmtcourse.homework.marks import NONE
from nmtcourse.homework.reports import COLUMNS, LONGEST
from nmtlib.settings import explain

Table = list[dict[str, str]]
SAVE_AS = "in Excel choose Save As, CSV UTF-8 (comma delimited)"
csv.field_size_limit(LONGEST)


def number_or_none(value: Any) -> Any:
    """The number in a cell; None for an empty one, and the text itself if it is neither."""
    if not isinstance(value, str):
        return value
    try:
        return float(value) if value.strip() else None
    except ValueError:
        return value


def time_or_none(value: Any) -> Any:
    """The time in a text; None for an empty one."""
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value.strip()) if value.strip() else None
    except ValueError:
        raise ValueError(f"must be a time such as 2026-12-01T23:59, not {value!r}") from None


Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Number = Annotated[Amount | None, BeforeValidator(number_or_none)]
Time = Annotated[datetime | None, BeforeValidator(time_or_none)]


class Known(BaseModel):
    """What a roster knows of a student; any column but the first may be missing."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    student: Annotated[str, Field(min_length=1)]
    id: str = ""
    name: str = ""
    email: str = ""
    section: str = ""
    extension: Number = None  # in days


class Row(BaseModel):
    """A row of `points.csv`: the points of a student in a task, None if they are not known."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    student: Annotated[str, Field(min_length=1)]
    assignment: str
    task: str
    points: Number
    submitted: Time
    verdict: str = ""
    comment: str = ""

    @field_validator("assignment")
    @classmethod
    def known(cls, name: str) -> str:
        """The name of an assignment of this course, or of none."""
        if name != NONE and name not in {assignment.stem for assignment in assignments().values()}:
            raise ValueError(f"is {name!r}, which this course does not have")
        return name

    @property
    def possible(self) -> float:
        """The points of the task, by the assignment."""
        return possible_of(self.assignment).get(self.task, 0.0)


class Terms(BaseModel):
    """What the options say: a deadline, what each late day costs, points above a task's own."""

    model_config = ConfigDict(frozen=True)
    deadline: Time = None
    late: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 0.0
    bonus: Amount = 0.0


def possible_of(stem: str) -> dict[str, float]:
    """The points of the tasks of an assignment, by the name of its notebook."""
    assignment = assignments().get(stem.partition("_")[0])
    if assignment is None:
        return {}
    return {task.id: task.points for task in assignment.tasks.values()}


def read_text(path: Path) -> str:
    """The text of a table. Raises ValueError for one that is not in UTF-8, with what to do."""
    raw = path.read_bytes()
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ValueError(f"{path} is in UTF-16; it must be in UTF-8: {SAVE_AS}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ValueError(
            f"{path}, line {line}: not UTF-8 but probably Latin-1, as Excel's plain CSV is: "
            f"{SAVE_AS}"
        ) from None


def read_numbered(path: Path, columns: tuple[str, ...] = ("student",)) -> list[tuple[int, dict]]:
    """The rows of a CSV with a header, each with the number of its last line.

    Raises ValueError if a column is missing, or for what is no such table.
    """
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), restkey="")
    try:
        names = [*(reader.fieldnames or [])]
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}; is it a CSV?") from None
    missing = [name for name in columns if name not in names]
    if missing:
        cure = ""
        if len(names) == 1 and ";" in names[0]:
            cure = f"; it is divided by semicolons, not by commas: {SAVE_AS}"
        raise ValueError(
            f"{path} has no column {missing[0]!r}; it has {', '.join(names)[:200]}{cure}"
        )
    # Cells beyond the header have no name; missing ones are None.
    return [(line, {name: text or "" for name, text in row.items() if name}) for line, row in rows]


def read_table(path: Path, columns: tuple[str, ...] = ("student",)) -> Table:
    """The rows of a CSV with a header, as texts. Raises ValueError as `read_numbered` does."""
    return [row for _, row in read_numbered(path, columns)]


def read_points(path: Path, bonus: float = 0.0) -> list[Row]:
    """The rows of `points.csv`: one for each student and task, with points that it may have.

    Raises ValueError for any other table, naming the line.
    """
    by_key: dict[tuple[str, str, str], Row] = {}
    for line, texts in read_numbered(path, COLUMNS):
        where = f"{path}, line {line} ({texts['student']}, {texts['task']})"
        row = checked(Row, texts, where)
        key = row.student, row.assignment, row.task
        if key in by_key:
            raise ValueError(f"{where}: a second row of this student and task; keep one of the two")
        if row.assignment != NONE and row.task not in possible_of(row.assignment):
            raise ValueError(f"{where}: {row.assignment} has no task {row.task!r}; delete the row")
        if row.points is not None and row.points > row.possible + bonus + 1e-9:
            raise ValueError(
                f"{where}: {row.points:g} points, but the task has {row.possible:g}; correct them, "
                "or allow more with --bonus"
            )
        by_key[key] = row
    notebooks = {(student, assignment): None for student, assignment, _ in by_key}  # in order
    for student, assignment in notebooks:
        for task in possible_of(assignment):
            if (student, assignment, task) not in by_key:
                raise ValueError(
                    f"{path} has no row of {student} for {task}; put it back, with empty points if "
                    f"they are not known, or grade again with --student {student}"
                )
    return [*by_key.values()]


def read_roster(path: Path | None) -> dict[str, Known]:
    """By the name of the folder what is known of a student.

    Raises ValueError for one who is named twice, or for an extension that is no number of days.
    """
    from nmtcourse.homework.reports import cell

    roster: dict[str, Known] = {}
    if path is None:
        return roster
    for line, texts in read_numbered(path):
        texts = {name: value.strip() for name, value in texts.items()}
        texts["student"] = cell(texts["student"])  # as the table of points has it
        entry = checked(Known, texts, f"{path}, line {line}")
        if entry.student in roster:
            raise ValueError(
                f"{path}, line {line}: it names {entry.student!r} twice; keep one row a student"
            )
        roster[entry.student] = entry
    return roster


def terms(**options: Any) -> Terms:
    """The options of an export. Raises ValueError that names one."""
    return checked(Terms, options, "")


def checked(kind: Any, values: dict[str, Any], where: str) -> Any:
    """Values as a model. Raises ValueError that says where, and what is wrong with the first."""
    try:
        return kind(**values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        value = values.get(name)
        if name in ("points", "extension", "late", "bonus") and not is_plain(value):
            why = f"{name} must be a number or empty, not {value!r}"
        elif name in ("deadline", "submitted"):
            why = f"{name} {first['ctx']['error']}"
        else:
            why = explain(error)
        message = f"--{why}"  # an option
        if where:
            message = f"{where}: {why}"
        raise ValueError(message) from None


def is_plain(value: Any) -> bool:
    """Whether a text or a number is a finite number from 0 up."""
    try:
        return 0 <= float(value) < math.inf
    except (TypeError, ValueError):
        return False
