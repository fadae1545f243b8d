"""What instructors read of the homework, as Markdown blocks; all of it comes from the masters."""

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
    """The marks of the capstone."""
    rows = [
        [name, f"{challenge.minutes:g}", f"{mark:g}", f"{points:g}"]
        for name, challenge in CHALLENGES.items()
        for mark, points in challenge.marks.items()
    ]
    return table("corpus | minutes of training | BLEU from | points", rows)


def nbgrader() -> str:
    """What nbgrader and our own command gave to the same submissions."""
    found = read("nbgrader.json")
    rows = [
        [student, *(" / ".join(f"{points:g}" for points in pair) for pair in row.values())]
        for student, row in found["points"]["students"].items()
    ]
    ids = next(iter(found["points"]["students"].values()))
    told = f"`{found['command']}`, nbgrader {found['nbgrader']}; points of nbgrader / of ours:"
    return f"{told}\n\n{table(' | '.join(['submission', *ids]), rows)}"
