"""Run a student's notebook in a process of its own and judge what it defines.

Cells of the student's run as they are; check cells, edited or not, are left out, and the checks of
the master are run in their place.  Processes have limits in time and memory; beyond that, the code
of a student is not sandboxed.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nmtlib.homework.grading import Verdict, assignments, find_task, judge
from nmtlib.homework.task import Assignment, Finding, Task

MIME = "application/vnd.nmtlib.verdict+json"
MEMORY = 8  # GiB of address space; torch alone takes about three
CELL_SECONDS = 60
GRACE = 10  # seconds in which a cell that was interrupted must have ended


@dataclass(frozen=True)
class Mark:
    """What was found of one task: points, and what the verdict says."""

    task: str
    title: str
    points: float
    possible: float
    measured: str = ""
    cause: str = ""
    text: str = ""


@dataclass
class Marked:
    """A notebook that was run: a mark for each task, and what is to be said of the file."""

    path: Path
    assignment: Assignment
    marks: list[Mark] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def points(self) -> float:
        """The points of all tasks."""
        return round(sum(mark.points for mark in self.marks), 1)


def mark(path: Path, seed: int = 0, *, cell_seconds: float = CELL_SECONDS) -> Marked:
    """Run a notebook and judge it.  The file is only read.

    Raises FileNotFoundError for a file that is not there, and ValueError for one that is no
    notebook of an assignment.
    """
    from nbclient.exceptions import DeadKernelError

    book, assignment = read_notebook(path)
    marked, started = Marked(path, assignment), time.monotonic()
    marked.notices += inspect_cells(book, assignment)
    own = [cell for cell in book.cells if cell.cell_type == "code" and not is_check(cell)]
    checks = {task.id: check_cell(task, seed) for task in assignment.tasks.values()}
    left = [*own, *checks.values()]
    try:
        while stuck := execute(left, path.parent, lambda cell: cell_seconds + extra(cell, own)):
            left = [cell for cell in left if cell is not stuck]
            if any(stuck is cell for cell in own):
                marked.notices.append(f"could not be stopped: the cell {beginning(stuck)}")
    except DeadKernelError:
        marked.notices.append("the process died, perhaps for want of memory")
    for cell in own:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                stopped = output.ename == "KeyboardInterrupt"
                why = f"stopped after {cell_seconds:g} s" if stopped else told_error(output)
                marked.notices.append(f"{why}: the cell {beginning(cell)}")
    for task in assignment.tasks.values():
        marked.marks.append(mark_of(task, checks[task.id]))
    marked.seconds = time.monotonic() - started
    return marked


def check_cell(task: Task, seed: int) -> Any:
    """A cell that judges the answer to a task, and puts out its mark."""
    import nbformat

    names = [task.name, *task.uses]
    return nbformat.v4.new_code_cell(
        "from nmtlib.homework import marking\n"
        f"marking.show_mark({task.id!r}, {names!r}, globals(), {seed})"
    )


def extra(cell: Any, own: list[Any]) -> float:
    """The seconds that a cell has beyond those of a student's own: what checks may need."""
    return 0 if any(cell is each for each in own) else CELL_SECONDS


def execute(cells: list[Any], folder: Path, seconds: Callable[[Any], float]) -> Any:
    """Run cells in a process of their own that begins in this folder; outputs stay in the cells.

    After its `seconds` a cell is interrupted.  Where it goes on all the same, as an `except` around
    everything can make it, the process is killed, and the cell returned.
    """
    import nbformat
    from nbclient import NotebookClient

    limit = f"from nmtlib.homework import marking\nmarking.limit_memory({MEMORY})"
    run = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(limit), *cells])
    run.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    stuck: list[Any] = []
    timer = threading.Timer(0, lambda: None)

    def kill(cell: Any) -> None:
        stuck.append(cell)
        client.km.provisioner.process.kill()

    def begin(cell: Any, cell_index: int) -> None:
        nonlocal timer
        timer = threading.Timer(seconds(cell) + GRACE, kill, [cell])
        timer.start()

    client: Any = NotebookClient(
        run,
        timeout_func=seconds,
        startup_timeout=300,  # a busy machine must not end the grading of a class
        interrupt_on_timeout=True,
        allow_errors=True,
        resources={"metadata": {"path": str(folder)}},
        extra_arguments=["--log-level=ERROR"],
        on_cell_execute=begin,
        on_cell_executed=lambda **_: timer.cancel(),
    )
    try:
        client.execute()
    except Exception:  # of several kinds where the process is gone
        if not stuck:
            raise
    finally:
        timer.cancel()
    return stuck[0] if stuck else None


