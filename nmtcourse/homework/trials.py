"""Generate inputs for a check, find one where an answer is wrong, and shrink it.

A check that yields what it observes, as pairs of a description and a value, is run with the answer
and with the solution on the same input, and the observations are compared. A check that yields
nothing raises `Finding` itself.
"""

from __future__ import annotations

import inspect
import math
import random
import re
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map

from nmtcourse.homework.compare import Finding, Forged, described, same
from nmtcourse.homework.inputs import Draw, shrink
from nmtcourse.homework.laws import Careful, CarefulClass, methods_of
from nmtcourse.homework.limits import Stopped, within
from nmtcourse.homework.task import Property, Task

UNWRITTEN = "nothing is written here yet"
UNSUPPORTED = re.compile("not implemented for|unsupported ScalarType")  # in a library
OURS = [Path(__file__).parents[2] / name for name in ("nmtlib", "nmtcheck", "nmtcourse")]
PLACE = ", in line "
AGAIN = "called again with other values, "
HANGS = 10.0  # seconds of processor time on one input, after which an answer is stopped


@dataclass
class Seen:
    """An observation: what it is, its value, how exact it must be, the arguments of the call.

    `moved` is how far the solution's value moves if its input does by a few units in the last
    place; a value that is none in that case decides nothing.
    """

    what: str
    value: Any
    tolerance: float
    given: dict[str, Any]
    moved: float = 0.0


@dataclass
class Trial:
    """An answer on one input: the choices that give it, what is wrong, and all that was seen."""

    choices: list[int]
    finding: Finding | None
    seen: list[Seen] = field(default_factory=list)


@dataclass
class Outcome:
    """What a check has found: the simplest fault, and trials that tell mistakes apart.

    If the answer `hangs`, nothing runs it again.
    """

    finding: Finding | None = None
    trials: list[Trial] = field(default_factory=list)
    hangs: bool = False


def outcome(task: Task, prop: Property, answer: Any) -> Outcome:
    """The simplest fault that a property finds in an answer."""
    found, limit = Outcome(), task.seconds
    try:
        with within(task.seconds):
            for number in range(prop.draws):
                limit = min(HANGS, task.seconds)
                with within(limit):
                    trial = tried(task, prop, answer, Draw(number))
                limit = task.seconds
                found.trials.append(trial)
                if trial.finding is not None:
                    found.finding = trial.finding
                    if not trial.finding.minor:
                        _simplify(task, prop, answer, found)
                        break
    except Stopped:
        found.hangs = True
        if found.finding is None:
            cause = "An endless loop, or a Python loop over every number."
            stopped = f"stopped after {limit:g} s"
            found.finding, found.trials = Finding(stopped, "an answer in much less", cause), []
    return found


def _simplify(task: Task, prop: Property, answer: Any, found: Outcome) -> None:
    """Shrink the input of the last trial, in turn 0 or 1 as it failed."""

    def fails(choices: list[int]) -> Trial | None:
        trial = tried(task, prop, answer, Draw(0, choices))
        if trial.finding is None or trial.finding.measured == UNWRITTEN:
            return None
        return trial

    if found.finding is None or found.finding.measured == UNWRITTEN or not prop.shrinks:
        return
    simplest = shrink(found.trials[-1].choices, fails)
    if simplest is not None:
        found.trials.append(simplest)
        found.finding = simplest.finding


def tried(task: Task, prop: Property, answer: Any, draw: Draw) -> Trial:
    """What is wrong with an answer on one input, and when it is called again.

    The later turns have other values of the same sizes, in some inputs at first for one argument
    alone, and then those of the first turn once more.
    """
    subject, solution = guarded(task, answer), guarded(task, task.solution)
    compared = inspect.isgeneratorfunction(prop.measure)
    every, raised = observed(prop, subject, draw)
    if raised is not None and raised.measured == UNWRITTEN:
        return Trial(draw.choices, raised)
    first = expectation(task, prop, solution, draw, draw.turn) if compared else []
    finding = judged(task, prop, draw, every, raised, first or [])
    only = sum(draw.choices)
    for turn, mixed in turns(prop, prop.plain and len(task.signature) > 1 and only % 2 == 0):
        if finding is not None:
            break
        wanted, one = first, only // 2 if mixed else None
        if turn and compared:
            wanted = expectation(task, prop, solution, draw, turn, one)
        if wanted is None:
            continue
        other = draw.again(turn)
        seen, raised = observed(prop, subject, other, one)
        every = [*every, *seen]
        finding = judged(task, prop, other, seen, raised, wanted, exact=mixed)
        if finding is not None:
            finding = as_first_call(task, prop, answer, draw, turn) or again(finding)
    return Trial(draw.choices, finding, every)


def judged(
    task: Task,
    prop: Property,
    draw: Draw,
    seen: list[Seen],
    raised: Finding | None,
    wanted: list[Seen],
    exact: bool = False,
) -> Finding | None:
    """What is wrong with observations, beyond what a few units in the last place of the input do.

    How far these move the solution is measured where something differs, unless `exact`.
    """
    finding = difference(seen, raised, wanted, draw)
    if finding is None or not wanted or exact:
        return finding
    near = draw.again(draw.turn, jitter=True)
    moved, _ = observed(prop, guarded(task, task.solution), near)
    for one, other in zip(wanted, moved, strict=False):
        one.moved = distance(one.value, other.value)
    return difference(seen, raised, wanted, draw)


def again(finding: Finding) -> Finding:
    """A finding of a later call, which a first one would not give."""
    finding.measured = AGAIN + finding.measured
    return finding


