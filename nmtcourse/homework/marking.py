"""Mark a student's notebook: run its cells, judge its answers, and confirm the points of a class.

`mark` asks a process of its own (`nmtcourse.homework.apart`), in which `marked` starts children
that run the cells and judge the answers (`nmtcourse.homework.running`). A task is judged where its
check is, as in the notebook; the student's check cells are not run.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from nmtcheck.report.apart import ASLEEP, Child, Ended
from nmtcourse.homework.answers import written_answers
from nmtcourse.homework.apart import Host
from nmtcourse.homework.chinese import language_of, speaks
from nmtcourse.homework.compare import Finding
from nmtcourse.homework.confirming import answering, points_alone
from nmtcourse.homework.extraction import definition
from nmtcourse.homework.grading import Verdict
from nmtcourse.homework.marks import (
    Mark,
    Marked,
    as_data,
    encodable,
    require_mark,
    require_marked,
    table_line,
)
from nmtcourse.homework.notebooks import (
    beginning,
    inspect_cells,
    parsed,
    read_bytes,
    steps_of,
)
from nmtcourse.homework.running import Plan, mark_of
from nmtcourse.homework.task import Task

CELL_SECONDS = 60.0  # of processor time, as all limits
ALL_SECONDS = 900.0  # of a notebook, each time it is run
ENDS = 6  # how often a notebook may end its process
UNGRADED = "could not be graded"
NO_RESULT = "its process sent something else than a result"
MARKED = f"{__name__}:marked"  # what a host calls
WITHOUT = "so the others were run without it"
ENDINGS = {  # of a cell
    "ended": f"ended the process, {WITHOUT}",
    "limit": f"could not be stopped, {WITHOUT}",
    "asleep": f"waited for {ASLEEP / 60:g} minutes without computing, {WITHOUT}",
}
FAULTS = {  # of an answer: what was measured, and the cause
    "ended": ("the process ended during the check", "The answer ends the process."),
    "limit": ("the check did not end", "An endless loop."),
    "asleep": (f"{UNGRADED}: it waited for {ASLEEP / 60:g} minutes without computing", ""),
}


def mark(path: Path, **how: Any) -> Marked:
    """Run a notebook in its folder and judge its answers, `how` as in `mark_bytes`.

    The file is read once, before it is run. Raises FileNotFoundError for a missing file, and
    ValueError for a file that is not a notebook of an assignment, or as `mark_bytes` does.
    """
    folder = path.parent if path.parent.is_dir() else Path()
    with Host(folder, MARKED) as host:  # it starts meanwhile
        return mark_bytes(path, read_bytes(path), host, **how)


def mark_bytes(
    path: Path,
    raw: bytes,
    host: Host,
    *,
    tasks: Iterable[str] = (),
    cell_seconds: float = CELL_SECONDS,
    confirmed: bool = False,
    report: Callable[[str], object] = str,
) -> Marked:
    """The result of the notebook in some bytes, which is run by a host in its folder.

    `report` gets a line for each task as soon as it is judged.
    `tasks` are judged, or all; `confirmed` points are those that the definitions of an answer alone
    have as well. Raises ValueError for an unknown task, or if the process sends what is no result.
    """
    _, assignment = parsed(path, raw)
    chosen = [*tasks]
    unknown = [id for id in chosen if id not in assignment.tasks]
    if unknown:
        ids = ", ".join(assignment.tasks)
        raise ValueError(f"{path.name} has no task {unknown[0]!r}; name one of {ids}")
    data = host.ask(
        report,
        name=path.name,
        text=raw.decode(),
        tasks=chosen,
        cell_seconds=cell_seconds,
        confirmed=confirmed,
    )
    if not isinstance(data, dict):
        raise ValueError(NO_RESULT)
    if data.get("failure"):
        raise ValueError(data["failure"])
    marked = require_marked(data, path, assignment)
    marked.digest = hashlib.sha256(raw).hexdigest()
    return marked


def marked(
    name: str, text: str, tasks: list[str], cell_seconds: float, confirmed: bool
) -> Iterator[str | dict[str, Any]]:
    """A line for each task that was judged, then the result of a notebook as data.

    This runs in the process that was asked.
    """
    try:
        marking = Marking(Path(name), text.encode(), cell_seconds, tasks)
        say = speaks(marking.result.language)
        if confirmed:
            yield from [encodable(table_line(mark, say)) for mark in marking.find_full(Path.cwd())]
        for mark in marking.run():
            yield encodable(table_line(mark, say))
        if confirmed:
            marking.confirm(Path.cwd())
        yield as_data(marking.result)
    except Exception as error:  # one notebook costs no other a row
        if isinstance(error, ValueError):
            yield {"failure": " ".join(str(error).split())[:300]}
        else:
            yield {"failure": f"{error!r}"[:300]}


class Marking:
    """The marking of one notebook, over as many children as its cells end."""

    def __init__(
        self,
        path: Path,
        raw: bytes,
        cell_seconds: float = CELL_SECONDS,
        tasks: Collection[str] = (),
    ):
        book, self.assignment = parsed(path, raw)
        steps = steps_of(book, self.assignment)
        self.left_out = [id for id in self.assignment.tasks if tasks and id not in tasks]
        cells = [source for source, id in steps if not id]  # without the checks
        self.result = Marked(path, self.assignment, notices=inspect_cells(book, self.assignment))
        self.result.language = language_of(raw)
        self.result.answers = written_answers(cells, self.assignment)
        self.plan = Plan(
            self.assignment.number,
            [(source, id) for source, id in steps if id not in self.left_out],
            cell_seconds,
            self.result.language,
        )
        self.marks = self.plan.marks
        self.judged_at: dict[str, int] = {}  # the step of each mark
        self.confirmed: list[str] = []  # tasks with all points by their definitions alone

    def run(self) -> Iterator[Mark]:
        """Run all steps, again without each that ended the child; gives each mark as it comes."""
        started = time.monotonic()
        while len(self.confirmed) < len(self.assignment.tasks):
            step = -1  # the one that runs; none yet
            how = ""  # the child has ended, if it did
            with Child(self.plan.run) as child:
                try:
                    for message in child.messages(limit=ALL_SECONDS):
                        before = dict(self.marks)
                        step = self.take_message(message, step)
                        yield from (
                            mark for id, mark in self.marks.items() if mark is not before.get(id)
                        )
                except Ended as ended:
                    how = str(ended)
            if not how:
                break
            if how == "damaged":
                raise ValueError(NO_RESULT)
            if not 0 <= step < len(self.plan.steps) or step in self.plan.lost:
                raise ValueError("its process ended before it ran a cell")
            self.report_loss(step, how)
            self.plan.lost.add(step)
            if len(self.plan.lost) > ENDS:
                self.result.notices.append(
                    f"it ended its process {len(self.plan.lost)} times, and was not started again"
                )
                break
        self.result.notices = [*dict.fromkeys(self.result.notices)]  # each cell ran several times
        self.result.marks = []
        for task in self.assignment.tasks.values():
            mark = self.marks.get(task.id)
            if mark is None and task.id in self.left_out:
                mark = ungraded(task, "left out")
            self.result.marks.append(mark or ungraded(task, "it was not reached"))
        self.result.seconds = time.monotonic() - started

    def take_message(self, message: Any, step: int) -> int:
        """Take over a message of a child in some step; returns the step that it is in.

        Raises ValueError for anything that `Plan.run` does not give.
        """
        match message:
            case {"step": int(number), "limit": _}:
                return number
            case {"notice": str(text)}:
                self.result.notices.append(text[:1000])
            case {"letter": [str(id), str(letter)]} if id in self.assignment.tasks:
                self.result.choices[id] = letter[:1]
            case {"mark": data}:
                mark = require_mark(data, self.assignment)
                self.marks[mark.task], self.judged_at[mark.task] = mark, step
            case _:
                raise ValueError(NO_RESULT)
        return step

    def report_loss(self, step: int, how: str) -> None:
        """Say which cell or answer ended the child, or was ended."""
        source, id = self.plan.steps[step]
        if not id:
            why = ENDINGS.get(how, ENDINGS["ended"])
            self.result.notices.append(f"{why}: the cell {beginning(source)}")
            return
        task = self.assignment.tasks[id]
        measured, cause = FAULTS.get(how, FAULTS["ended"])
        if how == "asleep":
            mark = ungraded(task, measured)
        else:
            finding = Finding(measured, "an answer", cause)
            mark = mark_of(Verdict(task, 0.0, "", finding), self.result.language)
        self.marks.setdefault(id, mark)

    def find_full(self, folder: Path) -> Iterator[Mark]:
        """Find the answers that have all points by their definitions alone, and give their marks.

        Nothing else of them is judged. If all of them have, no cell is run.
        """
        cells = [source for source, id in self.plan.steps if not id]
        with answering(folder) as host:
            for task in self.assignment.tasks.values():
                if task.id in self.left_out:
                    continue
                code = definition([task.name, *task.uses], cells)
                points, _ = points_alone(host, task.id, code, self.confirmed)
                if points == task.points:
                    self.confirmed.append(task.id)
                    mark = mark_of(Verdict(task, points), self.result.language)
                    self.marks[task.id] = mark
                    yield mark

    def confirm(self, folder: Path) -> None:
        """Take away the points that the definitions of an answer do not have by themselves.

        Such a task has no points, and the reason is for the instructor to judge.
        """
        if all(not mark.points or mark.task in self.confirmed for mark in self.result.marks):
            return
        with answering(folder) as host:
            for place, mark in enumerate(self.result.marks):
                if not mark.points or mark.task in self.confirmed:
                    continue
                points, why = self.points_alone(mark.task, host)
                if points < mark.points:
                    why = f"it has {mark.points:g} points in the notebook, {points:g} alone: {why}"
                    self.result.marks[place] = ungraded(self.assignment.tasks[mark.task], why)
                    self.result.notices.append(f"{mark.task} {UNGRADED}: {why}")

    def points_alone(self, id: str, host: Host) -> tuple[float, str]:
        """The points of an answer by its definitions alone, and why they are not all."""
        task = self.assignment.tasks[id]
        cells = []  # that ran before the answer was judged
        for step, (source, checked) in enumerate(self.plan.steps[: self.judged_at[id]]):
            if not checked and step not in self.plan.lost:
                cells.append(source)
        full = [mark.task for mark in self.result.marks if mark.full and mark.task != id]
        code = definition([task.name, *task.uses], cells)
        return points_alone(host, id, code, full)


def ungraded(task: Task, why: str) -> Mark:
    """The mark of a task that could not be graded."""
    measured = why
    if not why.startswith(UNGRADED):
        measured = f"{UNGRADED}: {why}"
    return Mark(task.id, task.title, None, task.points, measured)
