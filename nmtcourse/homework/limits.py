"""Limits while an answer runs: its time, no output, nothing that it leaves behind."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

import nmtcourse.homework

MEMORY = 8  # GiB of address space; torch alone takes about three
FILE = 2**29  # bytes of a file, so that no notebook fills the disk alone


class Stopped(BaseException):
    """The answer has used up its time; a student's `except Exception` does not catch it."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise Stopped after some seconds of processor time, however busy the machine is.

    It needs a system with such a clock, and the main thread.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGPROF"):
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise Stopped

    before = signal.signal(signal.SIGPROF, stop)
    timer = signal.setitimer(signal.ITIMER_PROF, seconds, min(1.0, seconds / 4))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, *timer)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """One thread, no output, no warnings, nothing on file descriptor 2; everything is restored.

    Gradients are on, and the default device is the CPU, even if a notebook has chosen otherwise. A
    grader that treats a warning as a failure must not see one.
    """
    state = torch.get_rng_state()
    threads = torch.get_num_threads()
    dtype = torch.get_default_dtype()
    torch.set_num_threads(1)
    with contextlib.suppress(AttributeError, ValueError):  # no stderr, or a closed one
        sys.stderr.flush()
    try:
        with warnings.catch_warnings(), silent(2), on_the_cpu(), torch.enable_grad():
            warnings.simplefilter("ignore")
            with contextlib.redirect_stdout(Nowhere()), contextlib.redirect_stderr(Nowhere()):
                yield
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)
        torch.set_rng_state(state)


def on_the_cpu() -> AbstractContextManager:
    """The CPU as the default device.

    Nothing where it is that already: torch calls a function of Python at each operation otherwise.
    """
    if torch.get_default_device().type == "cpu":
        return contextlib.nullcontext()
    return torch.device("cpu")


@contextlib.contextmanager
def silent(descriptor: int) -> Iterator[None]:
    """Nothing that is written to a file descriptor is shown; one that is closed stays so."""
    try:
        original = os.dup(descriptor)
    except OSError:
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, descriptor)
        yield
    finally:
        os.dup2(original, descriptor)
        os.close(original)
        os.close(nowhere)


def prepare() -> None:
    """What a page expects of its process, and the limits of memory and files."""
    nmtcourse.homework.grade = lambda *answers, **options: 0.0
    nmtcourse.homework.hint = lambda *task, **options: None
    nmtcourse.homework.again = lambda *what, **options: None
    torch.set_num_threads(1)
    with contextlib.suppress(FileNotFoundError):  # a cell may have deleted it
        sys.path.append(os.getcwd())  # last, so that no file of a student hides a library
    try:
        import resource
    except ImportError:  # Windows
        return
    for kind, size in ((resource.RLIMIT_AS, MEMORY * 2**30), (resource.RLIMIT_FSIZE, FILE)):
        resource.setrlimit(kind, (size, resource.getrlimit(kind)[1]))


class Nowhere(io.TextIOBase):
    """An output that keeps nothing, however much is written."""

    def write(self, text: str) -> int:
        return len(text)
