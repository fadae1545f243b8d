"""Run a student's notebook in a separate process and judge its answers.

The student's cells run unchanged; the student's check cells are left out, and the master's checks
run instead. Processes have limits of time and memory; apart from that, the code is not sandboxed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nmtcourse.homework.compare import Finding
from nmtcourse.homework.execution import DIED, ENDED, Loss, execute_all
from nmtcourse.homework.grading import Verdict, find_task, judge
from nmtcourse.homework.notebooks import beginning, inspect_cells, own_cells, read_notebook
from nmtcourse.homework.task import Assignment, Task

MIME = "application/vnd.nmtlib.verdict+json"
CELL_SECONDS = 60


@dataclass(frozen=True)
class Mark:
    """The result of one task: points, and the parts of the verdict."""

    task: str
    title: str
    points: float
    possible: float
    measured: str = ""
    cause: str = ""
    text: str = ""


@dataclass
class Marked:
    """The result of a notebook: a mark for each task, and notices about the file.

    `was_run` is False if there is no notebook, or none that could be run.
    """

    path: Path
    assignment: Assignment
    marks: list[Mark] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    seconds: float = 0.0
    was_run: bool = True

    @property
    def points(self) -> float:
        """The points of all tasks."""
        return round(sum(mark.points for mark in self.marks), 1)


def mark(path: Path, seed: int = 0, *, cell_seconds: float = CELL_SECONDS) -> Marked:
    """Run a notebook and judge it. The file is only read.

    Raises FileNotFoundError for a missing file, and ValueError for one that is not a notebook of an
    assignment.
    """
    book, assignment = read_notebook(path)
    marked, started = Marked(path, assignment), time.monotonic()
    marked.notices += inspect_cells(book, assignment)
    own = own_cells(book)
    checks = {task.id: check_cell(task, seed) for task in assignment.tasks.values()}
    cells = [*own, *checks.values()]
    lost = execute_all(cells, path.parent, lambda cell: cell_seconds + extra(cell, own))
    marked.notices += notices_of(own, lost, cell_seconds)
    for task in assignment.tasks.values():
        marked.marks.append(mark_of(task, checks[task.id], lost))
    marked.seconds = time.monotonic() - started
    return marked


def check_cell(task: Task, seed: int) -> Any:
    """A cell that judges the answer to a task and outputs its mark."""
    import nbformat

    names = [task.name, *task.uses]
    return nbformat.v4.new_code_cell(
        "from nmtcourse.homework import marking\n"
        f"marking.show_mark({task.id!r}, {names!r}, globals(), {seed})"
    )


def extra(cell: Any, own: list[Any]) -> float:
    """The seconds allowed for a cell of checks, beyond the student's own."""
    return 0 if any(cell is each for each in own) else CELL_SECONDS


def notices_of(own: list[Any], lost: list[Loss], seconds: float) -> list[str]:
    """Notices about cells that ended the process or raised an error."""
    ended = [loss for loss in lost if any(loss.cell is cell for cell in own)]
    told = [f"{loss.why}: the cell {beginning(loss.cell)}" for loss in ended]
    for cell in own:
        if any(loss.cell is cell for loss in ended):
            continue
        for output in cell.outputs:
            if output.output_type == "error":
                stopped = output.ename == "KeyboardInterrupt"
                why = f"stopped after {seconds:g} s" if stopped else told_error(output)
                told.append(f"{why}: the cell {beginning(cell)}")
    return told


def show_mark(id: str, names: list[str], defined: dict[str, Any], seed: int) -> None:
    """Judge a notebook's answer and output the mark; called in the kernel."""
    from IPython.display import display

    task = find_task(id)
    if missing := [name for name in names if name not in defined]:
        finding = Finding(
            f"{missing[0]} is not defined",
            "a cell that defines it",
            "The cell failed, or the name was changed.",
        )
        verdict = Verdict(task, 0.0, "the answer is there", finding)
    else:
        verdict = judge(task, *(defined[name] for name in names), seed=seed)
    found = verdict.finding
    about = {"points": verdict.points, "text": str(verdict)}
    if found is not None:
        about |= {"measured": found.measured, "cause": found.cause}
    display({MIME: about}, raw=True)


def mark_of(task: Task, cell: Any, lost: list[Loss]) -> Mark:
    """The mark that a check cell has output, or the reason if there is none."""
    about: dict[str, Any] = {"task": task.id, "title": task.title, "possible": task.points}
    for output in cell.outputs:
        if MIME in output.get("data", {}):
            return Mark(**about, **output["data"][MIME])
    why = next((loss.why for loss in lost if loss.cell is cell), "")
    raised = [output for output in cell.outputs if output.output_type == "error"]
    if why in (DIED, ENDED):
        measured, cause = (
            "the process ended during the check",
            "The answer ends the process, or uses all memory.",
        )
    elif why or not raised or raised[0].ename == "KeyboardInterrupt":
        measured, cause = "the check did not end", "An endless loop."
    else:
        measured = f"the check raised {told_error(raised[0])}"
        cause = "A cell has changed something that the check needs, such as a setting of torch."
    return Mark(**about, points=0.0, measured=measured, cause=cause)


def told_error(output: Any) -> str:
    """An error in a cell's output, in one line."""
    return f"{output.ename}: {output.evalue}".splitlines()[0]
