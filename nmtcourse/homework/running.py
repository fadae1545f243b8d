"""Run a notebook's cells and judge its answers, in a child process that ends with them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from nmtcourse.homework.answers import definitions
from nmtcourse.homework.catalogue import assignments
from nmtcourse.homework.compare import Finding
from nmtcourse.homework.grading import Verdict, judge
from nmtcourse.homework.limits import Nowhere, Stopped, prepare, within
from nmtcourse.homework.marks import Mark, encodable
from nmtcourse.homework.notebooks import beginning
from nmtcourse.homework.task import Task

GRACE = 10.0  # seconds of processor time within which an interrupted cell must end
JUDGE_SECONDS = 240.0  # for all properties of a task, each of which has a limit of its own


Messages = Iterator[dict[str, Any]]


@dataclass
class Plan:
    """What a child runs: a source or the id of a task for each step, and what is known already."""

    number: str
    steps: list[tuple[str, str]]
    cell_seconds: float = 60.0
    language: str = "en"
    lost: set[int] = field(default_factory=set)  # steps that have ended a child
    marks: dict[str, Mark] = field(default_factory=dict)

    def run(self, _: None = None) -> Messages:
        """Run the steps: gives each as it begins, notices, letters and marks."""
        prepare()
        self.tasks, self.shell = assignments()[self.number].tasks, new_shell()
        for number, (source, id) in enumerate(self.steps):
            if number in self.lost:
                continue
            limit = JUDGE_SECONDS if id else self.cell_seconds + GRACE
            yield {"step": number, "limit": limit}
            if not id:
                yield from self.run_cell(source)
            elif self.is_open(self.tasks[id], number):
                yield from self.judge_task(self.tasks[id])

    def run_cell(self, source: str) -> Messages:
        """Run a cell of the student's; gives a notice if it raises an error or takes too long."""
        sys.stdout = sys.stderr = Nowhere()
        try:
            with within(self.cell_seconds):
                result = self.shell.run_cell(source, store_history=False)
            error = result.error_before_exec or result.error_in_exec
        except BaseException as raised:  # whatever a cell has done to the shell
            error = raised
        if error is None:
            return
        message = (str(error).splitlines() or [""])[0][:300]
        why = f"{type(error).__name__}: {message}"
        if isinstance(error, Stopped | KeyboardInterrupt):
            why = f"stopped after {self.cell_seconds:g} s"
        yield encodable({"notice": f"{why}: the cell {beginning(source)}"})

    def is_open(self, task: Task, number: int) -> bool:
        """Whether a task may still gain points: by its first check, or by what came after it."""
        mark, source = self.marks.get(task.id), self.steps[number][0]
        if mark is None:
            return True
        if mark.full:
            return False
        if source:  # a check of the page, not the last chance
            return True
        # Once more at the end, if a cell since then defines something that the answer may use: more
        # than the answers to other tasks.
        others = {other.name for other in self.tasks.values()} - {task.name}
        before = self.steps[:number]
        last = max(step for step, (_, id) in enumerate(before) if id == task.id)
        later = [source for source, id in before[last:] if not id]
        return any(definitions(source).keys() - others for source in later)

    def judge_task(self, task: Task) -> Messages:
        """Judge the answer to a task; gives the mark if it is better than the one before."""
        names = [task.name, *task.uses]
        missing = [name for name in names if name not in self.shell.user_ns]
        if missing:
            finding = Finding(
                f"{missing[0]} is not defined",
                "a cell that defines it",
                "The cell failed, or the name was changed.",
            )
            verdict = Verdict(task, 0.0, "the answer is there", finding)
        else:
            answers = [self.shell.user_ns[name] for name in names]
            if task.uses and isinstance(answers[0], str):
                yield encodable({"letter": [task.id, answers[0].strip().upper()[:1]]})
            verdict = verdict_on(task, answers, self.marks)
        mark = mark_of(verdict, self.language)
        before = self.marks.get(task.id)
        if before is None or (mark.points or 0) > (before.points or 0) or not before.begun:
            self.marks[task.id] = mark
            yield encodable({"mark": vars(mark)})


def verdict_on(task: Task, answers: list[Any], marks: dict[str, Mark]) -> Verdict:
    """The verdict on an answer, and on those that a choice is compared with.

    The solution takes the place of one that had full points before: a later cell may have redefined
    what it uses. What was judged before is not judged again.
    """
    tasks = {other.name: other for other in assignments()[task.id[:2]].tasks.values()}
    others = []
    for name, answer in zip(task.uses, answers[1:], strict=True):
        before = marks.get(tasks[name].id)
        if before is not None and before.full:
            others.append(tasks[name].solution)
        else:
            others.append(answer)
    points = {id: mark.points for id, mark in marks.items()}
    return judge(task, answers[0], *others, known=points)


def mark_of(verdict: Verdict, language: str) -> Mark:
    """The mark of a verdict, whose text has the language of the page."""
    task, finding = verdict.task, verdict.finding
    measured = cause = ""
    if finding:
        measured, cause = finding.measured, finding.cause
    return Mark(
        task.id,
        task.title,
        float(verdict.points),
        task.points,
        measured,
        cause,
        text=verdict.as_text(language),
        begun=verdict.begun,
        behaviour=verdict.behaviour,
    )


def new_shell() -> Any:
    """IPython, which runs cells as a notebook does."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    shell.xmode = "Minimal"
    shell.ask_exit = lambda: os._exit(0)  # type: ignore[attr-defined]  # what `exit()` calls
    return shell
