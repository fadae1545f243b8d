"""Mark a student's notebook: run its cells, and judge its answers where the solutions are not.

`marked` judges the answers in a process that was asked (`nmtcourse.homework.checking`). The cells
run in another one, which it asks for what they do (`nmtcourse.homework.remote`). A task is judged
where its check is, as in the notebook; the student's check cells are not run.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from nmtcheck.report.apart import ASLEEP, Ended
from nmtcourse.homework.answers import definitions, written_answers
from nmtcourse.homework.checking import CELL_SECONDS, UNGRADED
from nmtcourse.homework.chinese import language_of, speaks
from nmtcourse.homework.compare import Finding
from nmtcourse.homework.grading import Verdict, find_lack, judge_answer
from nmtcourse.homework.marks import Mark, Marked, as_data, encodable, table_line
from nmtcourse.homework.notebooks import beginning, inspect_cells, parsed, steps_of
from nmtcourse.homework.remote import GRACE, Elsewhere, RemoteAnswer
from nmtcourse.homework.task import BLANK, Task
from nmtcourse.homework.transcript import decode

ENDS = 6  # how often a notebook may end its process
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


def marked(
    name: str, text: str, tasks: list[str], cell_seconds: float
) -> Iterator[str | dict[str, Any]]:
    """A line for each task that was judged, then the result of a notebook as data.

    This runs in the process that was asked.
    """
    try:
        with Elsewhere() as process:  # first: it begins without the masters
            raw = text.encode("utf-8", "surrogateescape")
            marking = Marking(Path(name), raw, process, cell_seconds, tasks)
            say = speaks(marking.result.language)
            for mark in marking.run():
                yield encodable(table_line(mark, say))
            yield as_data(marking.result)
    except Exception as error:  # one notebook costs no other a row
        if isinstance(error, ValueError):
            yield {"failure": " ".join(str(error).split())[:300]}
        else:
            yield {"failure": f"{error!r}"[:300]}


class Marking:
    """The marking of one notebook, over as many processes as its cells end."""

    def __init__(
        self,
        path: Path,
        raw: bytes,
        process: Elsewhere,
        cell_seconds: float = CELL_SECONDS,
        tasks: Collection[str] = (),
    ):
        cells, self.assignment = parsed(path, raw)
        unknown = [id for id in tasks if id not in self.assignment.tasks]
        if unknown:
            ids = ", ".join(self.assignment.tasks)
            raise ValueError(f"{path.name} has no task {unknown[0]!r}; name one of {ids}")
        self.process, self.cell_seconds = process, cell_seconds
        self.left_out = [id for id in self.assignment.tasks if tasks and id not in tasks]
        steps = steps_of(cells, self.assignment)
        sources = [source for source, id in steps if not id]  # without the checks
        # The source of a cell or the id of a task for each step.
        self.steps = [(source, id) for source, id in steps if id not in self.left_out]
        self.lost: set[int] = set()  # steps that have ended a process
        self.result = Marked(path, self.assignment.number)
        self.result.notices = inspect_cells(cells, self.assignment)
        self.result.language = language_of(raw)
        self.result.answers = written_answers(sources, self.assignment)
        self.marks: dict[str, Mark] = {}

    def run(self) -> Iterator[Mark]:
        """Run all steps, again without each that ended the process; gives each mark as it comes."""
        started = time.monotonic()
        while True:
            try:
                self.step = -1
                yield from self.run_steps()
                break
            except Ended as ended:
                if self.step < 0:
                    raise ValueError("its process ended before it ran a cell") from None
                yield from self.report_loss(self.step, str(ended))
            self.lost.add(self.step)
            if len(self.lost) > ENDS:
                self.result.notices.append(
                    f"it ended its process {len(self.lost)} times, and was not started again"
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

    def run_steps(self) -> Iterator[Mark]:
        """Run the steps from the first one; gives each mark that is better than the one before."""
        self.process.open(self.assignment.number)
        for number, (source, id) in enumerate(self.steps):
            if number in self.lost:
                continue
            self.step = number
            self.process.require_time()
            if not id:
                self.run_cell(source)
            elif self.is_open(self.assignment.tasks[id], number):
                yield from self.judge_task(self.assignment.tasks[id])

    def run_cell(self, source: str) -> None:
        """Run a cell of the student's; notes if it raises an error or takes too long."""
        request = {"do": "run", "source": source, "seconds": self.cell_seconds}
        notice = self.process.ask(request, self.cell_seconds + GRACE).get("notice")
        if notice:
            self.result.notices.append(f"{notice}: the cell {beginning(source)}"[:1000])

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
        others = {other.name for other in self.assignment.tasks.values()} - {task.name}
        before = self.steps[:number]
        last = max(step for step, (_, id) in enumerate(before) if id == task.id)
        later = [source for source, id in before[last:] if not id]
        return any(definitions(source).keys() - others for source in later)

    def judge_task(self, task: Task) -> Iterator[Mark]:
        """Judge the answer to a task; gives the mark if it is better than the one before."""
        answer = self.answer_to(task)
        if answer.missing:
            finding = Finding(
                f"{answer.missing} is not defined",
                "a cell that defines it",
                "The cell failed, or the name was changed.",
            )
            verdict = Verdict(task, 0.0, "the answer is there", finding)
        else:
            if task.uses and isinstance(answer.value, str) and answer.value.strip() != BLANK:
                self.result.choices[task.id] = answer.value.strip().upper()[:1]
            verdict = self.verdict_on(answer)
        mark = mark_of(verdict, self.result.language)
        before = self.marks.get(task.id)
        if before is None or (mark.points or 0) > (before.points or 0) or not before.begun:
            self.marks[task.id] = mark
            yield mark

    def answer_to(self, task: Task) -> RemoteAnswer:
        """The answer to a task.

        A choice is compared with the solution of a task that had full points before: a later cell
        may have redefined what it uses.
        """
        full = [id for id, mark in self.marks.items() if mark.full]
        return RemoteAnswer(self.process, task, full)

    def verdict_on(self, answer: RemoteAnswer) -> Verdict:
        """The verdict on an answer, and on those that a choice is compared with.

        What was judged before is not judged again.
        """
        task = answer.task
        if task.uses:

            def points(used: Task) -> float:
                mark = self.marks.get(used.id)
                if mark is None:
                    return judge_answer(self.answer_to(used)).points
                return mark.points or 0.0

            lack = find_lack(task, decode(answer.value), points)
            if lack is not None:
                return Verdict(task, 0.0, task.properties[0].statement, lack)
            answer = self.answer_to(task)  # anew: the process was asked about others meanwhile
        return judge_answer(answer)

    def report_loss(self, step: int, how: str) -> Iterator[Mark]:
        """Say which cell or answer ended the process, or was ended."""
        source, id = self.steps[step]
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
        if id not in self.marks:
            self.marks[id] = mark
            yield mark


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


def ungraded(task: Task, why: str) -> Mark:
    """The mark of a task that could not be graded."""
    measured = why
    if not why.startswith(UNGRADED):
        measured = f"{UNGRADED}: {why}"
    return Mark(task.id, task.title, None, task.points, measured)
