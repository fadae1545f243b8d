"""From the table of a graded class to what leaves it: totals, feedback, Canvas, Moodle, Gradescope.

The table is the only record: an instructor may change points in it, and write comments.
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from nmtcourse.homework.marks import Marked
from nmtcourse.homework.reports import BREAK, COLUMNS, as_csv, cell, inline
from nmtlib.files import write_atomically

Table = list[dict[str, str]]
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
    rows: Table

    @property
    def points(self) -> float | None:
        """The points that count."""
        lost = self.late * self.percent / 100 * self.possible
        return None if self.earned is None else round(max(0.0, self.earned - lost), 1)


def read_table(path: Path, columns: tuple[str, ...] = ("student",)) -> Table:
    """The rows of a CSV with a header. Raises ValueError if a column is missing."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        rows, names = [*reader], reader.fieldnames or []
    if missing := [name for name in columns if name not in names]:
        raise ValueError(f"{path} has no column {missing[0]!r}; it has {', '.join(names)}")
    return [{name: (value or "") for name, value in row.items() if name} for row in rows]


def read_roster(path: Path | None) -> dict[str, dict[str, str]]:
    """By the name of the folder what is known of a student: id, name, email, section, extension.

    Raises ValueError for one who is named twice.
    """
    found: dict[str, dict[str, str]] = {}
    for row in read_table(path) if path else []:
        student = cell(row["student"].strip())
        if student in found:
            raise ValueError(f"{path} names {student!r} twice; keep one row a student")
        found[student] = row
    return found


def days_late(submitted: str, deadline: datetime | None, extension: str = "") -> int:
    """The started days between a deadline, with an extension in days, and a submission."""
    if deadline is None or not submitted:
        return 0
    after = (datetime.fromisoformat(submitted).astimezone() - deadline.astimezone()).total_seconds()
    return max(0, math.ceil(after / DAY - float(extension or 0)))


def totals(
    table: Table,
    roster: dict[str, dict[str, str]],
    deadline: datetime | None = None,
    percent: float = 0.0,
) -> list[Total]:
    """The totals of all students of the table and of the roster, who have 0 where they have none.

    Raises ValueError for points that are no number from 0 up.
    """
    groups: dict[tuple[str, str], Table] = defaultdict(list)
    for row in table:
        groups[row["student"], row["assignment"]].append(row)
    possible = {a: sum(float(row["possible"]) for row in rows) for (_, a), rows in groups.items()}
    for student in roster:
        for assignment in possible:
            groups.setdefault((student, assignment), [])
    found = []
    for (student, assignment), rows in sorted(groups.items()):
        earned: float | None = 0.0
        for row in rows:
            earned = None if earned is None or not row["points"] else earned + number(row)
        known = roster.get(student, {})
        late = days_late(rows[0]["submitted"] if rows else "", deadline, known.get("extension", ""))
        about = (student, assignment, earned, possible[assignment], late, percent, rows)
        found.append(Total(*about))
    return found


def number(row: dict[str, str]) -> float:
    """The points in a row. Raises ValueError unless they are a number from 0 up."""
    try:
        found = float(row["points"])
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        where = f"{row['student']}, {row['task']}"
        raise ValueError(f"points of {where} must be a number or empty, not {row['points']!r}")
    return found


def feedback(results: list[Total]) -> str:
    """What one student reads: a page in Markdown."""
    lines = [f"# {inline(results[0].student)}"]
    for total in results:
        whole = total.points
        shown = "not graded yet" if whole is None else f"{whole:g} of {total.possible:g}"
        lines += ["", f"## {total.assignment}: {shown}"]
        if total.late:
            lost = total.late * total.percent
            lines += ["", f"Late by {total.late} days: {lost:g} % of the points are taken away."]
        if not total.rows:
            lines += ["", "Not submitted."]
        for row in total.rows:
            points = row["points"] or "no points yet"
            lines += ["", f"**{row['task']}**: {points} of {row['possible']}"]
            if row.get("verdict"):
                lines += ["", "```text", lines_of(row["verdict"]), "```"]
            lines += ["", inline(row["comment"])] * bool(row.get("comment"))
    return "\n".join(lines) + "\n"


def lines_of(verdict: str) -> str:
    """A verdict as it was before the table made one line of it, harmless in a fence."""
    return verdict.replace("```", "'''").replace(BREAK, "\n")


def by_student(results: list[Total]) -> dict[str, dict[str, Total]]:
    """Totals by student, then by assignment."""
    found: dict[str, dict[str, Total]] = defaultdict(dict)
    for total in results:
        found[total.student][total.assignment] = total
    return found


def sheet(kind: str, results: list[Total], roster: dict[str, dict[str, str]]) -> str:
    """The CSV that "canvas" or "moodle" imports: a column an assignment, and for Moodle a sum."""
    head, names = SHEETS[kind], sorted({total.assignment for total in results})
    rows = [[*head, *names, *["total"] * (kind == "moodle")]]
    if kind == "canvas":
        most = {total.assignment: f"{total.possible:g}" for total in results}
        rows.append(["    Points Possible", "", "", "", *(most[name] for name in names)])
    for student, each in by_student(results).items():
        known = {name: value for name, value in roster.get(student, {}).items() if value}
        about = [({"name": student} | known).get(name, "") for name in head.values()]
        points = [each[name].points if name in each else None for name in names]
        whole = None if None in points else round(math.fsum(p or 0 for p in points), 1)
        shown = [*points, *[whole] * (kind == "moodle")]
        rows.append([*about, *("" if p is None else f"{p:g}" for p in shown)])
    return as_csv(rows)


def gradescope(marked: Marked) -> str:
    """The `results.json` of Gradescope's autograder for a notebook that was marked."""
    tests = [
        {
            "name": f"{mark.task} {mark.title}",
            **({} if mark.points is None else {"score": mark.points}),
            "max_score": mark.possible,
            "output": mark.text or mark.measured,
        }
        for mark in marked.marks
    ]
    found = {"score": marked.points, "output": "\n".join(marked.notices), "tests": tests}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def replace_rows(path: Path, rows: list[list[str]], student: str) -> None:
    """Put the new rows of a student in the place of the old ones; comments stay."""
    table = read_table(path, COLUMNS)
    said = {(r["assignment"], r["task"]): r["comment"] for r in table if r["student"] == student}
    place = next((n for n, row in enumerate(table) if row["student"] == student), len(table))
    kept = [[row[n] for n in COLUMNS] for row in table if row["student"] != student]
    new = [[*row[:-1], said.get((row[1], row[2]), "")] for row in rows]  # assignment, task
    write_atomically(path, as_csv([[*COLUMNS], *kept[:place], *new, *kept[place:]]))