def as_first_call(task: Task, prop: Property, answer: Any, draw: Draw, turn: int) -> Finding | None:
    """What is wrong with an answer on the input of a later turn if it is the first."""
    first, fresh = draw.again(turn), guarded(task, answer)
    seen, raised = observed(prop, fresh, first)
    expected: list[Seen] | None = []
    if inspect.isgeneratorfunction(prop.measure):
        expected = expectation(task, prop, guarded(task, task.solution), draw, turn)
    return judged(task, prop, first, seen, raised, expected or [])


def turns(prop: Property, mixes: bool) -> list[tuple[int, bool]]:
    """The turns after the first: which values, and whether for one argument alone."""
    again = prop.again and (prop.shrinks or inspect.isgeneratorfunction(prop.measure))
    return [(1, True)] * (again and mixes) + [(1, False), (0, False)] * again


def expectation(
    task: Task, prop: Property, solution: Any, draw: Draw, turn: int, only: int | None = None
) -> list[Seen] | None:
    """What the solution shows on an input; None if it has no result for mixed arguments."""
    again = draw.again(turn)
    seen, failed = observed(prop, solution, again, only)
    if failed is not None and only is not None:
        return None
    if failed is not None:
        raise RuntimeError(f"the solution of {task.id} fails on {again.choices}: {failed}")
    draw.choices = again.choices  # also those of the part that an error has cut off
    return seen


def distance(one: Any, other: Any) -> float:
    """How far the numbers of two values are apart; infinite if they differ in anything else."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        parts = [distance(*pair) for pair in zip(one, other, strict=False)]
        return max(parts, default=0.0) if len(one) == len(other) else math.inf
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return max((distance(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) if math.isfinite(one - other) else 0.0
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if one.shape != other.shape or not one.is_floating_point():
            return 0.0 if one.shape == other.shape and torch.equal(one, other) else math.inf
        gap = (one.double() - other.double()).abs().nan_to_num(0, 0, 0)
        return float(gap.max()) if gap.numel() else 0.0
    return 0.0 if type(one) is type(other) and bool(one == other) else math.inf


def difference(
    seen: list[Seen], raised: Finding | None, expected: list[Seen], draw: Draw
) -> Finding | None:
    """The first difference between two lists of observations, or what was raised."""
    minor = None
    for one, other in zip(seen, expected, strict=False):
        try:
            same(one.value, other.value, one.what, tolerance=other.tolerance, moved=other.moved)
        except Finding as finding:
            minor = minor or placed(finding, one.given)
            if not finding.minor:
                return placed(finding, one.given)
    if raised is not None and draw.half and UNSUPPORTED.search(raised.measured):
        return None
    if raised is None and len(seen) != len(expected):
        return Finding(f"{len(seen)} results", f"{len(expected)}")
    return raised or minor


def observed(
    prop: Property, subject: Any, draw: Draw, only: int | None = None
) -> tuple[list[Seen], Finding | None]:
    """What a check shows of an answer, and what was raised."""
    seen: list[Seen] = []
    if isinstance(subject, Careful):
        subject.calls, subject.only = [], only
    try:
        for seeded in (torch.default_generator.manual_seed, random.seed, np.random.seed):
            seeded(draw.value_seed % 2**32)
        for what, value, *tolerance in prop.measure(subject, draw) or ():
            value = tree_map(lambda x: x.detach().clone() if torch.is_tensor(x) else x, value)
            seen.append(Seen(what, value, (*tolerance, 0.0)[0], given_to(subject)))
        if isinstance(subject, Careful):
            subject.settle()
    except Finding as finding:
        return seen, placed(finding, given_to(subject))
    except (Stopped, Forged, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit as well would end the reader's kernel
        if isinstance(error, NotImplementedError) and not str(error):  # torch's own have a text
            return seen, Finding(UNWRITTEN, "an answer", "Part of it is still a stub.")
        raised = Finding(told(error), "a result")
        raised.usual = reason(error, getattr(subject, "function", subject))
        return seen, placed(raised, given_to(subject))
    return seen, None


def guarded(task: Task, answer: Any) -> Any:
    """An answer under the guards of its task; one that may change things, or a value, as it is."""
    if not task.pure or not callable(answer):
        return answer
    if inspect.isclass(answer):
        return CarefulClass(answer, methods_of(task.solution))
    return Careful(answer, task.forbidden, task.sealed, task.seeded, task.changes)


def given_to(subject: Any) -> dict[str, Any]:
    """The arguments of the last call."""
    return subject.given if isinstance(subject, Careful) else {}


def placed(finding: Finding, given: dict[str, Any]) -> Finding:
    """The finding together with the arguments of the call."""
    about = described(given)
    if about and not finding.measured.startswith(("for ", UNWRITTEN)):
        finding.given = f"for {about}: "
        finding.measured = finding.given + finding.measured
    return finding


def told(error: BaseException) -> str:
    """An exception in one line, with the line of the student's code that raised it."""
    said = next(iter(str(error).strip().splitlines()), "")[:200]
    return f"{type(error).__name__}: {said}{place_in(error)}"


def place_in(error: BaseException) -> str:
    """The line and function of a student's code that raised an exception, or ''."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not {*OURS} & {*Path(frame.filename).parents}]
    foreign = ("site-packages", "<frozen ", str(Path(traceback.__file__).parent))
    own = [frame for frame in outside if not any(part in frame.filename for part in foreign)]
    return f"{PLACE}{own[-1].lineno} of {own[-1].name}" if own else ""


def reason(error: BaseException, answer: Any) -> str:
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
