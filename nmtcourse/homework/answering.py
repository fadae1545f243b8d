"""Run an answer where neither solutions nor judge are, and send what it does as data.

This is what a fresh process calls (`nmtcourse.homework.apart`) for the points of a class. It gets
the master of an assignment without its solutions, and imports none; under Linux it cannot read
them. What it sends is replayed elsewhere (`nmtcourse.homework.confirming`).
"""

from __future__ import annotations

import contextlib
import linecache
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.limits import Nowhere, Stopped, prepare, undisturbed, within
from nmtcourse.homework.task import SOLUTION, Assignment, Task
from nmtcourse.homework.transcript import Recorder, encode, is_plain_class
from nmtcourse.homework.trials import UNWRITTEN, guard_answer, observe, plan_turns

DEFINED_SECONDS = 120.0  # of processor time for the definitions
PAGE = "homework_without_solutions"
MASTERS = "nmtcourse.homework.masters"
BLANK = r"\1### BEGIN SOLUTION\n\1raise NotImplementedError()\n\1### END SOLUTION\n"
MISTAKES = re.compile(r'(?ms)^( *)mistakes=r?"""\n.*?^\1""",\n')


def without_solutions(source: str) -> str:
    """The source of a master in which nothing is solved, and no mistake is known."""
    return SOLUTION.sub(BLANK, MISTAKES.sub("", source))


def page_of(source: str) -> Assignment:
    """The assignment of a master's source, without a file."""
    page: Any = types.ModuleType(PAGE)
    page.__file__ = f"<{PAGE}>"
    lines = source.splitlines(keepends=True)
    linecache.cache[page.__file__] = (len(source), None, lines, page.__file__)
    sys.modules[PAGE] = page
    exec(compile(source, page.__file__, "exec"), vars(page))
    return page.homework


def answered(
    page: str, task: str, code: str, draws: list[Any] | None, number: int
) -> Iterator[dict[str, Any]]:
    """What the answer to a task does on some inputs of its property with that number.

    First the kind of each answer, or why there is none; then a list of events for each turn of each
    input. An input is a number, or the list of its choices.
    """
    prepare()
    sys.modules[MASTERS] = None  # type: ignore[assignment]  # importing it raises ImportError
    tasks = page_of(page).tasks
    answered_task = tasks[task]
    namespace: dict[str, Any] = {"__name__": "__main__"}
    try:
        with contextlib.redirect_stdout(Nowhere()), within(DEFINED_SECONDS):
            exec(compile(code, "<definitions>", "exec"), namespace)
    except (Exception, Stopped) as error:
        yield {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
        return
    names = [answered_task.name, *answered_task.uses]
    answers = [namespace.get(name) for name in names]
    yield {"kinds": [*map(kind_of, answers)], "value": encode(answers[0])}
    with undisturbed():
        try:
            with within(answered_task.seconds):
                yield from transcripts(tasks, answered_task, answers, draws or [], number)
        except Stopped:
            yield {"events": [], "ended": f"stopped after {answered_task.seconds:g} s"}


def kind_of(answer: Any) -> str:
    """What an answer is: a function, a class, a class of modules, or a value."""
    if not is_plain_class(answer):
        return "function" if callable(answer) else "value"
    import torch

    return "module" if issubclass(answer, torch.nn.Module) else "class"


def transcripts(
    tasks: dict[str, Task], task: Task, answers: list[Any], draws: list[Any], number: int
) -> Iterator[dict[str, Any]]:
    """The events of each turn of some inputs, and what ended a turn."""
    prop, recorder = task.properties[number], Recorder(task)
    subject = recorder.wrap_answer(answers[0])
    if task.uses:
        others = []
        for name, answer in zip(task.uses, answers[1:], strict=True):
            recorder.task = next(used for used in tasks.values() if used.name == name)
            others.append(recorder.wrap_answer(answer))
        subject = (subject, *others)
    for number_or_choices in draws:
        choices = None
        if isinstance(number_or_choices, list):
            choices = number_or_choices
            draw = Draw(0, choices)
        else:
            draw = Draw(number_or_choices)
        careful = guard_answer(task, subject)
        # None is the first turn; which others there are hangs on the choices that it makes.
        plan: list[tuple[int, int | None] | None] = [None]
        while plan:
            turn = plan.pop(0)
            recorder.begin([])
            if turn is None:
                _, raised = observe(prop, careful, draw)
                if choices is not None:  # also those of the part that an error has cut off
                    draw.choices = choices
                plan = [*plan_turns(task, prop, draw.choices)]
            else:
                values, only = turn
                _, raised = observe(prop, careful, draw.again(values), only)
            ended = "" if raised is None else raised.measured[:2000]
            yield {"events": recorder.events, "ended": ended}
            # The property does not hold; or a check has called a solution, which is a stub here.
            if turn is None and ended and not draw.half and UNWRITTEN not in ended:
                return
