"""The files made from a master: student notebooks, solutions, nbgrader sources.

    python -m nmtcourse.homework.pages notebooks/homework

The same master gives the same bytes.
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

from nmtcourse.homework.catalogue import assignments
from nmtcourse.homework.chinese import Say, speaks
from nmtcourse.homework.task import Assignment, Task
from nmtlib.files import write_atomically

SOLUTIONS = "solutions-spoilers"
# A notebook may define its own `grade`; these lines, which students do not see, undo that.
OUR_GRADE = """\
### BEGIN HIDDEN TESTS
from nmtcourse.homework import grade
### END HIDDEN TESTS
"""
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


OPENING = """\
# Homework {number} · {title}

{opening}

**Time:** about {minutes} minutes. **Points:** {points:g}. **Needs:** the course up to notebook \
{number}.

Replace each stub by your code and run the check below it, as often as you like. A check prints \
what it measured, what it expected and the likely cause, but never the answer; it stops after 20 \
seconds. Hints cost no points. Your final points come from the same checks.

Unless a task says otherwise:

- Leave what you are given as it is; a result may be a view of it. Return numbers of the \
floating-point type of the tensors that you are given, which may be float16 or bfloat16 (if a \
library has no such type, its error is no mistake of yours); torch's default type is float32. A \
list holds plain numbers or words, not tensors.
- Every axis of a tensor has a size of at least 1, and a tensor may have any memory layout.
- Keep nothing from one call to the next: a result depends on the arguments alone, whatever was \
called before and whatever the caller has changed in earlier arguments and results since. Later \
calls leave earlier results as they are, and two objects of a class share nothing.
- A module can be trained, copied, and given other weights or, by `.to`, another floating-point \
type, which its results then have. A function need not pass gradients on unless its task says so."""
TASK = """\
## {id} {title}

*{level}, about {minutes} minutes, {points:g} points. Read: {read}.*

{text}

Stuck? `hint("{id}")`."""
CLOSING = """\
## When you have finished

Restart the kernel, run all cells, save, and run `nmtlib homework check {file}` in a terminal to \
see your points; from another folder, give its path as well, such as `homework/{file}`. The \
command runs the notebook from top to bottom in a separate process, as your instructor's grading \
does."""


def notebook(assignment: Assignment, kind: str = "student", language: str = "en") -> str:
    """The notebook of an assignment as text: 'student', 'solution', or 'source' for nbgrader."""
    say, tasks = speaks(language), assignment.tasks.values()
    opening = say(OPENING).format(
        number=assignment.number,
        title=say(assignment.title),
        opening=say(assignment.opening),
        minutes=sum(task.minutes for task in tasks),
        points=assignment.points,
    )
    imports = f"{assignment.imports}\n\nfrom nmtcourse.homework import grade, hint"
    cells = [text_cell("opening", opening), code_cell("imports", imports)]
    for task in tasks:
        cells += task_cells(task, kind, say)
    cells.append(text_cell("closing", say(CLOSING).format(file=f"{assignment.stem}.ipynb")))
    metadata: dict[str, Any] = {"kernelspec": KERNEL}
    if language == "zh":
        metadata["nmtlib"] = {"language": "zh"}
    book = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def task_cells(task: Task, kind: str, say: Say) -> list[dict[str, Any]]:
    """The cells of a task: text, given code, the answer, perhaps an example, the check."""
    name = task.id.replace(".", "-")
    level = task.level
    if level == "question":
        level = "a choice"
    about = say(TASK).format(
        id=task.id,
        title=say(task.title),
        level=say(level),
        minutes=task.minutes,
        points=task.points,
        read=say(task.read),
        text=say(task.text),
    )
    cells = [text_cell(f"text-{name}", about)]
    if task.given:
        cells.append(code_cell(f"given-{name}", textwrap.dedent(task.given).strip()))
    sources = {
        "student": task.student_source,
        "solution": task.solution_source,
        "source": task.student_source if task.uses else task.source,
    }
    # A choice is not nbgrader's: it would put its stub there, which stops the page.
    answer = {}
    if not task.uses:
        answer = graded(f"answer-{name}", solution=True)
    cells.append(code_cell(f"answer-{name}", sources[kind], answer))
    if task.example:
        cells.append(code_cell(f"example-{name}", textwrap.dedent(task.example).strip()))
    check = graded(f"check-{name}", grade=True, locked=True, points=task.points)
    hidden = OUR_GRADE if kind == "source" else ""
    cells.append(code_cell(f"check-{name}", hidden + task.check_line, check))
    return cells


def graded(id: str, **about: Any) -> dict[str, Any]:
    """The nbgrader metadata of a cell, in schema version 3."""
    usual = {"grade": False, "grade_id": id, "locked": False, "schema_version": 3}
    return {"nbgrader": {**usual, "solution": False, "task": False, **about}}


def text_cell(id: str, text: str) -> dict[str, Any]:
    """A Markdown cell."""
    return {"cell_type": "markdown", "id": id, "metadata": {}, "source": text.splitlines(True)}


def code_cell(id: str, code: str, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    """A code cell that has not been run."""
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": id,
        "metadata": metadata or {},
        "outputs": [],
        "source": code.splitlines(True),
    }


def files(assignment: Assignment) -> dict[str, str]:
    """Everything that is made from a master, as paths inside the homework folder and texts."""
    stem = assignment.stem
    return {
        f"{stem}.ipynb": notebook(assignment, "student"),
        f"{SOLUTIONS}/{stem}.ipynb": notebook(assignment, "solution"),
        f"nbgrader/source/{assignment.slug}/{stem}.ipynb": notebook(assignment, "source"),
    }


def main() -> None:
    """Write all files into the given folder."""
    folder = Path(sys.argv[1])
    for assignment in assignments().values():
        for path, text in files(assignment).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / path, text)


if __name__ == "__main__":
    main()
