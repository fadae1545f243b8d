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
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils._pytree import tree_map

from nmtcourse.homework.compare import Finding, Forged, Shown, described, same
from nmtcourse.homework.inputs import Draw, shrink
from nmtcourse.homework.laws import (
    Call,
    Careful,
    CarefulClass,
    describe,
    describe_error,
    methods_of,
)
from nmtcourse.homework.limits import Stopped, within
from nmtcourse.homework.task import Property, Task

UNWRITTEN = "nothing is written here yet"
UNSUPPORTED = re.compile("not implemented for|unsupported ScalarType")  # in a library
AGAIN = "called again with other values, "
ROUGHER = 6  # inputs after the first wrong number, among which an error or a shape is looked for
HANGS = 10.0  # seconds of processor time on one input, after which an answer is stopped


@dataclass
class Observation:
    """What it is, its value, how exact it must be, and the arguments of the call, or their text.

    `moved` is how far the solution's value moves if its input does by a few units in the last
    place; a value that is none in that case decides nothing.
    """

    what: str
    value: Any
    tolerance: float
    arguments: dict[str, Any] | str
    calls: list[Call] = field(default_factory=list)
    moved: float = 0.0

    def about(self) -> str:
        """The arguments of the call in words."""
        if isinstance(self.arguments, str):
            return self.arguments
        return described(self.arguments)


@dataclass
class Trial:
    """An answer on one input: the choices that give it, and what is wrong."""

    choices: list[int]
    finding: Finding | None


@dataclass
class Outcome:
    """What a check has found: the simplest fault, and all trials.

    If the answer `hangs`, nothing runs it again.
    """

    finding: Finding | None = None
    trials: list[Trial] = field(default_factory=list)
    hangs: bool = False


Turn = tuple[list[Observation], Finding | None]


class Run(Protocol):
    """An answer on one input: each turn gives what a check has seen, and what was raised."""

    def turn(self, draw: Draw, only: int | None = None) -> Turn:
        """One run of the check."""

    def skip(self) -> None:
        """Leave out a turn, which decides nothing."""


class Answer(Protocol):
    """An answer that is judged, wherever it runs.

    `tells_calls` is False where the calls of an answer are only told if they are asked for.
    """

    task: Task
    tells_calls: bool

    def limited(self, seconds: float) -> AbstractContextManager[None]:
        """Raise Stopped if the answer computes for longer than some seconds within."""

    def run(self, prop: Property, calls: bool = False) -> Run:
        """The answer, as new, for a property; with its `calls` for a report."""

    def paste(self, lines: Sequence[str]) -> tuple[Any, str]:
        """The value of the last of some lines, and the exception that they raise, as text."""


class LiveAnswer:
    """An answer in this process: that of a notebook. `others` are those that a choice uses."""

    tells_calls = True

    def __init__(self, task: Task, answer: Any, others: tuple = ()):
        self.task, self.answer = task, answer
        self.subject = (answer, *others) if task.uses else answer

    def limited(self, seconds: float) -> AbstractContextManager[None]:
        return within(seconds)

    def run(self, prop: Property, calls: bool = False) -> Run:
        return LiveRun(self.task, prop, self.subject)

    def paste(self, lines: Sequence[str]) -> tuple[Any, str]:
        return run_lines(lines, {self.task.name: self.answer})


class LiveRun:
    """A run in this process, under the laws."""

    def __init__(self, task: Task, prop: Property, subject: Any):
        self.prop, self.subject = prop, guard_answer(task, subject)

    def turn(self, draw: Draw, only: int | None = None) -> Turn:
        return observe(self.prop, self.subject, draw, only)

    def skip(self) -> None:
        """Nothing: the answer is not run."""


def run_lines(lines: Sequence[str], namespace: dict[str, Any]) -> tuple[Any, str]:
    """The value of the last of some lines, without what it says after the call.

    Instead of a value they may raise an exception, which is returned as text.
    """
    *first, last = lines
    code = last.partition("  # ")[0]
    namespace = {"torch": torch, **namespace}
    try:
        exec("\n".join(first), namespace)
        if code.startswith("m = "):
            exec(code, namespace)
            return None, ""
        return eval(code, namespace), ""
    except Exception as error:
        return None, describe(error)


