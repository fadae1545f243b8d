"""Judge an answer to a task: which property fails, and which known mistake explains it."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nmtcourse.homework import masters, progress
from nmtcourse.homework.chinese import chinese, language_here, speaks
from nmtcourse.homework.compare import Finding
from nmtcourse.homework.diagnosis import behaviour, diagnose
from nmtcourse.homework.limits import Stopped, undisturbed
from nmtcourse.homework.task import BLANK, Assignment, Property, Task
from nmtcourse.homework.trials import UNWRITTEN, Outcome, outcome
from nmtlib.errors import did_you_mean

WITHOUT = (
    "this nmtlib was installed without solutions (NMTLIB_SOLUTIONS=0), to run notebooks; use "
    "another installation to hand out or grade homework"
)


@dataclass(frozen=True)
class Verdict:
    """The points of an answer and, if some are missing, the first property that does not hold."""

    task: Task
    points: float
    statement: str = ""
    finding: Finding | None = None
    advice: str = ""
    behaviour: str = ""  # of a wrong answer that no known mistake explains

    @property
    def full(self) -> bool:
        """Whether all properties hold."""
        return self.finding is None

    @property
    def begun(self) -> bool:
        """Whether the answer is more than a stub."""
        return self.finding is None or self.finding.measured != UNWRITTEN

    def __str__(self) -> str:
        return self.told("en")

    def told(self, language: str) -> str:
        """The verdict in words."""
        say, task, found = speaks(language), self.task, self.finding
        colon, stop = ("：", "。") if language == "zh" else (": ", ". ")
        points = say(f"{self.points:g} of {task.points:g} points")
        title = f"{task.id} {say(task.title)}{colon}{points}"
        if found is None:
            return f"{title}{stop}{say('All properties hold.')}"
        if not self.begun and not self.points:
            return f"{title}{colon}{say(f'{UNWRITTEN}, or a part is still a stub.')}"
        lines = {
            "property": self.statement,
            "measured": found.measured,
            "expected": found.expected,
            "likely": found.cause,
            "try": "" if found.cause else self.advice,
            "read": task.read,
        }
        told = [title]
        for name, text in lines.items():
            if text and language == "zh":  # nothing else wraps lines without spaces
                told.append(f"  {say(name)}{colon}{say(text)}")
            elif text:
                start = f"  {name:<9} "
                told += textwrap.wrap(text, 96, initial_indent=start, subsequent_indent=" " * 12)
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


def grade(id: str, answer: Any, *others: Any) -> float:
    """Judge the answer to a task, print the verdict, and return the points.

    `others` are the answers to earlier tasks that a choice is compared with. Raises ValueError for
    an unknown task.
    """
    task = find_task(id)
    verdict = judge(task, answer, *others)
    if task.uses and verdict.begun:
        with contextlib.suppress(OSError, ValueError):  # a verdict needs no file
            progress.count("choices", id, str(answer).strip().upper()[:1])
    print(verdict.told(language_here(id[:2])))
    return verdict.points


def hint(id: str, number: int = 1, folder: Path | None = None) -> None:
    """Print hint 1, a first push, or hint 2, the idea; `folder` counts it.

    Raises ValueError for an unknown task or hint, FileNotFoundError if `folder` has no homework.
    """
    task = find_task(id)
    if number not in (1, 2):
        raise ValueError(f"there are hints 1 and 2, not {number!r}")
    language, text = language_here(id[:2], folder or progress.place_of(id)), task.hints[number - 1]
    more = f'\n(More: hint("{id}", 2))' if number == 1 else ""
    print(textwrap.fill(text, 96) + more if language == "en" else chinese(text) + chinese(more))
    progress.count("hints", id, number, folder)  # last: a hint needs no file


def judge(
    task: Task, answer: Any, *others: Any, known: Mapping[str, float | None] | None = None
) -> Verdict:
    """The verdict on an answer, whether it raises, prints, warns, or never returns.

    Properties are tried in the order of debugging; at the first that does not hold, the points of
    the earlier ones remain. A result of the wrong type with the right numbers costs a third.
    `known` are the points of other tasks that were judged before.
    """
    if task.uses and (missing := unsupported(task, answer, others, known or {})):
        return Verdict(task, 0.0, task.properties[0].statement, missing)
    given = (answer, *others) if task.uses else answer
    found: list[Outcome] = []

    def finding_of(prop: Property) -> Finding | None:
        found.append(outcome(task, prop, given))
        return found[-1].finding

    with undisturbed():
        points, finding = points_of(task, finding_of)
        if finding is None:
            return Verdict(task, task.points)
        hangs = any(each.hangs for each in found)  # then nothing runs it again
        if not (finding.minor or finding.cause or hangs):
            try:
                finding.cause = diagnose(task, task.properties[len(found) - 1], given, found)
            except Stopped:
                hangs = True
    prop = next(
        p for p, each in zip(task.properties, found, strict=False) if each.finding is finding
    )
    advice, odd = finding.usual or prop.advice, ""
    nameless = not (finding.cause or finding.minor or finding.measured == UNWRITTEN)
    if nameless and not (hangs or task.uses):
        with undisturbed():
            odd = behaviour(task, given)
    return Verdict(task, points, prop.statement, finding, advice, odd)


def points_of(
    task: Task, finding_of: Callable[[Property], Finding | None]
) -> tuple[float, Finding | None]:
    """The points of an answer by what is found wrong with its properties, and the first that is.

    One that is not minor ends the search; a minor one costs a third of its property.
    """
    total, earned = sum(prop.worth for prop in task.properties), 0.0
    first: Finding | None = None
    for prop in task.properties:
        finding = finding_of(prop)
        if finding is None:
            earned += prop.worth
            continue
        first = finding if first is None or not finding.minor else first
        if not finding.minor:
            break
        earned += prop.worth * 2 / 3
    points = task.points if first is None else round(task.points * earned / total, 1)
    return points, first


def unsupported(
    task: Task, choice: Any, others: tuple, known: Mapping[str, float | None]
) -> Finding | None:
    """What a choice lacks: it is not made yet, or an answer that it is compared with has no points.

    Otherwise a meaningless function, which may agree with any letter, would earn its points.
    """
    if isinstance(choice, str) and choice.strip() == BLANK:
        return Finding(UNWRITTEN, "a letter", "")
    tasks = {each.name: each for each in assignments()[task.id[:2]].tasks.values()}
    for name, other in zip(task.uses, others, strict=False):
        points = known.get(tasks[name].id)
        if not (judge(tasks[name], other).points if points is None else points):
            lacking, advice = f"your {name} has no points yet", f"Repair {tasks[name].id} first."
            return Finding(lacking, "one to compare your choice with", advice)
    return None
