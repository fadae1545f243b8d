"""Run unknown code in a separate process that can be killed at any time.

A limit is one of processor time, of the process and of all that it has started: a loaded machine
changes no verdict.  The clock ends only what uses no processor for minutes, and that is "asleep",
not a verdict.  Where a process cannot be copied safely (Windows, macOS, or with CUDA in use) a
thread takes its place: what does not return is left behind, and ends with the program.
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
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import torch

SHOWN = 4_000  # characters kept of what one request prints
ASLEEP = 180.0  # seconds by the clock without any computing, after which nothing more is expected


class Answer(NamedTuple):
    """What `work` returned and printed; `ended` says why it returned nothing, '' where it did."""

    value: Any
    printed: str
    ended: str = ""


class Board:
    """A line of text that both processes see: which part is running, and since when."""

    def __init__(self) -> None:
        self.memory, self.zero = mmap.mmap(-1, 128), 0.0

    def begin(self) -> None:
        """Note that a request begins."""
        self.zero = time.process_time()
        self.write("")

    def write(self, part: str) -> None:
        """Note that a part begins; '' for none."""
        line = f"{time.process_time() - self.zero:.3f} {part}" if part else ""
        self.memory[:] = line.encode()[:128].ljust(128)

    def read(self) -> tuple[str, float] | None:
        """The part that is running, and after how much computing of its request it began."""
        began, _, part = self.memory[:].decode().strip().partition(" ")
        return (part, float(began)) if part else None


class Progress:
    """Whether code has used up its processor time, or has used none for a long while."""

    def __init__(self, clock: Callable[[], float]):
        self.clock, self.begun = clock, clock()
        self.last, self.since = self.begun, time.monotonic()

    def end(self, limit: float | None) -> str:
        """'limit', 'asleep', or '' where it may go on."""
        now = self.clock()
        if now != self.last:
            self.last, self.since = now, time.monotonic()
        if limit is not None and now - self.begun > limit:
            return "limit"
        return "asleep" if time.monotonic() - self.since > ASLEEP else ""


def computed(root: int) -> float:
    """Seconds of processor time of a process, of its descendants, and of those that have ended."""
    parents, ticks = dict[int, int](), dict[int, int]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # a process that has just ended
            fields = path.read_text("utf-8", "replace").rpartition(")")[2].split()
            pid = int(path.parent.name)
            parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    tree = {root}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return sum(ticks.get(pid, 0) for pid in tree) / os.sysconf("SC_CLK_TCK")


class Process:
    """Answers requests with `work`, in a copy of this process that lives until one is too slow."""

    def __init__(self, work: Callable[[Any], Any]):
        self.work, self.pid = work, 0
        self.log = TemporaryFile()  # what the copy prints

    def ask(self, request: Any, limit: float | None) -> Answer:
        """The answer to one request, within `limit` seconds of computing; None: however many.

        What meets its limit is tried once again, in a new copy.
        ended: 'limit', 'asleep', or 'exit 3' or 'signal 11' where the process came to another end.
        """
        answer = self._ask(request, limit)
        return self._ask(request, limit) if answer.ended == "limit" else answer

    def _ask(self, request: Any, limit: float | None) -> Answer:
        if not self.pid:
            self._start()
        self.pipe.send((request, limit))
        progress, step, end = Progress(lambda: computed(self.pid)), 0.01, ""
        with contextlib.suppress(EOFError, ConnectionResetError):
            while not (answered := self.pipe.poll(step)) and not (end := progress.end(limit)):
                step = min(2 * step, 0.5)
            if answered:
                return Answer(self.pipe.recv(), self._printed())
        return Answer(None, self._printed(), self._end(end))

    def close(self) -> None:
        """End the copy, and all that it has started."""
        if self.pid:
            self._end("closed")
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

    def _end(self, end: str) -> str:
        """Kill the copy with its children, and say how it ended; '': it is ending by itself."""
        pid, self.pid = self.pid, 0
        self.pipe.close()
        progress, ended, status = Progress(lambda: 0.0), 0, 0
        while not end and not ended:
            ended, status = os.waitpid(pid, os.WNOHANG)
            end = progress.end(None)
            time.sleep(0 if ended else 0.01)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        if not ended:
            os.waitpid(pid, 0)
            return end
        code = os.waitstatus_to_exitcode(status)
        if -code == signal.SIGPROF:
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
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process, also within C
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
            # For a loop that goes on when the process that asks is gone.
            signal.setitimer(signal.ITIMER_PROF, limit or 0)
            answer = work(request)
            signal.setitimer(signal.ITIMER_PROF, 0)
            pipe.send(answer)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        os._exit(0)


class Thread:
    """Answers requests as `Process` does, in threads of this process."""

    def __init__(self, work: Callable[[Any], Any]):
        self.work = work

    def ask(self, request: Any, limit: float | None) -> Answer:
        """The answer, or ended = 'limit' or 'asleep' where the thread was left behind."""
        values: list[Any] = []
        done, log, end = threading.Event(), io.StringIO(), ""

        def run() -> None:
            try:
                values.append(self.work(request))
            finally:
                done.set()

        with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            progress = Progress(thread_clock(thread))
            while not done.wait(0.02) and not end:
                end = progress.end(limit)
        printed = shortened(log.getvalue())
        return Answer(values[0], printed) if values else Answer(None, printed, end or "limit")

    def close(self) -> None:
        """Nothing: a thread cannot be ended."""


def thread_clock(thread: threading.Thread) -> Callable[[], float]:
    """Processor time of one thread; where the system does not tell, that of the whole process."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.process_time

    def clock() -> float:
        # Of a thread that has ended there is no clock, and asking for it may crash.
        return time.clock_gettime(number) if thread.is_alive() else 0.0

    number = time.pthread_getcpuclockid(thread.ident) if thread.is_alive() else 0
    return clock


def shortened(text: str) -> str:
    """The text without blanks around it, cut where it is longer than `SHOWN` characters."""
    text = text.strip()
    return text if len(text) <= SHOWN else text[:SHOWN] + " …"


def worker(work: Callable[[Any], Any]) -> Process | Thread:
    """A process where it can be copied, a thread elsewhere."""
    safe = sys.platform.startswith("linux") and not torch.cuda.is_initialized()
    return Process(work) if safe else Thread(work)