def read_notebook(path: Path) -> tuple[Any, Assignment]:
    """A notebook and the assignment that its name begins with."""
    import nbformat

    number = path.name.partition("_")[0]
    if number not in assignments():
        known = ", ".join(a.stem for a in assignments().values())
        raise ValueError(f"{path.name} is not named as an assignment is; they are: {known}")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        book = nbformat.read(path, as_version=4)
    except Exception as error:  # nbformat raises many kinds
        raise ValueError(f"{path} is not a notebook: {error}") from None
    defined = "|".join(task.name for task in assignments()[number].tasks.values())
    answers = re.compile(rf"(?m)^(?:def |class )?(?:{defined})\b")
    if not any(is_check(cell) or answers.search(cell.source) for cell in book.cells):
        raise ValueError(
            f"{path} has no cell of homework {number}; get its page with: "
            f"nmtlib homework start {number}"
        )
    return book, assignments()[number]


def is_check(cell: Any) -> bool:
    """Whether a cell is a check: by its metadata, its id, or what it does."""
    about = cell.metadata.get("nbgrader", {})
    return bool(
        about.get("grade")
        or str(cell.get("id", "")).startswith("check-")
        or cell.source.strip().startswith("grade(")
    )


def inspect_cells(book: Any, assignment: Assignment) -> list[str]:
    """What is to be said of the cells: checks edited or deleted, metadata that is gone."""
    notices = []
    if not any("nbgrader" in cell.metadata for cell in book.cells):
        notices.append("the cells have lost their metadata: nbgrader would give no points")
    checks = [cell.source.strip() for cell in book.cells if is_check(cell)]
    for task in assignment.tasks.values():
        if task.check_line not in checks:
            begun = [line for line in checks if line.startswith(f'grade("{task.id}"')]
            known = {cell.get("id") for cell in book.cells}
            how = "edited" if begun or f"check-{task.id.replace('.', '-')}" in known else "deleted"
            notices.append(f"the check of {task.id} was {how}; the original was run")
    return notices


def limit_memory(gigabytes: float) -> None:
    """Take no more memory than this, where the system can say so; called in the kernel."""
    try:
        import resource
    except ImportError:  # Windows
        return
    size = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.getrlimit(resource.RLIMIT_AS)[1]))


def show_mark(id: str, names: list[str], defined: dict[str, Any], seed: int) -> None:
    """Judge what a notebook has defined and put the mark into the output; called in the kernel."""
    from IPython.display import display

    task = find_task(id)
    if missing := [name for name in names if name not in defined]:
        finding = Finding(
            f"there is no {missing[0]}",
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


def mark_of(task: Task, cell: Any) -> Mark:
    """The mark that a check cell has put out; none where it was stopped."""
    about: dict[str, Any] = {"task": task.id, "title": task.title, "possible": task.points}
    for output in cell.get("outputs", []):
        if MIME in output.get("data", {}):
            return Mark(**about, **output["data"][MIME])
    return Mark(
        **about,
        points=0.0,
        measured="the check did not end",
        cause="An endless loop, or no memory.",
    )


def told_error(output: Any) -> str:
    """An error that a cell has put out, in a line."""
    return f"{output.ename}: {output.evalue}".splitlines()[0]


def beginning(cell: Any) -> str:
    """Which cell it is: its first line."""
    return f"that begins {(cell.source.strip().splitlines() or [''])[0][:60]!r}"
