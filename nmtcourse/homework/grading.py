"""Judge an answer to a task: which property fails, and which known mistake explains it."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmtcourse.homework import causes, progress
from nmtcourse.homework.catalogue import assignment, find_task
from nmtcourse.homework.chinese import chinese, language_here, speaks
from nmtcourse.homework.compare import Finding
from nmtcourse.homework.limits import undisturbed
from nmtcourse.homework.lines import write_lines
from nmtcourse.homework.task import BLANK, Property, Task
from nmtcourse.homework.trials import UNWRITTEN, Answer, LiveAnswer, Outcome, outcome


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
        return self.as_text("en")

    def as_text(self, language: str) -> str:
        """The verdict in words."""
        say = speaks(language)
        task, finding = self.task, self.finding
        colon, stop = ": ", ". "
        if language == "zh":
            colon, stop = "：", "。"
        points = say(f"{self.points:g} of {task.points:g} points")
        title = f"{task.id} {say(task.title)}{colon}{points}"
        if finding is None:
            return f"{title}{stop}{say('All properties hold.')}"
        if not self.begun and not self.points:
            return f"{title}{colon}{say(f'{UNWRITTEN}, or a part is still a stub.')}"
        measured = finding.measured
        if finding.lines:  # which say what the answer was called with
            measured = measured.replace(finding.given, "", 1)
        rows = {
            "property": self.statement,
            "measured": measured,
            "expected": finding.expected,
            "likely": finding.cause,
            "try": "" if finding.cause else self.advice,
            "read": task.read,
        }
        lines = [title]
        for name, text in rows.items():
            if text and language == "zh":  # nothing else wraps lines without spaces
                lines.append(f"  {say(name)}{colon}{say(text)}")
            elif text:
                start = f"  {name:<9} "
                lines += textwrap.wrap(text, 96, initial_indent=start, subsequent_indent=" " * 12)
        if finding.lines:
            lines.append(f"  {say('paste these lines to see it:')}")
            lines += [f"    {line}" for line in finding.lines]
        return "\n".join(lines)


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
    print(verdict.as_text(language_here(id[:2])))
    return verdict.points


def hint(id: str, number: int = 1, folder: Path | None = None) -> None:
    """Print hint 1, a first push, or hint 2, the idea; `folder` counts it.

    Raises ValueError for an unknown task or hint, FileNotFoundError if `folder` has no homework.
    """
    task = find_task(id)
    if number not in (1, 2):
        raise ValueError(f"there are hints 1 and 2, not {number!r}")
    text = task.hints[number - 1]
    more = ""
    if number == 1:
        more = f'\n(More: hint("{id}", 2))'
    if language_here(id[:2], folder or progress.place_of(id)) == "en":
        print(textwrap.fill(text, 96) + more)
    else:
        print(chinese(text) + chinese(more))
    progress.count("hints", id, number, folder)  # last: a hint needs no file


def judge(
    task: Task, answer: Any, *others: Any, known: Mapping[str, float | None] | None = None
) -> Verdict:
    """The verdict on an answer of this process, as `judge_answer` gives it.

    `known` are the points of other tasks that were judged before.
    """
    if task.uses:
        named = dict(zip(task.uses, others, strict=False))

        def points(used: Task) -> float:
            before = (known or {}).get(used.id)
            return judge(used, named[used.name]).points if before is None else before

        lack = find_lack(task, answer, points)
        if lack is not None:
            return Verdict(task, 0.0, task.properties[0].statement, lack)
    return judge_answer(LiveAnswer(task, answer, others))


def judge_answer(answer: Answer) -> Verdict:
    """The verdict on an answer, whether it raises, prints, warns, or never returns.

    Properties are tried in the order of debugging; at the first that does not hold, the points of
    the earlier ones remain. A result of the wrong type with the right numbers costs a third.
    """
    task = answer.task
    outcomes: list[Outcome] = []  # of the properties that were tried, in their order

    def find_fault(prop: Property) -> Finding | None:
        outcomes.append(outcome(prop, answer))
        return outcomes[-1].finding

    with undisturbed():
        points, finding = points_of(task, find_fault)
        if finding is None:
            return Verdict(task, task.points)
        hangs = any(result.hangs for result in outcomes)  # then nothing runs it again
        number = next(n for n, result in enumerate(outcomes) if result.finding is finding)
        prop = task.properties[number]
        trial = next((t for t in outcomes[number].trials if t.finding is finding), None)
        if trial is not None and not hangs and finding.measured != UNWRITTEN:
            write_lines(number, answer, finding, trial.choices)
        digest = ""
        untold = not (finding.minor or finding.cause or finding.measured == UNWRITTEN)
        if untold and not hangs and not task.uses:
            codes = causes.fingerprint(answer)
            finding.cause = causes.cause_of(task, codes)
            if not finding.cause:
                digest = causes.behaviour(task, codes)
    advice = finding.usual or prop.advice
    return Verdict(task, points, prop.statement, finding, advice, digest)


# Of three properties worth 2, 1 and 1 in a task of 8 points, the second has a minor finding and the
# third holds: (2 + 2/3 + 1) of 4 give 7.3 points. Were the third wrong: (2 + 2/3) of 4 give 5.3.
def points_of(
    task: Task, find_fault: Callable[[Property], Finding | None]
) -> tuple[float, Finding | None]:
    """The points of an answer by what is found wrong with its properties, and the first that is.

    One that is not minor ends the search; a minor one costs a third of its property.
    """
    total = sum(prop.worth for prop in task.properties)
    earned = 0.0
    reported: Finding | None = None
    for prop in task.properties:
        finding = find_fault(prop)
        if finding is None:
            earned += prop.worth
        elif finding.minor:
            earned += prop.worth * 2 / 3
            reported = reported or finding
        else:
            reported = finding
            break
    if reported is None:
        return task.points, None
    return round(task.points * earned / total, 1), reported


def find_lack(task: Task, choice: Any, points: Callable[[Task], float]) -> Finding | None:
    """What a choice lacks: it is not made yet, or an answer that it is compared with has no points.

    Otherwise a meaningless function, which may agree with any letter, would earn its points.
    """
    if isinstance(choice, str) and choice.strip() == BLANK:
        return Finding(UNWRITTEN, "a letter", "")
    for used in assignment(task.id[:2]).tasks.values():
        if used.name in task.uses and not points(used):
            lacking, advice = f"your {used.name} has no points yet", f"Repair {used.id} first."
            return Finding(lacking, "one to compare your choice with", advice)
    return None
