"""Run a student's cells and answers where neither solutions nor judge are, and send what they do.

A `Keeper` is a copy of a process that has not imported the masters. It cannot read them under
Linux, and starts copies of itself in which the code of a student runs, a new one where that has
ended. Such a copy answers requests, each a dictionary, with one message of data:

    {"do": "open", "page": "..."}                           takes a page without solutions
    {"do": "run", "source": "import math", "seconds": 60}   runs a cell
    {"do": "begin", "task": "04.1", "solved": []}           looks for an answer
    {"do": "try", "number": 0, "draw": [3, 0, 1], ...}      runs a check on an input
    {"do": "go on", "turns": [[1, null]], ...}              and with other values
    {"do": "paste", "lines": ["f(1)"], ...}                 runs the lines of a report
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nmtcourse.homework
from nmtcheck.report.apart import Child, Ended
from nmtcourse.homework import masters
from nmtcourse.homework.compare import Finding
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.limits import Nowhere, Stopped, prepare, undisturbed, within
from nmtcourse.homework.lines import arguments_of_call
from nmtcourse.homework.task import SOLUTION, Assignment, Property
from nmtcourse.homework.transcript import (
    Recorder,
    encode,
    encode_calls,
    encode_finding,
    is_plain_class,
)
from nmtcourse.homework.trials import Observation, guard_answer, observe, run_lines
from nmtcourse.homework.walls import hide

MOST_OF_ALL = 2**28  # bytes of an answer
PAGE = "homework_without_solutions"
MASTERS = "nmtcourse.homework.masters"
BLANK = r"\1### BEGIN SOLUTION\n\1raise NotImplementedError()\n\1### END SOLUTION\n"
MISTAKES = re.compile(r'(?ms)^( *)mistakes=r?"""\n.*?^\1""",\n')
Message = dict[str, Any]


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


def hidden_places() -> list[Path]:
    """The folders with solutions."""
    package = Path(masters.__path__[0])
    pages = package.parents[2] / "notebooks" / "homework"  # in a copy of the project
    places = [package, pages / "solutions-spoilers", pages / "nbgrader" / "source"]
    return [place for place in places if place.is_dir()]


class Keeper:
    """Starts the process of a student's code, and a new one where it has ended."""

    child: Child | None = None

    def work(self, request: Message) -> Iterator[Message]:
        """What that process answers, or how it has `ended` within a limit of processor time."""
        if self.child is None:
            for place in hidden_places():
                hide(place)
            self.child = Child(Student().work)
        try:
            yield from self.child.messages(request["ask"], request["limit"], most=MOST_OF_ALL)
        except Ended as ended:
            yield {"ended": str(ended)}


