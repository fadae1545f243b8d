"""Judge an answer to a task: which property fails, and which known mistake explains it."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import pkgutil
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from nmtcourse.homework import masters, progress
from nmtcourse.homework.draw import Draw, seed_in
from nmtcourse.homework.guards import Careful, Stopped, undisturbed, within
from nmtcourse.homework.messages import PLACE, place_in
from nmtcourse.homework.task import BLANK, Assignment, Finding, Property, Task
from nmtcourse.homework.values import session_of
from nmtcourse.homework.wire import Damaged, Lost
from nmtlib.errors import did_you_mean

UNWRITTEN = "nothing is written here yet"
WITHOUT = (
    "this nmtlib was installed without solutions (NMTLIB_SOLUTIONS=0), to run notebooks; use "
    "another installation to hand out or grade homework"
)
SEED = "NMTLIB_HOMEWORK_SEED"  # set by an instructor; students have 0


@dataclass(frozen=True)
class Verdict:
    """The points of an answer and, if some are missing, the first property that does not hold."""

    task: Task
    points: float
    statement: str = ""
    finding: Finding | None = None

    @property
    def full(self) -> bool:
        """Whether all properties hold."""
        return self.finding is None

    @property
    def begun(self) -> bool:
        """Whether the answer is more than a stub."""
        return self.finding is None or self.finding.measured != UNWRITTEN

    def __str__(self) -> str:
        task, points = self.task, f"{self.points:g} of {self.task.points:g} points"
        if self.finding is None:
            return f"{task.id} {task.title}: {points}. All properties hold."
        found = self.finding
        if not self.begun and not self.points:
            return f"{task.id} {task.title}: {points}: {UNWRITTEN}, or a part is still a stub."
        lines = {
            "property": self.statement,
            "measured": found.measured,
            "expected": found.expected,
            "likely": found.cause,
            "read": task.read,
        }
        told = [f"{task.id} {task.title}: {points}"]
        for name, text in lines.items():
            if text:
                told += textwrap.wrap(
                    text, 96, initial_indent=f"  {name:<9} ", subsequent_indent=" " * 12
                )
        return "\n".join(told)


@cache
def assignments() -> dict[str, Assignment]:
    """All assignments by their numbers. Raises ValueError where they are not installed."""
    names = sorted(module.name for module in pkgutil.iter_modules(masters.__path__))
    if not names:
        raise ValueError(WITHOUT)
    found = (importlib.import_module(f"{masters.__name__}.{name}").homework for name in names)
    return {assignment.number: assignment for assignment in found}


def find_task(id: str) -> Task:
    """The task with that id, such as "04.2". Raises ValueError if there is none."""
    assignment = assignments().get(id.partition(".")[0])
    if assignment is None or id not in assignment.tasks:
        known = [task for each in assignments().values() for task in each.tasks]
        if assignment is not None:
            raise ValueError(f"there is no task {id!r}; name one of {', '.join(assignment.tasks)}")
        raise ValueError(f"there is no task {id!r}{did_you_mean(id, known)}; write it as '04.2'")
    return assignment.tasks[id]


def grade(id: str, answer: Any, *others: Any, seed: int | None = None) -> float:
    """Judge the answer to a task, print the verdict, and return the points.

    `others` are the answers to earlier tasks that a choice is compared with. Each `seed` runs the
    same checks with different sizes and numbers; the default is the environment variable
    NMTLIB_HOMEWORK_SEED, or 0. Raises ValueError for an unknown task, or if that variable is not a
    whole number.
    """
    task = find_task(id)
    verdict = judge(task, answer, *others, seed=seed)
    if task.uses and verdict.begun:
        with contextlib.suppress(OSError, ValueError):  # a verdict needs no file
            progress.count("choices", id, str(answer).strip().upper()[:1])
    print(verdict)
    return verdict.points


def hint(id: str, number: int = 1, folder: Path | None = None) -> None:
    """Print hint 1, a first push, or hint 2, the idea; `folder` counts it.

    Raises ValueError for an unknown task or hint, FileNotFoundError if `folder` has no homework.
    """
    task = find_task(id)
    if number not in (1, 2):
        raise ValueError(f"there are hints 1 and 2, not {number!r}")
    more = f'\n(More: hint("{id}", 2))' if number == 1 else ""
    print(textwrap.fill(task.hints[number - 1], 96) + more)
    progress.count("hints", id, number, folder)  # last: a hint needs no file


def judge(task: Task, answer: Any, *others: Any, seed: int | None = None) -> Verdict:
    """The verdict on an answer, whether it raises, prints, warns, or never returns.

    Properties are tried in the order of debugging; at the first that does not hold, the points of
    the earlier ones remain.
    """
    seed = seed_in(SEED) if seed is None else seed
    if task.uses and (missing := unsupported(task, answer, others, seed)):
        return Verdict(task, 0.0, task.properties[0].statement, missing)
    given = (answer, *others) if task.uses else answer
    total, earned = sum(p.worth for p in task.properties), 0.0
    with undisturbed():
        for prop in task.properties:
            finding = outcome(task, prop, given, seed)
            if finding is not None:
                if not finding.cause:
                    named = diagnose(task, prop, finding, answer, seed)
                    finding.cause = named or finding.usual or prop.cause
                points = round(task.points * earned / total, 1)
                return Verdict(task, points, prop.statement, finding)
            earned += prop.worth
    return Verdict(task, task.points)


def unsupported(task: Task, choice: Any, others: tuple, seed: int) -> Finding | None:
    """What a choice lacks: it is not made yet, or an answer that it is compared with has no points.

    Otherwise a meaningless function, which may agree with any letter, would earn its points.
    """
    if isinstance(choice, str) and choice.strip() == BLANK:
        return Finding(UNWRITTEN, "a letter", "")
    tasks = {each.name: each for each in assignments()[task.id[:2]].tasks.values()}
    for name, other in zip(task.uses, others, strict=False):
        if not judge(tasks[name], other, seed=seed).points:
            lacking, advice = f"your {name} has no points yet", f"Repair {tasks[name].id} first."
            return Finding(lacking, "one to compare your choice with", advice)
    return None


def outcome(task: Task, prop: Property, answer: Any, seed: int) -> Finding | None:
    """What is wrong with an answer according to one property, or None."""
    session = session_of(answer)
    careful = task.pure and callable(answer) and not inspect.isclass(answer) and not session
    subject = Careful(answer, task.forbidden, task.sealed) if careful else answer
    try:
        with session.within(task.seconds) if session else within(task.seconds):
            for number in range(prop.draws):
                torch.manual_seed(seed % 2**64)  # torch accepts no larger one
                prop.measure(subject, Draw(seed, number))
    except Finding as finding:
        return finding
    except Stopped:
        limit = f"{task.seconds:g} s"
        return Finding(
            f"stopped after {limit}",
            "an answer in much less",
            "An endless loop, or a Python loop over every number.",
        )
    except (KeyboardInterrupt, Lost, Damaged):
        raise
    except BaseException as error:  # SystemExit as well would end the reader's kernel
        if isinstance(error, NotImplementedError) and not str(error):  # torch's own have a text
            return Finding(UNWRITTEN, "an answer", "Part of it is still a stub.")
        raised = Finding(told(error), "a result")
        raised.usual = _reason(error, answer)
        return raised
    return None


def diagnose(task: Task, prop: Property, finding: Finding, answer: Any, seed: int) -> str:
    """The one known mistake that gives the same measurement, or ''.

    Like the answer, it must have passed the earlier properties. If several do, it is the one that
    agrees in all properties, with a second seed as well.
    """
    before = task.properties[: task.properties.index(prop)]
    given = without_place(finding.measured)
    anew = measured(task, answer, prop, seed + 1)  # one number may agree by chance
    same = [
        about
        for about in task.mistakes
        if of_mistake(task, about, prop, seed) == given
        and of_mistake(task, about, prop, seed + 1) == anew
        and not any(of_mistake(task, about, earlier, seed) for earlier in before)
    ]
    if len(same) > 1:
        tried = [(p, s) for p in task.properties for s in (seed, seed + 1)]
        own = [measured(task, answer, *each) for each in tried]
        same = [a for a in same if [of_mistake(task, a, *each) for each in tried] == own]
    return same[0] if len(same) == 1 else ""


def measured(task: Task, answer: Any, prop: Property, seed: int) -> str:
    """What a property measures for an answer; nothing if it holds."""
    found = outcome(task, prop, answer, seed)
    return without_place(found.measured) if found else ""


@cache
def of_mistake(task: Task, about: str, prop: Property, seed: int) -> str:
    """What is measured for a known mistake: the same for every answer compared with it."""
    return measured(task, task.wrong[about], prop, seed)


def told(error: BaseException) -> str:
    """An exception in one line, with the line of the student's code that raised it."""
    said = next(iter(str(error).strip().splitlines()), "")[:200]
    return f"{type(error).__name__}: {said}{place_in(error)}"


def without_place(measured: str) -> str:
    """The measurement without the line of the student's code."""
    return measured.partition(PLACE)[0]


def _reason(error: BaseException, answer: Any) -> str:
    """The usual cause of an exception."""
    if answer is None or answer is ...:
        return "Your name has no value: run the cell above, or write the answer."
    if isinstance(error, TypeError) and "argument" in str(error):
        return "Check that your function takes the arguments of the task, in that order."
    if isinstance(error, IndexError | ValueError) and (
        "list" in str(error) or "empty" in str(error)
    ):
        return "A list is empty or shorter than expected: when can that happen?"
    return "The message says what failed; print the shapes before that line."
