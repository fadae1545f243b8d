"""Judge an answer that runs in another process: ask for what it does, and take only data from it.

The process (`nmtcourse.homework.answering`) has neither solutions nor judge. Where a property
compares results with those of the solution, it sends what the check has seen. Where a property is
a check of its own, it sends the calls: the check is run here as well, on what came back. Whatever
an answer does to its own process, it has to send the right numbers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from nmtcheck.report.apart import Child, Ended, computed
from nmtcourse.homework.answering import MOST_OF_ALL, Keeper, without_solutions
from nmtcourse.homework.catalogue import assignment
from nmtcourse.homework.compare import Finding
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.limits import Stopped
from nmtcourse.homework.task import Property, Task
from nmtcourse.homework.transcript import (
    FORGED,
    Forged,
    Replay,
    decode,
    decode_calls,
    decode_finding,
    readable,
)
from nmtcourse.homework.trials import Observation, Run, Turn, guard_answer, observe, plan_turns

GRACE = 10.0  # seconds of processor time within which interrupted code must end
MOST_SECONDS = 900.0  # of processor time, of a notebook each time it is run
MOST = 10_000  # observations of a turn
ALLOWED = ("function", "class", "module", "value")
LOST = "its process was ended, perhaps for lack of memory"


class Elsewhere(Child):
    """The process of a student's code; it begins anew where it has ended. Used in a `with`.

    It starts at once, and must do so before this process imports the masters.
    """

    def __init__(self) -> None:
        super().__init__(Keeper().work)

    def __enter__(self) -> Elsewhere:
        self.start()
        self.begun = 0.0  # when the notebook was begun, in processor time of that process
        return self

    def open(self, number: str) -> None:
        """Run a notebook from its beginning, whose assignment has that number."""
        self.begun = computed(self.process.pid)
        first = next(iter(assignment(number).tasks.values()))
        master = Path(first.namespace["__file__"]).read_text("utf-8")
        self.ask({"do": "open", "page": without_solutions(master)}, GRACE)

    def ask(self, request: dict[str, Any], limit: float) -> dict[str, Any]:
        """The answer to a request, within a limit of processor time.

        Raises Ended where the code of a student has ended its process, or was ended; ValueError
        where nothing comes back at all.
        """
        try:
            asked = {"ask": request, "limit": limit}
            messages = [*self.messages(asked, patience=2, most=MOST_OF_ALL)]
        except Ended:
            raise ValueError(LOST) from None
        answer = messages[0] if messages else None
        if not isinstance(answer, dict):
            return {}
        if "ended" in answer:
            raise Ended(str(answer["ended"]))
        return answer

    def require_time(self) -> None:
        """Raise Ended where the notebook has used up its processor time."""
        if computed(self.process.pid) - self.begun > MOST_SECONDS:
            raise Ended("limit")


class RemoteAnswer:
    """An answer in another process, judged by what is sent.

    `solved` are the tasks with all points: a choice is compared with their solutions.
    """

    tells_calls = False

    def __init__(self, process: Elsewhere, task: Task, solved: Collection[str] = ()):
        self.process, self.task = process, task
        self.limits: list[float] = []  # of processor time that is left
        self.requests = 0
        self.ahead = False  # whether an input before has passed: the next one probably will
        tasks = {other.name: other for other in assignment(task.id[:2]).tasks.values()}
        self.used = [tasks[name] for name in task.uses]
        self.solved = [used for used in self.used if used.id in solved]
        names = [used.name for used in self.solved]
        about = self.ask({"do": "begin", "task": task.id, "solved": names}, timed=False)
        self.missing = readable(str(about.get("missing", ""))[:100])
        self.kinds, self.value = about.get("kinds"), about.get("value")

    @contextlib.contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Raise Stopped if the answer computes for longer than some seconds within."""
        self.limits.append(seconds)
        try:
            yield
        finally:
            self.limits.pop()

    def ask(self, request: dict[str, Any], timed: bool = True) -> dict[str, Any]:
        """The answer to a request, within the limits."""
        left = min(self.limits, default=self.task.seconds)
        if left <= 0:
            raise Stopped
        if timed:
            request["seconds"] = left
        self.requests += 1
        if self.requests % 32 == 0:  # to look takes time
            self.process.require_time()
        answer = self.process.ask(request, left + GRACE)
        seconds = answer.get("seconds")
        if isinstance(seconds, float):
            self.limits = [limit - seconds for limit in self.limits]
        if answer.get("stopped"):
            raise Stopped
        return answer

    def run(self, prop: Property, calls: bool = False) -> Run:
        """The answer, as new, for a property; with its `calls` for a report."""
        return RemoteRun(self, prop, calls)

    def paste(self, lines: Sequence[str]) -> tuple[Any, str]:
        """The value of the last of some lines, and the exception that they raise, as text."""
        answer = self.ask({"do": "paste", "lines": [*lines]})
        return decode(answer.get("value")), str(answer.get("raised", FORGED))

    def make_subject(self, replay: Replay) -> Any:
        """What takes the place of the answer in a check that is run here."""
        if not isinstance(self.kinds, list) or len(self.kinds) != 1 + len(self.used):
            raise Forged(FORGED)
        if not all(kind in ALLOWED for kind in self.kinds):
            raise Forged(FORGED)
        if not self.task.uses and self.kinds[0] == "value":
            return decode(self.value)
        if not self.task.uses:
            return replay.make_answer(self.kinds[0])
        others = []
        for used, kind in zip(self.used, self.kinds[1:], strict=True):
            if used in self.solved:  # a later cell may have redefined it
                others.append(used.solution)
            elif kind == "value":
                raise Forged(FORGED)
            else:
                replay.task = used
                others.append(replay.make_answer(kind))
        return decode(self.value), *others


