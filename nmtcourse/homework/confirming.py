"""Confirm points: judge an answer by what it did elsewhere, in a process where it never ran.

The answer runs in a process without solutions and judge (`nmtcourse.homework.answering`), which
sends transcripts: calls and what came back, as data. Here each check is run on them, and on the
solution. Whatever an answer does to its own process, it has to send the right numbers.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nmtcheck.report.apart import Ended
from nmtcourse.homework import masters
from nmtcourse.homework.answering import without_solutions
from nmtcourse.homework.apart import Host
from nmtcourse.homework.catalogue import assignments
from nmtcourse.homework.compare import Finding
from nmtcourse.homework.grading import points_of
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.limits import undisturbed
from nmtcourse.homework.task import Property
from nmtcourse.homework.transcript import FORGED, Forged, Replay, decode
from nmtcourse.homework.trials import (
    find_fault,
    guard_answer,
    observe,
    observe_solution,
    plan_turns,
)

ANSWERED = "nmtcourse.homework.answering:answered"  # what a host calls
SECONDS = 240.0  # of processor time for a property
MOST = 2**28  # bytes of all transcripts of a property
ALLOWED = ("function", "class", "module", "value")


def answering(folder: Path) -> Host:
    """A process for answers, which cannot read the solutions."""
    package = Path(masters.__path__[0])
    pages = package.parents[2] / "notebooks" / "homework"  # in a copy of the project
    places = [package, pages / "solutions-spoilers", pages / "nbgrader" / "source"]
    return Host(folder, ANSWERED, hidden=[place for place in places if place.is_dir()])


def points_alone(host: Host, id: str, code: str, full: list[str]) -> tuple[float, str]:
    """The points that the definitions of an answer have in another process, and why not all.

    `full` are tasks with all points: a choice is compared with their solutions.
    """
    confirmation = Confirmation(host, id, code, full)
    with undisturbed():
        points, finding = points_of(confirmation.task, confirmation.finding)
    return points, "" if finding is None else finding.measured


class Confirmation:
    """The confirmation of one answer, property by property."""

    def __init__(self, host: Host, id: str, code: str, full: list[str]):
        assignment = assignments()[id[:2]]
        self.host, self.code, self.full, self.task = host, code, full, assignment.tasks[id]
        self.named = {task.name: task for task in assignment.tasks.values()}
        master = next(iter(assignment.tasks.values())).namespace["__file__"]
        self.page = without_solutions(Path(master).read_text("utf-8"))

    def finding(self, prop: Property) -> Finding | None:
        """What is wrong with the answer by one property; None if nothing is."""
        inputs = [*self.inputs(prop)]
        request = {
            "page": self.page,
            "task": self.task.id,
            "code": self.code,
            "draws": [choices for choices, *_ in inputs],
            "number": self.task.properties.index(prop),
        }
        messages = self.host.messages(request, SECONDS, patience=3, most=MOST)
        try:
            first = next(messages, None)
            if isinstance(first, dict) and "failed" in first:
                failed = str(first["failed"])[:400]
                return Finding(f"its definitions alone raise {failed}", "an answer")
            replay, subject = self.subject(first)
            if prop.inside:
                return inside_fault(prop, messages)
            return self.first_fault(prop, inputs, replay, subject, messages)
        except Forged as forged:
            return Finding(str(forged), "an answer")
        except Ended as ended:
            how = "did not end" if str(ended) == "limit" else "was ended"
            return Finding(f"its process {how}", "an answer")
        finally:
            with contextlib.suppress(Ended):  # a host answers one request after the other
                for _ in messages:
                    pass

    def inputs(self, prop: Property) -> Iterator[tuple[Any, Draw, Any, Any]]:
        """The inputs of a property: as they are sent, and what the solution shows on them."""
        compared = inspect.isgeneratorfunction(prop.measure)
        for number in range(prop.draws):
            draw = Draw(number)
            if not compared:
                yield number, draw, None, []
                continue
            # The solution makes the choices: replayed before, all of them would be the first.
            solution = guard_answer(self.task, self.task.solution)
            first, error = observe(prop, solution, draw)
            if error is not None:
                raise RuntimeError(f"the solution of {self.task.id} fails on {number}: {error}")
            yield draw.choices, Draw(0, draw.choices), solution, first

    def subject(self, first: Any) -> tuple[Replay, Any]:
        """What takes the place of the answer, by the first message: what kind of thing it is."""
        kinds = first.get("kinds") if isinstance(first, dict) else None
        names = [self.task.name, *self.task.uses]
        if not isinstance(kinds, list) or len(kinds) != len(names):
            raise Forged(FORGED)
        if not all(kind in ALLOWED for kind in kinds):
            raise Forged(FORGED)
        replay = Replay(self.task)
        if not self.task.uses and kinds[0] == "value":
            return replay, decode(first.get("value"))
        if not self.task.uses:
            return replay, replay.make_answer(kinds[0])
        others = []
        for name, kind in zip(names[1:], kinds[1:], strict=True):
            used = self.named[name]
            if used.id in self.full:  # a later cell may have redefined it
                others.append(used.solution)
            elif kind == "value":
                raise Forged(FORGED)
            else:
                replay.task = used
                others.append(replay.make_answer(kind))
        return replay, (decode(first.get("value")), *others)

    def first_fault(
        self, prop: Property, inputs: list, replay: Replay, subject: Any, messages: Iterator
    ) -> Finding | None:
        """What `nmtcourse.homework.trials.outcome` finds, on transcripts."""
        minor = None
        for _, draw, solution, first in inputs:
            finding = self.fault(prop, draw, solution, first, replay, subject, messages)
            if finding is not None and not finding.minor:
                return finding
            minor = minor or finding
        return minor

    def fault(
        self,
        prop: Property,
        draw: Draw,
        solution: Any,
        first: Any,
        replay: Replay,
        subject: Any,
        messages: Iterator,
    ) -> Finding | None:
        """What is wrong on one input, in one of its turns."""
        task = self.task
        careful = guard_answer(task, subject)
        take_turn(replay, messages)
        observations, raised = observe(prop, careful, draw)
        finding = find_fault(task, prop, draw, observations, raised, first or [])
        # The other process has sent all turns: those that decide nothing more are skipped.
        for turn, only in plan_turns(task, prop, draw.choices):
            if finding is not None:
                skip_turn(messages)
                continue
            expected = first
            if turn and solution is not None:
                expected = observe_solution(task, prop, solution, draw, turn, only)
            if expected is None:
                skip_turn(messages)
                continue
            take_turn(replay, messages)
            later = draw.again(turn)
            observations, raised = observe(prop, careful, later, only)
            exact = only is not None
            finding = find_fault(task, prop, later, observations, raised, expected, exact=exact)
        return finding


def inside_fault(prop: Property, messages: Iterator) -> Finding | None:
    """What the process of an answer itself found wrong with how it computes, if anything."""
    count = 0
    for message in messages:
        count += 1
        if not isinstance(message, dict) or not isinstance(message.get("ended"), str):
            raise Forged(FORGED)
        if message["ended"]:
            return Finding(message["ended"][:2000], "an answer")
    if count < prop.draws:
        raise Forged(FORGED)
    return None


def take_turn(replay: Replay, messages: Iterator) -> None:
    """Put the transcript of the next turn into a replay. Raises Forged for anything else."""
    message = next(messages, None)
    if not isinstance(message, dict) or not isinstance(message.get("events"), list):
        raise Forged(FORGED)
    replay.begin(message["events"])
    ended = str(message.get("ended") or "")
    replay.ended = [ended[:2000] or FORGED, "an answer"]


def skip_turn(messages: Iterator) -> None:
    """Leave out the transcript of a turn that decides nothing."""
    next(messages, None)
