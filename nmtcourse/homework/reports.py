"""What an instructor gets: a table and a page of a graded class."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from nmtcourse.homework.mislaid import printable
from nmtcourse.homework.submissions import Results
from nmtlib.files import write_atomically, write_output

COLUMNS = tuple(
    "student assignment task points possible cause notices submitted verdict comment".split()
)
BREAK = " ⏎ "  # between the lines of a verdict
SHOWN = 20  # notices of a notebook
SHORT = 600  # characters of a syntax tree, below which two answers are alike by chance
LONGEST = 2**24  # characters of a cell that is read


def points_rows(graded: Results) -> Iterable[list[str]]:
    """A row of `COLUMNS` for each student and task, with an empty comment.

    The first row of a notebook has its notices.
    """
    for student, marked in graded:
        notices = "; ".join(first_of(marked.notices))
        for mark in marked.marks:
            cause = "" if mark.full else mark.cause
            verdict = BREAK.join(mark.text.splitlines())
            about = [student, marked.stem, mark.task, mark.share, f"{mark.possible:g}"]
            row = [*about, cause, notices, marked.submitted, verdict, ""]
            yield [*map(cell, row)]
            notices = ""


def first_of(notices: list[str]) -> list[str]:
    """The first notices of a notebook, and how many more there are.

    >>> first_of(["a"] * 25)[-1]
    'and 5 more'
    """
    more = len(notices) - SHOWN
    if more <= 0:
        return notices
    return [*notices[:SHOWN], f"and {more} more"]


def points_table(graded: Results) -> str:
    """A CSV with a row for each student and task."""
    return as_csv([[*COLUMNS], *points_rows(graded)])


def as_csv(rows: list[list[str]]) -> str:
    """Rows as a CSV that a spreadsheet shows and does not compute."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([*map(cell, row)] for row in rows)
    return text.getvalue()


def cell(text: str) -> str:
    """A text that a spreadsheet shows and does not compute."""
    text = printable(text)
    if text.startswith(("=", "+", "-", "@")):  # what begins a formula
        return f"'{text}"
    return text


def inline(text: str) -> str:
    """A text that Markdown shows as it is, in a line or a table."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", printable(text))


def copies(graded: Results) -> list[str]:
    """Groups of students with the same answer to a task, apart from names and layout, or with
    answers that give the same wrong numbers on many inputs, for which no known mistake is the
    reason.

    A short answer is left out: many students write the same one.
    """
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for student, marked in graded:
        for task, code in marked.answers.items():
            if marked.was_run and len(code) >= SHORT:
                groups[task, "the same answer", code].append(student)
        for mark in marked.marks:
            if mark.behaviour:
                groups[mark.task, "the same wrong numbers", mark.behaviour].append(student)
    tasks_of: dict[tuple[str, str], list[str]] = defaultdict(list)  # by what and the students
    for (task, what, _), students in sorted(groups.items()):
        if len(students) > 1:
            tasks_of[what, ", ".join(students)].append(task)
    return [
        f"{', '.join(tasks)}: {what} from {students}"
        for (what, students), tasks in tasks_of.items()
    ]


def misconceptions(graded: Results) -> list[tuple[int, str, str]]:
    """How many students failed a task for each cause, the most frequent first; no stubs."""
    counts: Counter[tuple[str, str]] = Counter()
    for _, marked in graded:
        for mark in marked.marks:
            was_tried = marked.was_run and mark.begun and mark.points is not None
            if was_tried and not mark.full:
                counts[mark.task, mark.cause or mark.measured] += 1
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(count, task, cause) for (task, cause), count in ranked]


def class_report(graded: Results) -> str:
    """A page in Markdown: points by task, misconceptions by frequency, notices."""
    by_task: dict[str, list[float]] = defaultdict(list)
    blank: Counter = Counter()
    for _, marked in graded:
        if not marked.was_run:
            continue
        for mark in marked.marks:
            if mark.points is None:
                continue
            name = f"{mark.task} {mark.title}"
            by_task[name].append(mark.points / mark.possible)
            if not mark.begun:
                blank[name] += 1
    lines = ["# The class", "", "| task | submissions | not begun | mean | full points |"]
    lines += ["|---|---|---|---|---|"]
    for task, shares in sorted(by_task.items()):
        full = shares.count(1)
        mean = 100 * sum(shares) / len(shares)
        lines.append(f"| {task} | {len(shares)} | {blank[task]} | {mean:.0f} % | {full} |")
    lines += ["", "## What was misunderstood", "", "| students | task | likely cause |"]
    lines += ["|---|---|---|"]
    lines += [
        f"| {count} | {task} | {inline(why)} |" for count, task, why in misconceptions(graded)
    ]
    remarks = []
    for student, marked in graded:
        for notice in first_of(marked.notices):
            remarks.append(f"- {inline(student)}, {inline(marked.path.name)}: {inline(notice)}")
    remarks += [f"- {inline(line)}" for line in copies(graded)]
    return "\n".join([*lines, "", "## To look at", "", *(remarks or ["Nothing."])]) + "\n"


def require_places(table: Path) -> None:
    """Before the work, raise an error if a report cannot be written.

    ValueError if the table would be replaced by the page next to it, FileExistsError if one of the
    two exists.
    """
    page = table.with_suffix(".md")
    if table.suffix.lower() == page.suffix:
        better = table.with_suffix(".csv")
        raise ValueError(f"--csv must be the name of a table, such as {better}, not {table}")
    for path in (table, page):
        if path.exists():
            raise FileExistsError(f"{path} exists already; give a different name with --csv")


def write_table(graded: Results, table: Path) -> Path:
    """Write the CSV of the results so far beside the table; returns its path."""
    part = part_of(table)
    write_output(part, points_table(graded))
    return part


def part_of(table: Path) -> Path:
    """Where the results so far are kept while a class is graded."""
    return table.with_name(f"{table.name}.part")


def write_reports(graded: Results, table: Path) -> list[Path]:
    """Write the CSV and the page; returns their paths."""
    write_output(table, points_table(graded))
    part_of(table).unlink(missing_ok=True)
    page = table.with_suffix(".md")
    write_atomically(page, class_report(graded))
    return [table, page]