class RemoteRun:
    """A run of a check in the process of the answer; it begins with the first turn.

    The later turns are asked for one by one, or all at once where the input before has passed.
    """

    def __init__(self, answer: RemoteAnswer, prop: Property, calls: bool):
        self.answer, self.prop, self.calls = answer, prop, calls
        self.begun = False
        self.waiting: list[Any] = []  # turns that have come back already
        self.left = 0  # later turns

    def turn(self, draw: Draw, only: int | None = None) -> Turn:
        """What the check has seen, and what was raised."""
        if not self.begun:
            self.waiting = self.begin(draw)
        else:
            self.left -= 1
            self.answer.ahead = not self.left
        if not self.waiting:
            self.waiting = self.ask({"do": "go on"}, [(draw.turn, only)])
        try:
            return self.take_turn(self.waiting.pop(0), draw, only)
        except Forged as forged:
            return [], Finding(str(forged), "an answer")
        finally:
            self.begun = True

    def skip(self) -> None:
        """Leave out a turn, which may have come back already."""
        self.left -= 1
        self.waiting = self.waiting[1:]

    def begin(self, draw: Draw) -> list[Any]:
        """What the first turn gives, and perhaps the later ones."""
        task = self.answer.task
        plan = plan_turns(task, self.prop, [*(draw.replayed or [])])
        self.left = len(plan)
        turns = plan if self.answer.ahead else []
        self.answer.ahead = not plan
        spec = draw.number if draw.replayed is None else [*draw.replayed]
        request = {"do": "try", "number": task.properties.index(self.prop), "draw": spec}
        return self.ask(request | {"turn": draw.turn, "calls": self.calls}, turns)

    def ask(self, request: dict[str, Any], turns: Any) -> list[Any]:
        """Some turns as data."""
        came = self.answer.ask(request | {"turns": turns}).get("turns")
        if not isinstance(came, list) or not came:
            return [None]
        return came

    def take_turn(self, answer: Any, draw: Draw, only: int | None) -> Turn:
        """What came back; a check of its own is run on it here."""
        if not isinstance(answer, dict):
            raise Forged(FORGED)
        fault = decode_finding(answer.get("fault"))
        if self.prop.inside:
            choices = answer.get("choices")
            if not isinstance(choices, list) or not all(type(n) is int for n in choices):
                raise Forged(FORGED)
            draw.choices = choices
            return [], fault
        if self.prop.made:
            observations = observed(answer)
            if fault is not None and "calls" in answer:
                fault.shown.calls = decode_calls(answer["calls"])
            return observations, fault
        if not self.begun:
            self.replay = Replay(self.answer.task)
            subject = self.answer.make_subject(self.replay)
            self.careful = guard_answer(self.answer.task, subject, watched=False)
        events = answer.get("events")
        if not isinstance(events, list):
            raise Forged(FORGED)
        self.replay.begin(events)
        self.replay.fault = fault
        return observe(self.prop, self.careful, draw, only)


def observed(answer: dict[str, Any]) -> list[Observation]:
    """What a check has seen, by data. Raises Forged for any other data."""
    rows = answer.get("seen")
    if not isinstance(rows, list) or len(rows) > MOST:
        raise Forged(FORGED)
    calls = decode_calls(answer.get("calls") or [])
    observations = []
    for row in rows:
        match row:
            case [str(what), value]:
                observations.append(Observation(what[:300], decode(value), 0.0, ""))
            case [str(what), value, str(about), int(count)]:
                shown = calls[: max(0, count)]
                observations.append(Observation(what[:300], decode(value), 0.0, about[:500], shown))
            case _:
                raise Forged(FORGED)
    return observations
