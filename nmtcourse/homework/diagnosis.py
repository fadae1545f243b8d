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


def diagnose(task: Task, prop: Property, answer: Any, found: list[Outcome]) -> str:
    """The one known mistake that gives the same results as an answer wherever it was tried, or ''.

    The last of `found` is the outcome of `prop`, the others those of the properties before it.
    Raises Stopped if the answer hangs on an input.
    """
    numbered = [*zip(task.properties, found, strict=False)]
    tests = [(prop, trial) for trial in found[-1].trials[:-3:-1]]
    tests += [(prop, tried(task, prop, answer, Draw(number))) for number in range(60, 64)]
    tests += [(each, trial) for each, one in numbered[:-1] for trial in one.trials[:4]]

    def agrees(about: str, pairs: list[tuple[Property, Trial]]) -> bool:
        return all(
            alike(tried(task, each, task.wrong[about], Draw(0, trial.choices)), trial)
            for each, trial in pairs
        )

    likely = [about for about in task.mistakes if agrees(about, tests)]
    if likely:  # what names a cause does as the answer does on thirty inputs at least
        fresh = [(p, Draw(number)) for p in task.properties for number in range(64, 74)]
        fresh += [(prop, Draw(number)) for number in range(74, 104)]
        more = [(p, tried(task, p, answer, draw)) for p, draw in fresh]
        likely = [about for about in likely if agrees(about, more)]
    return likely[0] if len(likely) == 1 else ""


def tried(task: Task, prop: Property, answer: Any, draw: Draw) -> Trial:
    """What is wrong with an answer on one input. Raises Stopped if it hangs there."""
    with within(HANGS):
        return trials.tried(task, prop, answer, draw)


def behaviour(task: Task, answer: Any) -> str:
    """A digest of the wrong numbers that an answer gives on many inputs; '' if there are few.

    Two answers that agree in it are wrong in the same way, however they are written.
    """
    numbered = [(replace(p, again=False), n) for p in task.properties for n in range(200, 212)]
    try:
        every = [tried(task, p, answer, Draw(number)) for p, number in numbered]
    except Stopped:
        return ""  # how far it came depends on the machine
    bad = [trial.seen for trial in every if trial.finding is not None and trial.seen]
    wrong = [repr([short(_coarse(each.value)) for each in seen]) for seen in bad]
    return hashlib.sha256(repr(wrong).encode()).hexdigest()[:16] if len(wrong) > 3 else ""


def _coarse(value: Any) -> Any:
    """A value up to rounding, a tensor by its shape and two sums; halves round too much."""
    if isinstance(value, torch.Tensor):
        x = value.detach().double().nan_to_num(0, 1, -1).flatten()
        waves = torch.arange(len(x), dtype=torch.float64).sin()
        sums = [] if value.dtype in HALVES else [float(x.sum()), float(x @ waves)]
        return [tuple(value.shape), *map(_coarse, sums)]
    if isinstance(value, list | tuple):
        return [_coarse(each) for each in value]
    return round(value, 2) + 0.0 if isinstance(value, float) else value


def alike(one: Trial, other: Trial) -> bool:
    """Whether two answers gave the same on one input.

    Rounding, lines of code and the names of arguments may differ.
    """
    if one.finding is None or other.finding is None:
        return one.finding is other.finding
    texts = [
        found.measured.replace(found.given, "", 1).partition(PLACE)[0]
        for found in (one.finding, other.finding)
    ]
    if NUMBER.sub("", texts[0]) != NUMBER.sub("", texts[1]) or len(one.seen) != len(other.seen):
        return False
    pairs = zip(*(map(float, NUMBER.findall(text)) for text in texts), strict=True)
    if not all(a == b or math.isclose(a, b, rel_tol=2e-3) or a != a and b != b for a, b in pairs):
        return False
    try:
        for mine, theirs in zip(one.seen, other.seen, strict=True):
            same(mine.value, theirs.value, mine.what, tolerance=theirs.tolerance or 2e-3)
    except Finding:
        return False
    return True
