"""What instructors read of the homework, as Markdown blocks; all of it comes from the masters."""

from __future__ import annotations

from tables import read, table

from nmtcourse.homework.capstone import CHALLENGES
from nmtcourse.homework.grading import assignments

COURSE = [f"{number:02}" for number in range(1, 13)]
TWELVE, SIX = [[n] for n in COURSE], [COURSE[i : i + 2] for i in range(0, 12, 2)]


def syllabus() -> str:
    """Two ways through the course: notebooks, homework and its minutes for each week."""
    parts = []
    for weeks in (TWELVE, SIX):
        rows = []
        for number, notebooks in enumerate(weeks, start=1):
            given = [assignments()[n] for n in notebooks if n in assignments()]
            names = [f"{a.number} {a.title}" for a in given]
            minutes = sum(task.minutes for a in given for task in a.tasks.values())
            if number == len(weeks):
                names.append("capstone and personal patient")
            rows.append([number, ", ".join(notebooks), "; ".join(names) or "-", minutes or "-"])
        heading = f"**{len(weeks)} weeks**"
        parts.append(f"{heading}\n\n{table('week | notebooks | homework | minutes', rows)}")
    return "\n\n".join(parts)


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
