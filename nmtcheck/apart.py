"""Run unknown code in a separate process that can be killed at any time.

Where a process cannot be copied safely (Windows, macOS, or with CUDA in use) a thread takes its
place: what does not return in time is left behind, and ends with the program.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import Pipe
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import torch

SHOWN = 4_000  # characters kept of what one request prints
PATIENCE = 3  # the limit is one of processor time, and so many times as much by the clock
LIMITS = (signal.SIGPROF, signal.SIGALRM) if os.name == "posix" else ()


class Answer(NamedTuple):
    """What `work` returned and printed; `ended` says why it returned nothing, '' where it did."""

    value: Any
    printed: str
    ended: str = ""


class Board:
    """A line of text that both processes see: which part is running, and since when."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 128)

    def write(self, part: str) -> None:
        """Note that a part begins; '' for none."""
        line = f"{time.monotonic():.3f} {part}" if part else ""
        self.memory[:] = line.encode()[:128].ljust(128)

    def read(self) -> tuple[str, float] | None:
        """The part that is running and for how many seconds, or None."""
        since, _, part = self.memory[:].decode().strip().partition(" ")
        return (part, time.monotonic() - float(since)) if part else None


class Process:
    """Answers requests with `work`, in a copy of this process that lives until one is too slow."""

    def __init__(self, work: Callable[[Any], Any]):
        self.work, self.pid = work, 0
        self.log = TemporaryFile()  # what the copy prints

    def ask(self, request: Any, limit: float) -> Answer:
        """The answer to one request, within `limit` seconds of computing.

        ended: 'limit', or 'exit 3' or 'signal 11' where the process came to another end.
        """
        if not self.pid:
            self._start()
        self.pipe.send((request, limit))
        try:
            # The copy's own alarms end it; this is for code that has switched them off.
            if self.pipe.poll(PATIENCE * limit + 10):
                return Answer(self.pipe.recv(), self._printed())
        except (EOFError, ConnectionResetError):
            pass
        return Answer(None, self._printed(), self._end())

    def close(self) -> None:
        """End the copy, and all that it has started."""
        if self.pid:
            self._end()
        self.log.close()

    def _start(self) -> None:
        self.pipe, theirs = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            self.pipe.close()
            serve(theirs, self.work, self.log.fileno())
        theirs.close()

    def _end(self) -> str:
        """Kill the copy with its children, if it still lives, and say how it ended."""
        pid, self.pid = self.pid, 0
        self.pipe.close()
        ended, status = os.waitpid(pid, os.WNOHANG)
        for _ in range(20):  # it may be just about to say how it ends
            if ended:
                break
            time.sleep(0.01)
            ended, status = os.waitpid(pid, os.WNOHANG)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        if not ended:
            os.waitpid(pid, 0)
            return "limit"
        code = os.waitstatus_to_exitcode(status)
        if -code in LIMITS:
            return "limit"
        return f"exit {code}" if code >= 0 else f"signal {-code}"

    def _printed(self) -> str:
        """What was printed since the last request: its beginning, where it is long."""
        file = self.log.fileno()
        raw = os.pread(file, 4 * SHOWN, 0)
        os.ftruncate(file, 0)
        return shortened(raw.decode("utf-8", "replace"))


def serve(pipe: Any, work: Callable[[Any], Any], log: int) -> None:
    """Answer requests until the other end of the pipe is closed; never returns."""
    try:
        os.setpgid(0, 0)  # a Ctrl-C is for the process that asks, and it ends this one
        faulthandler.disable()  # the other process tells of a crash
        for number in LIMITS:
            signal.signal(number, signal.SIG_DFL)  # which ends the process, also within C
        flags = os.O_WRONLY | os.O_APPEND
        appending = os.open(f"/proc/self/fd/{log}", flags)  # after a truncation, from the start
        for stream in (1, 2):
            os.dup2(appending, stream)
        sys.stdout = sys.stderr = io.TextIOWrapper(
            os.fdopen(os.dup(1), "wb", buffering=0), "utf-8", "replace", write_through=True
        )
        torch.set_num_threads(1)  # tiny tensors: threads would wait for each other
        while True:
            request, limit = pipe.recv()
            alarms(limit)
            answer = work(request)
            alarms(0)
            pipe.send(answer)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        os._exit(0)


def alarms(limit: float) -> None:
    """End this process after `limit` seconds of computing, or some times as many by the clock."""
    signal.setitimer(signal.ITIMER_PROF, limit)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE * limit)


class Thread:
    """Answers requests as `Process` does, in threads of this process."""

    def __init__(self, work: Callable[[Any], Any]):
        self.work = work

    def ask(self, request: Any, limit: float) -> Answer:
        """The answer, or ended = 'limit' where the thread was left behind."""
        values: list[Any] = []
        done, said = threading.Event(), io.StringIO()

        def run() -> None:
            try:
                values.append(self.work(request))
            finally:
                done.set()

        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            threading.Thread(target=run, daemon=True).start()
            done.wait(PATIENCE * limit)
        printed = shortened(said.getvalue())
        return Answer(values[0], printed) if values else Answer(None, printed, "limit")

    def close(self) -> None:
        """Nothing: a thread cannot be ended."""


def shortened(text: str) -> str:
    """The text without blanks around it, cut where it is longer than `SHOWN` characters."""
    text = text.strip()
    return text if len(text) <= SHOWN else text[:SHOWN] + " …"


def worker(work: Callable[[Any], Any]) -> Process | Thread:
    """A process where it can be copied, a thread elsewhere."""
    safe = sys.platform.startswith("linux") and not torch.cuda.is_initialized()
    return Process(work) if safe else Thread(work)