def outcome(prop: Property, answer: Answer) -> Outcome:
    """The simplest fault that a property finds in an answer."""
    result = Outcome()
    task = answer.task
    limit = task.seconds
    try:
        with answer.limited(task.seconds):
            for number in range(prop.draws):
                limit = min(HANGS, task.seconds)
                with answer.limited(limit):
                    trial = try_answer(prop, answer, Draw(number))
                limit = task.seconds  # of all inputs: what stops the answer between two of them
                result.trials.append(trial)
                if trial.finding is None:
                    continue
                result.finding = trial.finding
                if not trial.finding.minor:
                    find_rougher(prop, answer, result, number)
                    _simplify(prop, answer, result)
                    break
            ask_for_calls(prop, answer, result)
    except Stopped:
        result.hangs = True
        if result.finding is None:
            cause = "An endless loop, or a Python loop over every number."
            stopped = f"stopped after {limit:g} s"
            result.finding = Finding(stopped, "an answer in much less", cause)
            result.trials = []
    return result


def find_rougher(prop: Property, answer: Answer, result: Outcome, number: int) -> None:
    """Of several wrong inputs, take one that raises an error or gives a wrong shape."""
    later = range(number + 1, min(number + 1 + ROUGHER, prop.draws))
    for other in later:
        if result.finding is None or result.finding.is_rough:
            return
        trial = try_answer(prop, answer, Draw(other))
        if trial.finding is not None and trial.finding.is_rough and not trial.finding.minor:
            result.finding = trial.finding
            result.trials.append(trial)


def _simplify(prop: Property, answer: Answer, result: Outcome) -> None:
    """Shrink the input of the last trial, in turn 0 or 1 as it failed."""

    def fails(choices: list[int]) -> Trial | None:
        trial = try_answer(prop, answer, Draw(0, choices))
        if trial.finding is None or trial.finding.measured == UNWRITTEN:
            return None
        if is_rough and not trial.finding.is_rough:
            return None
        return trial

    if result.finding is None or result.finding.measured == UNWRITTEN or not prop.shrinks:
        return
    is_rough = result.finding.is_rough
    simplest = shrink(result.trials[-1].choices, fails)
    if simplest is not None:
        result.trials.append(simplest)
        result.finding = simplest.finding


def ask_for_calls(prop: Property, answer: Answer, result: Outcome) -> None:
    """Try the reported input once more, with the calls that a report shows."""
    finding = result.finding
    if answer.tells_calls or finding is None or finding.measured == UNWRITTEN:
        return
    choices = next(trial.choices for trial in result.trials if trial.finding is finding)
    told = try_answer(prop, answer, Draw(0, choices), calls=True)
    if told.finding is not None:
        result.trials.append(told)
        result.finding = told.finding


# One input, for a property that compares `masked_attention(scores, mask)` with the solution:
#
#     turn 0            scores 0, mask 0      the answer must agree with the solution
#     turn 1, only      scores 1, mask 0      only one argument is new: is the other looked at?
#     turn 1            scores 1, mask 1      the same objects with other numbers
#     turn 0            scores 0, mask 0      once more: nothing of turn 1 may be left
#
# The solution goes through the same turns before the answer. A fault in a later turn is reported as
# that of a first call if a fresh answer has it too: that is the simpler thing to tell.
def try_answer(prop: Property, answer: Answer, draw: Draw, calls: bool = False) -> Trial:
    """What is wrong with an answer on one input, and when it is called again.

    The later turns have other values of the same sizes, in some inputs at first for one argument
    alone, and then those of the first turn once more.
    """
    task = answer.task
    run = answer.run(prop, calls)
    solution = guard_answer(task, task.solution, watched=False)
    is_compared = inspect.isgeneratorfunction(prop.measure)
    first = draw
    expected_at_first: list[Observation] = []
    if is_compared:  # the solution makes the choices, also those that an error would cut off
        expected_at_first = observe_solution(task, prop, solution, draw) or []
        first = draw.again(draw.turn)
    observations, raised = run.turn(first)
    if raised is not None and raised.measured == UNWRITTEN:
        return Trial(draw.choices, raised)
    finding = find_fault(task, prop, draw, draw.turn, observations, raised, expected_at_first)
    for turn, only in plan_turns(task, prop, draw.choices):
        if finding is not None:
            break
        later = draw.again(turn)
        expected: list[Observation] | None = expected_at_first
        if turn and is_compared:
            expected = observe_solution(task, prop, solution, draw.again(turn), only)
        if expected is None:
            run.skip()
            continue
        of_turn, raised = run.turn(later, only)
        exact = only is not None
        finding = find_fault(task, prop, draw, turn, of_turn, raised, expected, exact=exact)
        if finding is not None:
            first_fault = try_as_first_call(prop, answer, draw, turn, calls)
            finding = first_fault or as_later_call(finding)
    return Trial(draw.choices, finding)


