"""Name the known mistake that does what an answer does, and tell answers that do the same."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import replace
from typing import Any

import torch

from nmtcourse.homework import trials
from nmtcourse.homework.compare import Finding, same, short
from nmtcourse.homework.inputs import HALVES, Draw
from nmtcourse.homework.limits import Stopped, within
from nmtcourse.homework.task import Property, Task
from nmtcourse.homework.trials import PLACE, Outcome, Trial

HANGS = 3.0  # seconds of processor time on one input, after which an answer is not tried again
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?|nan|inf")


def diagnose(task: Task, prop: Property, answer: Any, outcomes: list[Outcome]) -> str:
    """The one known mistake that gives the same results as an answer wherever it was tried, or ''.

    The last of the `outcomes` is that of `prop`, the others those of the properties before it.
    Raises Stopped if the answer hangs on an input.
    """
    # Pairs of a property and a trial: the last two inputs, on which the answer failed, four fresh
    # ones, and some of the properties before, which hold.
    tests = [(prop, trial) for trial in outcomes[-1].trials[:-3:-1]]
    tests += [(prop, try_answer(task, prop, answer, Draw(number))) for number in range(60, 64)]
    for earlier, result in list(zip(task.properties, outcomes, strict=False))[:-1]:
        tests += [(earlier, trial) for trial in result.trials[:4]]

    def agrees(mistake: str, pairs: list[tuple[Property, Trial]]) -> bool:
        """Whether a mistake does what the answer did in some trials."""
        wrong = task.wrong[mistake]
        return all(
            same_behaviour(try_answer(task, tested, wrong, Draw(0, trial.choices)), trial)
            for tested, trial in pairs
        )

    likely = [mistake for mistake in task.mistakes if agrees(mistake, tests)]
    if likely:  # what names a cause does as the answer does on thirty inputs at least
        inputs = [(tested, number) for tested in task.properties for number in range(64, 74)]
        inputs += [(prop, number) for number in range(74, 104)]
        more = [
            (tested, try_answer(task, tested, answer, Draw(number))) for tested, number in inputs
        ]
        likely = [mistake for mistake in likely if agrees(mistake, more)]
    return likely[0] if len(likely) == 1 else ""


def try_answer(task: Task, prop: Property, answer: Any, draw: Draw) -> Trial:
    """What is wrong with an answer on one input. Raises Stopped if it hangs there."""
    with within(HANGS):
        return trials.try_answer(task, prop, answer, draw)


def behaviour(task: Task, answer: Any) -> str:
    """A digest of the wrong numbers that an answer gives on many inputs; '' if there are few.

    Two answers that agree in it are wrong in the same way, however they are written.
    """
    inputs = [(replace(p, again=False), n) for p in task.properties for n in range(200, 212)]
    try:
        tested = [try_answer(task, prop, answer, Draw(number)) for prop, number in inputs]
    except Stopped:
        return ""  # how far it came depends on the machine
    wrong = []
    for trial in tested:
        if trial.finding is not None and trial.observations:
            values = [short(_coarse(observation.value)) for observation in trial.observations]
            wrong.append(repr(values))
    if len(wrong) <= 3:
        return ""
    return hashlib.sha256(repr(wrong).encode()).hexdigest()[:16]


def _coarse(value: Any) -> Any:
    """A value up to rounding, a tensor by its shape and two sums; halves round too much."""
    if isinstance(value, torch.Tensor):
        x = value.detach().double().nan_to_num(0, 1, -1).flatten()
        waves = torch.arange(len(x), dtype=torch.float64).sin()
        sums = []
        if value.dtype not in HALVES:
            sums = [float(x.sum()), float(x @ waves)]
        return [tuple(value.shape), *map(_coarse, sums)]
    if isinstance(value, list | tuple):
        return [*map(_coarse, value)]
    if isinstance(value, float):
        return round(value, 2) + 0.0  # -0.0 becomes 0.0
    return value


def same_behaviour(first: Trial, second: Trial) -> bool:
    """Whether two answers gave the same on one input.

    Rounding, lines of code and the names of arguments may differ.
    """
    if first.finding is None or second.finding is None:
        return first.finding is second.finding
    first_text, second_text = map(_measured_alone, (first.finding, second.finding))
    if NUMBER.sub("", first_text) != NUMBER.sub("", second_text):
        return False
    if len(first.observations) != len(second.observations):
        return False
    numbers = zip(NUMBER.findall(first_text), NUMBER.findall(second_text), strict=True)
    if not all(_close(float(a), float(b)) for a, b in numbers):
        return False
    try:
        for mine, theirs in zip(first.observations, second.observations, strict=True):
            same(mine.value, theirs.value, mine.what, tolerance=theirs.tolerance or 2e-3)
    except Finding:
        return False
    return True


def _measured_alone(finding: Finding) -> str:
    """What was measured, without the arguments of the call and the line that raised an error."""
    return finding.measured.replace(finding.given, "", 1).partition(PLACE)[0]


def _close(a: float, b: float) -> bool:
    both_nan = a != a and b != b
    return a == b or math.isclose(a, b, rel_tol=2e-3) or both_nan
