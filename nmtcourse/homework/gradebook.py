"""From the table of a graded class to what leaves it: totals, feedback, Canvas, Moodle, Gradescope.

The table is the only record: an instructor may change points in it, and write comments.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from nmtcourse.homework.marks import Marked
from nmtcourse.homework.reports import BREAK, COLUMNS, as_csv, inline
from nmtcourse.homework.tables import Known, Row, Terms, possible_of, read_table
from nmtlib.files import write_atomically

DAY = 24 * 3600
SHEETS = {  # of a learning platform: its columns, and those of a roster
    "canvas": {"Student": "name", "ID": "id", "SIS Login ID": "email", "Section": "section"},
    "moodle": {"Email address": "email", "ID number": "id", "Full name": "name"},
}


@dataclass(frozen=True)
class Total:
    """The result of a student in an assignment; `points` is None if a task could not be graded."""

    student: str
    assignment: str
    earned: float | None
    possible: float
    late: int  # days
    percent: float  # of the possible points that each of them costs
    rows: list[Row]

    @property
    def points(self) -> float | None:
        """The points that count."""
        lost = self.late * self.percent / 100 * self.possible
        return None if self.earned is None else round(max(0.0, self.earned - lost), 1)


def days_late(submitted: datetime | None, deadline: datetime | None, extension: float) -> int:
    """The started days between a deadline, with an extension in days, and a submission."""
    if deadline is None or submitted is None:
        return 0
    after = (submitted.astimezone() - deadline.astimezone()).total_seconds()
    return max(0, math.ceil(after / DAY - extension))


def totals(table: list[Row], roster: dict[str, Known], terms: Terms) -> list[Total]:
    """The totals of all students of the table and of the roster, who have 0 where they have none.

    The possible points are those of the assignment, whatever rows there are.
    """
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in table:
        groups[row.student, row.assignment].append(row)
    for student in roster:
        for assignment in {assignment for _, assignment in groups}:
            groups.setdefault((student, assignment), [])
    results = []
    for (student, assignment), rows in sorted(groups.items()):
        points = [row.points for row in rows]
        earned = None  # as long as one of them is not known
        if None not in points:
            earned = math.fsum(number or 0.0 for number in points)
        extension = 0.0
        if student in roster:
            extension = roster[student].extension or 0.0
        submitted = rows[0].submitted if rows else None
        late = days_late(submitted, terms.deadline, extension)
        possible = math.fsum(possible_of(assignment).values())
        results.append(Total(student, assignment, earned, possible, late, terms.late, rows))
    return results


def feedback(results: list[Total]) -> str:
    """What one student reads: a page in Markdown."""
    lines = [f"# {inline(results[0].student)}"]
    for total in results:
        score = "not graded yet"
        if total.points is not None:
            score = f"{total.points:g} of {total.possible:g}"
        lines += ["", f"## {total.assignment}: {score}"]
        if total.late:
            lost = total.late * total.percent
            lines += ["", f"Late by {total.late} days: {lost:g} % of the points are taken away."]
        if not total.rows:
            lines += ["", "Not submitted."]
        for row in total.rows:
            points = "no points yet"
            if row.points is not None:
                points = f"{row.points:g}"
            lines += ["", f"**{row.task}**: {points} of {row.possible:g}"]
            if row.verdict:
                lines += ["", "```text", lines_of(row.verdict), "```"]
            if row.comment:
                lines += ["", inline(row.comment)]
    return "\n".join(lines) + "\n"


def lines_of(verdict: str) -> str:
    """A verdict as it was before the table made one line of it, harmless in a fence."""
    return verdict.replace("```", "'''").replace(BREAK, "\n")


def by_student(results: list[Total]) -> dict[str, dict[str, Total]]:
    """Totals by student, then by assignment."""
    by_name: dict[str, dict[str, Total]] = defaultdict(dict)
    for total in results:
        by_name[total.student][total.assignment] = total
    return by_name


def page_names(students: Iterable[str]) -> dict[str, str]:
    """The name of each student's page. Raises ValueError if two of them would share one."""
    pages: dict[str, str] = {}
    owners: dict[str, str] = {}  # by the name of a page
    for student in students:
        pages[student] = f"{Path(student).name}.md"
        key = pages[student].casefold()  # one file on a Mac, and on Windows
        if key in owners:
            raise ValueError(
                f"--feedback: {owners[key]!r} and {student!r} would share the page "
                f"{pages[student]}; rename one of them in the table"
            )
        owners[key] = student
    return pages


def sheet(kind: str, results: list[Total], roster: dict[str, Known]) -> str:
    """The CSV that "canvas" or "moodle" imports: a column an assignment, and for Moodle a sum."""
    columns = SHEETS[kind]
    names = sorted({total.assignment for total in results})
    has_sum = kind == "moodle"
    header = [*columns, *names]
    if has_sum:
        header.append("total")
    rows = [header]
    if kind == "canvas":
        most = {total.assignment: f"{total.possible:g}" for total in results}
        rows.append(["    Points Possible", "", "", "", *(most[name] for name in names)])
    for student, totals_of in by_student(results).items():
        # A student without a name in the roster has that of the folder.
        about: dict[str, object] = {"name": student}
        if student in roster:
            about |= {name: value for name, value in roster[student] if value}
        points = [totals_of[name].points if name in totals_of else None for name in names]
        if has_sum and None in points:
            points.append(None)
        elif has_sum:
            points.append(round(math.fsum(number or 0 for number in points), 1))
        row = [str(about.get(name, "")) for name in columns.values()]
        row += ["" if number is None else f"{number:g}" for number in points]
        rows.append(row)
    return as_csv(rows)


def gradescope(marked: Marked) -> str:
    """The `results.json` of Gradescope's autograder for a notebook that was marked."""
    tests = []
    for mark in marked.marks:
        test: dict[str, object] = {"name": f"{mark.task} {mark.title}"}
        if mark.points is not None:
            test["score"] = mark.points
        test["max_score"] = mark.possible
        test["output"] = mark.text or mark.measured
        tests.append(test)
    result = {"score": marked.points, "output": "\n".join(marked.notices), "tests": tests}
    return json.dumps(result, indent=1, ensure_ascii=False) + "\n"


def replace_rows(path: Path, rows: list[list[str]], student: str) -> None:
    """Put the new rows of a student in the place of the old ones; comments stay.

    So do columns that the instructor has added.
    """
    table = read_table(path, COLUMNS)
    old = {(row["assignment"], row["task"]): row for row in table if row["student"] == student}
    place = next((n for n, row in enumerate(table) if row["student"] == student), len(table))
    header = [*table[0]] if table else [*COLUMNS]
    new = []
    for values in rows:
        row = dict(zip(COLUMNS, values, strict=True))
        before = old.get((row["assignment"], row["task"]), {})
        new.append({**before, **row, "comment": before.get("comment", "")})
    # `place` counts the rows before the student's first one: none of them is the student's.
    others = [row for row in table if row["student"] != student]
    lines = [header]
    for row in [*others[:place], *new, *others[place:]]:
        lines.append([row.get(name, "") for name in header])
    write_atomically(path, as_csv(lines))
