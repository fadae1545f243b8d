"""Run checks on code that may do anything: raise, return nonsense, or never return."""

from __future__ import annotations

import ctypes
import random
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import torch

from nmtlib.checks.adapter import Adapter
from nmtlib.checks.registry import CHECKS, Check, Finding
from nmtlib.checks.report import NO_PART, Report, Result
from nmtlib.errors import did_you_mean

HERE = Path(__file__).parent


class TimeUp(BaseException):
    """Raised inside a check that has used up its time; no `except Exception` stops it."""


class Watch:
    """An adapter that knows which of its parts is running, and which ones never came back."""

    def __init__(self, adapter: Adapter):
        parts = {f.name: getattr(adapter, f.name) for f in fields(adapter)}
        watched = {n: self.watched(n, part) for n, part in parts.items() if callable(part)}
        self.adapter = replace(adapter, **watched)
        self.running: tuple[str, float] | None = None  # the part, and when it was called
        self.stuck: dict[str, str] = {}  # part -> the check in which it did not return

    def watched(self, name: str, part: Callable) -> Callable:
        """The part, which now notes when it is called and when it has come back."""

        def run(*args: object, **kwargs: object) -> object:
            outer, self.running = self.running, (name, time.monotonic())
            # Where the part raises, `running` keeps its name for the report.
            result = part(*args, **kwargs)
            self.running = outer
            return result

        return run


def run_checks(
    adapter: Adapter,
    *,
    only: str | Sequence[str] | None = None,
    seed: int = 0,
    time_limit: float = 20.0,
) -> Report:
    """Run the checks for which the adapter has the parts; whatever the code does, this returns.

    `only` names checks ('attention.scale') or subjects ('attention'), one or several.  A check that
    runs longer than `time_limit` seconds of computing is stopped.  `seed` is any whole number,
    taken modulo 2^63.  Random states and number of threads are as before afterwards.

    Raises ValueError for a name that no check has, and where `adapter` is no Adapter.
    """
    if not isinstance(adapter, Adapter):
        given = type(adapter).__name__
        raise ValueError(f"expected an Adapter, not {given}; see nmtlib.checks.adapter")
    chosen, watch, started = choose(only), Watch(adapter), time.monotonic()
    seed %= 2**63  # torch takes no larger one
    with _undisturbed():
        if any("make_model" in check.needs for check in chosen):
            # The first optimizer of a program imports a large part of torch, which would be broken
            # for good if it were stopped within.
            torch.optim.SGD([torch.zeros(1, requires_grad=True)])
        results = tuple(run_check(check, watch, seed, time_limit) for check in chosen)
    return Report(adapter.name, results, time.monotonic() - started)


def choose(only: str | Sequence[str] | None) -> list[Check]:
    """The checks of these ids or subjects, all by default; ValueError for an unknown name."""
    if only is None:
        return list(CHECKS.values())
    names = {only} if isinstance(only, str) else set(only)
    subjects = {check.subject for check in CHECKS.values()}
    if unknown := names - subjects - CHECKS.keys():
        known, name = ", ".join(sorted(subjects)), min(unknown)
        hint = did_you_mean(name, [*subjects, *CHECKS])
        raise ValueError(f"there is no check {name!r}{hint}; subjects are {known}")
    return [check for check in CHECKS.values() if names & {check.id, check.subject}]


def run_check(check: Check, watch: Watch, seed: int, time_limit: float) -> Result:
    """The verdict on one property."""
    if missing := [part for part in check.needs if not watch.adapter.has(part)]:
        return Result(check, "skipped", NO_PART + ", ".join(missing))
    if stuck := [part for part in check.needs if part in watch.stuck]:
        measured = f"not run: {stuck[0]} did not return in {watch.stuck[stuck[0]]}"
        return Result(check, "timeout", measured, check.cause)
    watch.running = None
    outcome: list[BaseException | str] = []

    def work() -> None:
        try:
            torch.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)
            outcome.append(str(check.measure(watch.adapter, seed)))
        except BaseException as error:  # SystemExit and TimeUp too: this is somebody else's code
            outcome.append(error)

    started = time.monotonic()
    ended = _within(work, time_limit)
    seconds = time.monotonic() - started
    if ended and outcome and not isinstance(outcome[0], TimeUp):
        return replace(_result(check, outcome[0], watch.running), seconds=seconds)
    part, since = watch.running or ("the check", started)
    if time.monotonic() - since > time_limit / 2:
        watch.stuck[part] = check.id
    cause = "An endless loop, or a model far larger than the sizes asked for."
    return Result(check, "timeout", f"stopped in {part} after {seconds:.0f} s", cause, seconds)


def _result(
    check: Check, outcome: BaseException | str, running: tuple[str, float] | None
) -> Result:
    """The verdict on what a check returned or raised, `running` being the part that raised it."""
    if isinstance(outcome, str):
        return Result(check, "passed", outcome)
    if isinstance(outcome, Finding):
        return Result(check, "failed", outcome.measured, outcome.cause or check.cause)
    said = next(iter(str(outcome).strip().splitlines()), "")[:200]
    if isinstance(outcome, NotImplementedError):
        return Result(check, "skipped", said or "not implemented")
    place = f" ({running[0]})" if running else ""
    measured = f"{type(outcome).__name__}{place}: {said}{_where(outcome)}"
    cause = f"The exception says it; otherwise: {check.cause}"
    return Result(check, "error", measured, cause)


def _where(error: BaseException) -> str:
    """The last line of the reader's own code that the exception came through."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if HERE not in Path(frame.filename).parents and "site-packages" not in frame.filename:
            return f", at {Path(frame.filename).name}:{frame.lineno} in {frame.name}"
    return ""


def _within(work: Callable[[], None], time_limit: float) -> bool:
    """Run a function in a thread of its own; False where it had to be stopped or left behind.

    A thread and no alarm signal, because signals reach only the main thread, and a notebook may run
    elsewhere.  The limit is one of processor time, and three times as much by the clock: other
    programs may be busy.
    """
    ended = threading.Event()  # Thread.join, if a Ctrl-C interrupts it, takes a thread for ended

    def work_and_say() -> None:
        try:
            work()
        finally:
            ended.set()

    thread = threading.Thread(target=work_and_say, daemon=True)
    thread.start()
    busy, waited, last = time.process_time(), 0.0, time.monotonic()
    try:
        while waited < 3 * time_limit and time.process_time() - busy < time_limit:
            if ended.wait(0.05):
                return True
            now = time.monotonic()
            waited += min(now - last, 1.0)  # a longer gap is a computer that was asleep
            last = now
    finally:  # also on Ctrl-C
        for _ in range(5):
            if ended.is_set():
                break
            # The only way to stop a thread: the exception is raised at its next line of Python.
            ident, error = ctypes.c_ulong(thread.ident), ctypes.py_object(TimeUp)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, error)
            ended.wait(0.4)
    return False


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Run on one thread; afterwards random states, default type and threads are as before."""
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    on_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
    cuda = torch.cuda.get_rng_state_all() if on_gpu else []
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)  # tiny tensors: threads would wait for each other
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])
        torch.cuda.set_rng_state_all(cuda)