def plan_turns(task: Task, prop: Property, choices: list[int]) -> list[tuple[int, int | None]]:
    """The turns after the first: which values, and a number if they are for one argument alone.

    The number says which argument. It hangs on the choices of the input, so that a process that
    replays an answer makes the same plan.
    """
    is_compared = inspect.isgeneratorfunction(prop.measure)
    if not (prop.again and (prop.shrinks or is_compared)):
        return []
    total = sum(choices)
    plan: list[tuple[int, int | None]] = [(1, None), (0, None)]
    if prop.plain and len(task.signature) > 1 and total % 2 == 0:
        plan.insert(0, (1, total // 2))
    return plan


def find_fault(
    task: Task,
    prop: Property,
    draw: Draw,
    turn: int,
    observations: list[Observation],
    raised: Finding | None,
    expected: list[Observation],
    exact: bool = False,
) -> Finding | None:
    """What is wrong with observations, beyond what a few units in the last place of the input do.

    How far these move the solution is measured where something differs, unless `exact`.
    """
    finding = find_difference(observations, raised, expected, draw)
    if finding is None or not expected or exact:
        return finding
    near = draw.again(turn, jitter=True)
    moved, _ = observe(prop, guard_answer(task, task.solution, watched=False), near)
    for observation, moved_one in zip(expected, moved, strict=False):
        observation.moved = distance(observation.value, moved_one.value)
    return find_difference(observations, raised, expected, draw)


def as_later_call(finding: Finding) -> Finding:
    """A finding of a later call, which a first one would not give."""
    finding.measured = AGAIN + finding.measured
    return finding


def try_as_first_call(
    prop: Property, answer: Answer, draw: Draw, turn: int, calls: bool = False
) -> Finding | None:
    """What is wrong with an answer on the input of a later turn if it is the first."""
    task = answer.task
    first = draw.again(turn)
    expected: list[Observation] = []
    if inspect.isgeneratorfunction(prop.measure):
        solution = guard_answer(task, task.solution, watched=False)
        expected = observe_solution(task, prop, solution, draw.again(turn)) or []
    observations, raised = answer.run(prop, calls).turn(first)
    return find_fault(task, prop, draw, turn, observations, raised, expected)


def observe_solution(
    task: Task, prop: Property, solution: Any, draw: Draw, only: int | None = None
) -> list[Observation] | None:
    """What the solution shows on an input; None if it has no result for mixed arguments."""
    observations, error = observe(prop, solution, draw, only)
    if error is not None and only is not None:
        return None
    if error is not None:
        raise RuntimeError(f"the solution of {task.id} fails on {draw.choices}: {error}")
    return observations


def distance(first: Any, second: Any) -> float:
    """How far the numbers of two values are apart; infinite if they differ in anything else."""
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        if len(first) != len(second):
            return math.inf
        return max(map(distance, first, second), default=0.0)
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        return max((distance(first[key], second[key]) for key in first), default=0.0)
    if isinstance(first, float) and isinstance(second, float):
        gap = abs(first - second)
        return gap if math.isfinite(gap) else 0.0
    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        if first.shape != second.shape:
            return math.inf
        if not first.is_floating_point():
            return 0.0 if torch.equal(first, second) else math.inf
        gaps = (first.double() - second.double()).abs().nan_to_num(0, 0, 0)
        return float(gaps.max()) if gaps.numel() else 0.0
    if type(first) is type(second) and bool(first == second):
        return 0.0
    return math.inf


def find_difference(
    observations: list[Observation],
    raised: Finding | None,
    expected: list[Observation],
    draw: Draw,
) -> Finding | None:
    """The first difference between two lists of observations, or what was raised.

    A minor one counts if there is no other.
    """
    minor = None
    for observation, of_solution in zip(observations, expected, strict=False):
        try:
            same(
                observation.value,
                of_solution.value,
                observation.what,
                tolerance=of_solution.tolerance,
                moved=of_solution.moved,
            )
        except Finding as finding:
            finding = with_arguments(finding, observation.about())
            finding.shown = Shown(observation.what, observation.value, observation.calls)
            if not finding.minor:
                return finding
            minor = minor or finding
    if raised is not None and draw.half and UNSUPPORTED.search(raised.measured):
        return None
    if raised is None and len(observations) != len(expected):
        return Finding(f"{len(observations)} results", f"{len(expected)}")
    return raised or minor


def observe(
    prop: Property, subject: Any, draw: Draw, only: int | None = None
) -> tuple[list[Observation], Finding | None]:
    """What a check shows of an answer, and what was raised."""
    observations: list[Observation] = []
    if isinstance(subject, Careful):
        subject.begin_turn(only)
    try:
        for seed in (torch.default_generator.manual_seed, random.seed, np.random.seed):
            seed(draw.value_seed % 2**32)
        for what, value, *tolerance in prop.measure(subject, draw) or ():
            # A copy: the check goes on with the tensor, and may spoil it.
            value = tree_map(lambda x: x.detach().clone() if torch.is_tensor(x) else x, value)
            exactness = tolerance[0] if tolerance else 0.0
            observations.append(
                Observation(what, value, exactness, arguments_of(subject), calls_of(subject))
            )
        if isinstance(subject, Careful):
            subject.end_turn()
    except Finding as finding:
        finding.shown = Shown("", None, calls_of(subject))
        return observations, with_arguments(finding, described(arguments_of(subject)))
    except (Stopped, Forged, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit as well would end the reader's kernel
        if isinstance(error, NotImplementedError) and not str(error):  # torch's own have a text
            stub = Finding(UNWRITTEN, "an answer", "Part of it is still a stub.")
            return observations, stub
        raised = Finding(describe_error(error), "a result")
        raised.usual = advise_on(error, getattr(subject, "function", subject))
        raised.shown = Shown("", None, calls_of(subject))
        return observations, with_arguments(raised, described(arguments_of(subject)))
    return observations, None


def guard_answer(task: Task, answer: Any, watched: bool = True) -> Any:
    """An answer under the guards of its task; one that may change things, or a value, as it is.

    If it is not `watched`, only what it is called with is as for others.
    """
    if not task.pure or not callable(answer):
        return answer
    if inspect.isclass(answer):
        return CarefulClass(answer, methods_of(task.solution), watched)
    return Careful(answer, task.forbidden, task.sealed, task.seeded, task.changes, watched)


def arguments_of(subject: Any) -> dict[str, Any]:
    """The arguments of the last call."""
    if isinstance(subject, Careful):
        return subject.arguments
    return {}


def calls_of(subject: Any) -> list[Call]:
    """The calls so far."""
    if isinstance(subject, Careful):
        return [*subject.history]
    return []


def with_arguments(finding: Finding, about: str) -> Finding:
    """The finding together with the arguments of the call in words."""
    if about and not finding.measured.startswith(("for ", UNWRITTEN)):
        finding.given = f"for {about}: "
        finding.measured = finding.given + finding.measured
    return finding


def advise_on(error: BaseException, answer: Any) -> str:
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