class Student:
    """The process of a student's code: a shell for the cells, and the answer that is judged."""

    shell: Any = None

    def work(self, request: Message) -> Iterator[Message]:
        """The answer to a request, and the seconds of processor time that it took."""
        if self.shell is None:
            prepare()
            sys.modules[MASTERS] = None  # type: ignore[assignment]  # to import it is an error
            self.shell = new_shell()
            nmtcourse.homework.given = self.given
        begun = time.process_time()
        requests: dict[str, Callable[..., Message]] = {
            "open": self.open_page,
            "run": self.run_cell,
            "begin": self.begin,
            "try": self.try_input,
            "go on": self.go_on,
            "paste": self.paste,
        }
        parts = {name: value for name, value in request.items() if name != "do"}
        answer = requests[request["do"]](**parts)
        yield answer | {"seconds": time.process_time() - begun}

    def run_cell(self, source: str, seconds: float) -> Message:
        """Run a cell; gives a notice if it raises an error or takes too long."""
        sys.stdout = sys.stderr = Nowhere()
        try:
            with within(seconds):
                result = self.shell.run_cell(source, store_history=False)
            error = result.error_before_exec or result.error_in_exec
        except BaseException as raised:  # whatever a cell has done to the shell
            error = raised
        if error is None:
            return {}
        message = (str(error).splitlines() or [""])[0][:300]
        why = f"{type(error).__name__}: {message}"
        if isinstance(error, Stopped | KeyboardInterrupt):
            why = f"stopped after {seconds:g} s"
        return {"notice": why.encode("utf-8", "backslashreplace").decode()}

    def open_page(self, page: str) -> Message:
        """Take the source of a master without solutions."""
        self.tasks = page_of(page).tasks
        return {}

    def begin(self, task: str, solved: list[str]) -> Message:
        """Look for the answer to a task, and for those that a choice uses, unless `solved`."""
        self.task = self.tasks[task]
        names = [self.task.name, *self.task.uses]
        missing = [name for name in names if name not in self.shell.user_ns]
        if missing:
            return {"missing": missing[0]}
        answers = [self.shell.user_ns[name] for name in names]
        self.recorder = recorder = Recorder(self.task)
        self.answer = self.subject = answers[0]
        self.recorded = recorder.wrap_answer(answers[0])
        if self.task.uses:
            others = []
            for name, answer in zip(self.task.uses, answers[1:], strict=True):
                recorder.task = next(used for used in self.tasks.values() if used.name == name)
                others.append(answer if name in solved else recorder.wrap_answer(answer))
            self.recorded = (self.recorded, *others)
        return {"kinds": [*map(kind_of, answers)], "value": encode_or_name(answers[0])}

    def try_input(
        self, number: int, draw: Any, turn: int, turns: list[Any], calls: bool, seconds: float
    ) -> Message:
        """Run a check of the answer, as new, on an input: its number, or the list of its choices.

        The `turns` after the first may be asked for at once. With `calls` they are told as well.
        """
        self.prop, self.calls = self.task.properties[number], calls
        subject = self.subject if self.sends_values(self.prop) else self.recorded
        self.careful = guard_answer(self.task, subject)
        if isinstance(draw, list):
            self.draw = Draw(0, draw, turn)
        else:
            self.draw = Draw(draw, turn=turn)
        return self.go_on([(None, None), *turns], seconds)

    def go_on(self, turns: list[Any], seconds: float) -> Message:
        """Run the check of the same answer, as often as there are turns: with which values.

        Of the first turn these are the input's own.
        """
        messages: list[Message] = []
        try:
            with undisturbed(), within(seconds):
                for turn, only in turns:
                    draw = self.draw if turn is None else self.draw.again(turn)
                    messages.append(self.take_turn(draw, only))
        except Stopped:
            return {"stopped": True}
        return {"turns": messages}

    def sends_values(self, prop: Property) -> bool:
        """Whether what a check has seen is sent, and not the calls that it has made."""
        return prop.made or prop.inside

    def take_turn(self, draw: Draw, only: int | None) -> Message:
        """What a check has seen in a turn, or the calls that it has made, and what was raised."""
        self.recorder.begin([])
        observations, raised = observe(self.prop, self.careful, draw, only)
        message: Message = {"fault": encode_finding(raised)}
        if not self.sends_values(self.prop):
            return message | {"events": self.recorder.events}
        message["choices"] = draw.choices
        try:
            return message | self.seen(observations)
        except Exception as error:  # too large, nested too deeply, or a class of its own
            fault = Finding(f"a result that cannot be sent: {error}"[:300], "an answer")
            return message | {"seen": [], "fault": encode_finding(fault)}

    def seen(self, observations: list[Observation]) -> Message:
        """What a check has seen, as data: what it is and its value; with calls, also which."""
        rows: list[list[Any]] = [[seen.what, encode(seen.value)] for seen in observations]
        if not self.calls:
            return {"seen": rows}
        for row, observation in zip(rows, observations, strict=True):
            row += [observation.about(), len(observation.calls)]
        history = getattr(self.careful, "history", [])
        return {"seen": rows, "calls": encode_calls(history)}

    def paste(self, lines: list[str], seconds: float) -> Message:
        """The value of the last of some lines, or the exception that they raise."""
        try:
            with undisturbed(), within(seconds):
                value, raised = run_lines(lines, {self.task.name: self.answer})
                return {"value": encode_or_name(value), "raised": raised}
        except Stopped:
            return {"stopped": True}

    def given(self, id: str, number: int, choices: list[int], place: int = 0) -> list[Any]:
        """The arguments of a call that a check makes, for the lines of a report."""
        task = self.tasks[id]
        answer = self.shell.user_ns[task.name]
        return arguments_of_call(task, answer, number, choices, place)


def encode_or_name(value: Any) -> Any:
    """A value as data; only the name of its class if it cannot be sent."""
    try:
        return encode(value)
    except Exception:  # too large, nested too deeply, or a class of its own
        return {"opaque": type(value).__name__[:80]}


def kind_of(answer: Any) -> str:
    """What an answer is: a function, a class, a class of modules, or a value."""
    if not is_plain_class(answer):
        return "function" if callable(answer) else "value"
    import torch

    return "module" if issubclass(answer, torch.nn.Module) else "class"


def new_shell() -> Any:
    """IPython, which runs cells as a notebook does."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    shell.xmode = "Minimal"
    shell.ask_exit = lambda: os._exit(0)  # type: ignore[attr-defined]  # what `exit()` calls
    return shell
