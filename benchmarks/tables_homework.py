"""The homework as instructors see it, as Markdown blocks; all of it comes from the masters."""

from __future__ import annotations

from tables import read, table

from nmtcourse.homework.capstone import CHALLENGES
from nmtcourse.homework.grading import assignments


def syllabus() -> str:
    """Two ways through the course, in twelve weeks and in six: homework and its minutes."""
    rows = []
    for week, assignment in enumerate(assignments().values(), start=1):
        minutes = sum(task.minutes for task in assignment.tasks.values())
        rows.append([week, (week + 1) // 2, f"{assignment.number} {assignment.title}", minutes])
    rows[-1][2] += "; capstone and personal patient"
    return table("week of 12 | of 6 | notebook and homework | minutes of homework", rows)


def tasks() -> str:
    """Every task with its level, minutes and points."""
    rows = [
        [task.id, task.title, task.level, task.minutes, f"{task.points:g}"]
        for assignment in assignments().values()
        for task in assignment.tasks.values()
    ]
    return table("task | title | level | minutes | points", rows)


def mistakes() -> str:
    """The mistakes that the graders name, folded by assignment."""
    parts = []
    for assignment in assignments().values():
        parts.append(f"<details><summary>{assignment.number} {assignment.title}</summary>")
        for task in assignment.tasks.values():
            if task.mistakes:
                listed = "\n".join(f"- {about}" for about in task.mistakes)
                parts.append(f"**{task.id} {task.title}**\n\n{listed}")
        parts.append("</details>")
    return "\n\n".join(parts)


def marks() -> str:
    """The BLEU that each number of points of the capstone needs."""
    points = sorted(
        {each for challenge in CHALLENGES.values() for each in challenge.marks.values()}
    )
    rows = []
    for name, challenge in CHALLENGES.items():
        bleu = {worth: f"{mark:g}" for mark, worth in challenge.marks.items()}
        rows.append([name, f"{challenge.minutes:g}", *(bleu.get(each, "–") for each in points)])
    header = " | ".join(f"BLEU for {each:g} points" for each in points)
    return table(f"corpus | minutes of training | {header}", rows)


def nbgrader() -> str:
    """The points that nbgrader and our own command give to the same submissions."""
    found = read("nbgrader.json")
    rows = [
        [student, *(" / ".join(f"{points:g}" for points in pair) for pair in row.values())]
        for student, row in found["points"]["students"].items()
    ]
    ids = next(iter(found["points"]["students"].values()))
    told = f"`{found['command']}`, nbgrader {found['nbgrader']}; points by nbgrader / by nmtlib:"
    return f"{told}\n\n{table(' | '.join(['submission', *ids]), rows)}"
