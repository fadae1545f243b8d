"""Run a student's notebook and judge its answers.

The notebook runs in a process of its own (`nmtcourse.homework.execution`), the judge in this one.
A task is judged where its check is, as in the notebook; the student's check cells are not run.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nmtcourse.homework.answers import definitions, written_answers
from nmtcourse.homework.chinese import language_of
from nmtcourse.homework.compare import Finding
from nmtcourse.homework.execution import Overdue, Session
from nmtcourse.homework.grading import Verdict, judge
from nmtcourse.homework.marks import Mark, Marked
from nmtcourse.homework.notebooks import (
    Step,
    beginning,
    inspect_cells,
    parsed,
    read_bytes,
    steps_of,
)
from nmtcourse.homework.task import Task
from nmtcourse.homework.wire import Lost

CELL_SECONDS = 60.0
ALL_SECONDS = 900.0  # of a notebook, starts of its process included
ENDS = 6  # how often a notebook may end its process
STUCK = "could not be stopped"
DIED = "ended the process, so the others were run without it"


def mark(path: Path, seed: int = 0, *, cell_seconds: float = CELL_SECONDS) -> Marked:
    """Run a notebook in its folder and judge it. The file is read once, before it is run.

    Raises FileNotFoundError for a missing file, and ValueError for one that is not a notebook of an
    assignment, or whose process sends what is no answer.
    """
    raw = read_bytes(path)
    marked = Marking(path, raw, path.parent, seed, cell_seconds).marked()
    marked.digest = hashlib.sha256(raw).hexdigest()
    return marked


class Marking:
    """The marking of one notebook, over as many processes as its cells end."""

    def __init__(
        self,
        path: Path,
        raw: bytes,
        folder: Path,
        seed: int,
        cell_seconds: float = CELL_SECONDS,
        python: str = sys.executable,
        closed: Iterable[str] = (),
    ):
        book, assignment = parsed(path, raw)
        self.steps, self.folder, self.python = steps_of(book, assignment), folder, python
        self.result = Marked(path, assignment, notices=inspect_cells(book, assignment))
        self.seed, self.cell_seconds, self.closed = seed, cell_seconds, [*closed]
        own = [step.source for step in self.steps if step.task is None]
        self.result.language = language_of(raw)
        self.result.answers = repr(written_answers(own, assignment) or "")
        self.marks: dict[str, Mark] = {}
        self.lost: set[int] = set()  # steps that ended the process
        self.started = time.monotonic()

    def marked(self) -> Marked:
        """Run all steps, again without each that ended the process."""
        while True:
            with Session(self.folder, self.python) as session:
                if (ended := self.run(session)) is None:
                    break
            self.lost.add(ended)
        result = self.result
        result.marks = [self.marks[id] for id in result.assignment.tasks]
        result.notices = [*dict.fromkeys(result.notices)]
        result.seconds = time.monotonic() - self.started
        return result

    def run(self, session: Session) -> int | None:
        """Run cells and judge answers; returns the step that ended the process, if any."""
        session.ask(self.cell_seconds, "watch", self.closed)
        for number, step in enumerate(self.steps):
            if number in self.lost:
                continue
            if why := self.exhausted():
                self.result.notices.append(why)
                break
            try:
                if step.task is None:
                    self.run_cell(session, step)
                elif self.is_open(step.task, number):
                    self.judge_task(session, step.task)
            except Lost as lost:
                self.tell_of_loss(step, lost)
                return number
        for task in self.result.assignment.tasks.values():
            missing = Finding("it was not reached", "a notebook that ends", "")
            self.marks.setdefault(task.id, self.mark_of(Verdict(task, 0.0, "", missing)))
        self.tell_of_files(session)
        return None

    def exhausted(self) -> str:
        """Why nothing more is run, or ''."""
        if len(self.lost) > ENDS:
            return f"it ended its process {len(self.lost)} times, and was not started again"
        if time.monotonic() - self.started > ALL_SECONDS:
            return f"stopped after {ALL_SECONDS / 60:g} minutes"
        return ""

    def run_cell(self, session: Session, step: Step) -> None:
        """Run a cell of the student's."""
        if error := session.run(step.source, self.cell_seconds):
            stopped = error[0] in ("Stopped", "KeyboardInterrupt")
            why = f"stopped after {self.cell_seconds:g} s" if stopped else ": ".join(error)
            self.result.notices.append(f"{why}: the cell {beginning(step.source)}")

    def is_open(self, task: Task, number: int) -> bool:
        """Whether a task may still gain points: by its first check, or by what came after it."""
        known = self.marks.get(task.id)
        if known is None or known.points == known.possible or self.steps[number].source:
            return known is None or not known.full
        names = {each.name for each in self.result.assignment.tasks.values()} - {task.name}
        last = max(n for n, s in enumerate(self.steps[:number]) if s.task is task)
        later = [each.source for each in self.steps[last:number] if each.task is None]
        return any(definitions(source).keys() - names for source in later)

    def judge_task(self, session: Session, task: Task) -> None:
        """Judge the answer to a task, and keep the better of two marks."""
        names = [task.name, *task.uses]
        there = session.ask(self.cell_seconds, "has", names)
        if missing := [n for n, found in zip(names, there, strict=True) if found is not True]:
            finding = Finding(
                f"{missing[0]} is not defined",
                "a cell that defines it",
                "The cell failed, or the name was changed.",
            )
            verdict = Verdict(task, 0.0, "the answer is there", finding)
        else:
            answers = session.answers(task, names)
            if task.uses and isinstance(answers[0], str):
                self.result.choices[task.id] = answers[0].strip().upper()[:1]
            others = map(self.earlier, task.uses, answers[1:])
            verdict = judge(task, answers[0], *others, seed=self.seed)
        made, known = self.mark_of(verdict), self.marks.get(task.id)
        if known is None or (made.points or 0) > (known.points or 0) or not known.begun:
            self.marks[task.id] = made

    def earlier(self, name: str, answer: Any) -> Any:
        """An answer that a choice is compared with; the solution where it had full points before.

        A later cell may have redefined what it uses.
        """
        tasks = {task.name: task for task in self.result.assignment.tasks.values()}
        mark = self.marks.get(tasks[name].id)
        return tasks[name].solution if mark and mark.points == mark.possible else answer

    def tell_of_loss(self, step: Step, lost: Lost) -> None:
        """Say which cell or answer ended the process."""
        stuck = isinstance(lost, Overdue)
        if step.task is None:
            why = STUCK if stuck else DIED
            self.result.notices.append(f"{why}: the cell {beginning(step.source)}")
            return
        measured, cause = "the process ended during the check", "The answer ends the process."
        if stuck:
            measured, cause = "the check did not end", "An endless loop."
        finding = Finding(measured, "an answer", cause)
        self.marks.setdefault(step.task.id, self.mark_of(Verdict(step.task, 0.0, "", finding)))

    def tell_of_files(self, session: Session) -> None:
        """Say which files of the homework or of other students a notebook has opened."""
        with contextlib.suppress(Lost):
            found = session.ask(self.cell_seconds, "seen")
            if isinstance(found, list) and found:
                names = ", ".join(str(name)[-80:] for name in found[:5])
                self.result.notices.append(f"the notebook has opened {names}")

    def mark_of(self, verdict: Verdict) -> Mark:
        """The mark of a verdict, whose text has the language of the page."""
        task, found = verdict.task, verdict.finding
        measured, cause = (found.measured, found.cause) if found else ("", "")
        return Mark(
            task.id,
            task.title,
            verdict.points,
            task.points,
            measured,
            cause,
            text=verdict.told(self.result.language),
            begun=verdict.begun,
        )
