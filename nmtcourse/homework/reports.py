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
LONGEST = 2**24  # characters of a cell that is read


def points_rows(graded: Results) -> Iterable[list[str]]:
    """A row of `COLUMNS` for each student and task, with an empty comment.

    The first row of a notebook has its notices.
    """
    for student, marked in graded:
        for place, found in enumerate(marked.marks):
            notices = "" if place else "; ".join(first_of(marked.notices))
            about = [student, marked.assignment.stem, found.task, found.share]
            cause, verdict = "" if found.full else found.cause, BREAK.join(found.text.splitlines())
            row = [*about, f"{found.possible:g}", cause, notices, marked.submitted, verdict, ""]
            yield [*map(cell, row)]


def first_of(notices: list[str]) -> list[str]:
    """The first notices of a notebook, and how many more there are.

    >>> first_of(["a"] * 25)[-1]
    'and 5 more'
    """
    more = len(notices) - SHOWN
    return notices if more <= 0 else [*notices[:SHOWN], f"and {more} more"]


def points_table(graded: Results) -> str:
    """A CSV with a row for each student and task."""
    return as_csv([[*COLUMNS], *points_rows(graded)])


def as_csv(rows: list[list[str]]) -> str:
    """Rows as a CSV that a spreadsheet shows and does not compute."""
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerows([cell(each) for each in row] for row in rows)
    return made.getvalue()


def cell(text: str) -> str:
    """A text that a spreadsheet shows and does not compute."""
    shown = printable(text)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown


def inline(text: str) -> str:
    """A text that Markdown shows as it is, in a line or a table."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", printable(text))


def copies(graded: Results) -> list[str]:
    """Groups of students with the same answers, apart from names and layout, or with answers that
    give the same wrong numbers on many inputs, for which no known mistake is the reason.
    """
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for student, marked in graded:
        if marked.was_run and marked.answers.strip("'\""):
            groups[marked.assignment.stem, "the same answers", marked.answers].append(student)
        for mark in marked.marks:
            if mark.behaviour:
                groups[mark.task, "the same wrong numbers", mark.behaviour].append(student)
    return [
        f"{where}: {what} from {', '.join(students)}"
        for (where, what, _), students in groups.items()
        if len(students) > 1
    ]


def misconceptions(graded: Results) -> list[tuple[int, str, str]]:
    """How many students failed a task for each cause, the most frequent first; no stubs."""
    counts = Counter(
        (found.task, found.cause or found.measured)
        for _, marked in graded
        for found in marked.marks
        if marked.was_run and found.begun and found.points is not None and not found.full
    )
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(count, task, cause) for (task, cause), count in ranked]


def class_report(graded: Results) -> str:
    """A page in Markdown: points by task, misconceptions by frequency, notices."""
    by_task: dict[str, list[float]] = defaultdict(list)
    blank: Counter = Counter()
    for _, marked in graded:
        for found in marked.marks if marked.was_run else []:
            if found.points is None:
                continue
            name = f"{found.task} {found.title}"
            by_task[name].append(found.points / found.possible)
            blank[name] += not found.begun
    lines = ["# The class", "", "| task | submissions | not begun | mean | full points |"]
    lines += ["|---|---|---|---|---|"]
    for task, shares in sorted(by_task.items()):
        full, mean = sum(share == 1 for share in shares), 100 * sum(shares) / len(shares)
        lines.append(f"| {task} | {len(shares)} | {blank[task]} | {mean:.0f} % | {full} |")
    lines += ["", "## What was misunderstood", "", "| students | task | likely cause |"]
    lines += ["|---|---|---|"]
    lines += [
        f"| {count} | {task} | {inline(why)} |" for count, task, why in misconceptions(graded)
    ]
    told = [
        f"- {inline(student)}, {inline(m.path.name)}: {inline(notice)}"
        for student, m in graded
        for notice in first_of(m.notices)
    ]
    told += [f"- {inline(line)}" for line in copies(graded)]
    return "\n".join([*lines, "", "## To look at", "", *(told or ["Nothing."])]) + "\n"


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
