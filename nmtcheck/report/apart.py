"""Run unknown code in a process of its own that can be ended at any time, with all it has started.

A limit is one of processor time, of the process and of all that it has started: a loaded machine
changes no verdict.  The clock ends only what uses hardly any processor for minutes, and that is
"asleep", not a verdict.  What comes back is data, in JSON, through a socket: unlike a pipe, no path
below /proc opens it.  Where a process cannot be copied safely (Windows, macOS, or with CUDA in use)
a `worker` is a thread: what does not return is left behind, and ends with the program.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import io
import json
import mmap
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from multiprocessing.connection import wait
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import psutil

SHOWN = 4_000  # characters kept of what one request prints
ASLEEP = 120.0  # seconds by the clock, with hardly any computing, after which nothing is expected
LOOK = 0.1  # seconds by the clock after which the other process is looked at
MOST = 2**24  # bytes of a message, and of an answer unless it may have more
SUBREAPER, DUMPABLE = 36, 4  # options of prctl, which Linux alone has
START: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
OPEN = set[socket.socket]()  # ends of sockets that a copy of this process must not have
ASKER: list[int] = []  # in a process that serves: the one that asks


class Ended(Exception):
    """The process ended before its answer: 'limit', 'asleep', 'damaged' for what is no data, or
    'exit 3' or 'signal 11' where it came to another end."""


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
    """Whether code has used up its processor time, or has used hardly any for a long while."""

    def __init__(self, clock: Callable[[], float], patience: float):
        self.clock, self.patience, self.begun = clock, patience, clock()
        self.last, self.since = self.begun, time.monotonic()

    def end(self, limit: float | None) -> str:
        """'limit', 'asleep', or '' where it may go on."""
        now = self.clock()
        if now > self.last + self.patience / 300:
            self.last, self.since = now, time.monotonic()
        if limit is not None and now - self.begun > limit:
            return "limit"
        return "asleep" if time.monotonic() - self.since > self.patience else ""


def tree(pid: int) -> list[psutil.Process]:
    """A process, all that it has started, and the orphans that it was given."""
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def computed(pid: int) -> float:
    """Seconds of processor time of a process, of its descendants, and of those that have ended."""
    used = 0.0
    for each in tree(pid):
        with contextlib.suppress(psutil.Error):
            used += sum(each.cpu_times()[:4])  # user, system, and of children waited for
    return used


def end_descendants(pid: int) -> None:
    """End all that a process has started, which may start more meanwhile."""
    for _ in range(1000):
        alive = False
        for each in tree(pid)[1:]:
            with contextlib.suppress(psutil.Error):
                alive = each.status() != psutil.STATUS_ZOMBIE or alive
                each.kill()
        if not alive:
            return
        time.sleep(0.01)


def prctl(option: int, value: int) -> None:
    """Set an option of this process; nothing happens where the system has none."""
    with contextlib.suppress(OSError, AttributeError):
        libc: Any = ctypes.CDLL(None)
        libc.prctl(option, value, 0, 0, 0)


class Child:
    """A process that answers requests; it starts with the first, and anew where it has ended.

    It is a copy of this one, where `work(request)` gives the messages of an answer. What it prints
    goes to the file `log`, or nowhere.
    """

    def __init__(self, work: Callable[[Any], Iterable[Any]], log: Any = None):
        self.work, self.log = work, log
        self.process: Any = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def begin(self, theirs: socket.socket) -> Any:
        """Start the process that serves the other end of a socket."""
        sys.stdout.flush()
        sys.stderr.flush()
        process = START.Process(target=serve, args=(theirs, self.work, self.log, os.getpid()))
        process.start()
        return process

    def code(self) -> int | None:
        """The exit status, negative for a signal; None while the process lives."""
        return self.process.exitcode

    def start(self) -> None:
        """Start the process, if it does not live."""
        if self.process is None:
            self.end, theirs = socket.socketpair()
            OPEN.add(self.end)
            with theirs:
                self.process = self.begin(theirs)

    def messages(
        self,
        request: Any = None,
        limit: float | None = None,
        patience: float = 1.0,
        most: int = MOST,
    ) -> Iterator[Any]:
        """What comes in answer to a request, within some seconds of processor time.

        All of it has at most so many bytes.  `patience` multiplies `ASLEEP` for a process that
        waits for one of its own.  Raises Ended.
        """
        self.start()
        try:
            yield from self._answer(request, limit, patience * ASLEEP, most)
        except Ended:
            self.close()
            raise

    def _answer(
        self, request: Any, limit: float | None, patience: float, most: int
    ) -> Iterator[Any]:
        progress: Progress | None = None
        looked = time.monotonic()
        size, rest, pause = 0, b"", LOOK
        with contextlib.suppress(ConnectionError):
            self.end.sendall(json.dumps([request, limit]).encode() + b"\n")
        while True:
            lines, alive = list[bytes](), True
            arrived = wait([self.end], pause)
            if arrived:
                part = b""
                with contextlib.suppress(ConnectionError):
                    part = self.end.recv(2**20)
                *lines, rest = (rest + part).split(b"\n")
                size, alive = size + len(part), bool(part)
            for line in lines:
                try:
                    message = json.loads(line)
                except (ValueError, RecursionError):
                    raise Ended("damaged") from None
                if message is None:
                    return
                yield message
            if not alive and (code := self.code()) is not None:
                how = f"exit {code}" if code >= 0 else f"signal {-code}"
                raise Ended("limit" if code == -signal.SIGPROF else how)
            if size > most:
                raise Ended("damaged")
            if arrived and alive and time.monotonic() < looked + LOOK:
                continue
            # To ask for the time of all processes takes milliseconds: not for each message.
            looked = time.monotonic()
            if progress is None:
                progress = Progress(partial(computed, self.process.pid), patience)
            how = progress.end(limit)
            if how:
                raise Ended(how)
            if ASKER and os.getppid() != ASKER[0]:  # whoever has asked is gone
                self.close()
                os._exit(1)
            time.sleep(0 if alive else pause)
            pause = LOOK if lines else min(2 * pause, 0.5)

    def close(self) -> None:
        """End the process, and all that it has started."""
        if self.process is None:
            return
        pid = self.process.pid
        if self.code() is None:
            with contextlib.suppress(psutil.Error):
                psutil.Process(pid).suspend()  # it starts nothing more, and keeps its orphans
            end_descendants(pid)
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)  # what it has left, if it ended by itself
        while self.code() is None:
            time.sleep(0.01)
        OPEN.discard(self.end)
        self.end.close()
        self.process = None


def serve(end: socket.socket, work: Callable[[Any], Iterable[Any]], log: Any, asker: int) -> None:
    """Answer requests of the process `asker` until it closes the socket; never returns."""
    own, status = os.getpid(), 1
    try:
        ASKER[:] = [asker]  # not the parent of now: it may be gone before this process has begun
        with contextlib.suppress(OSError):  # it leads a session already
            os.setsid()  # a Ctrl-C is for the process that asks, and it ends this one
        for other in OPEN - {end}:
            os.close(other.detach())
        OPEN.clear()
        OPEN.add(end)
        prctl(SUBREAPER, 1)  # it keeps the orphans of its children
        faulthandler.disable()  # the other process tells of a crash
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process, also within C
        redirect(log)
        import torch  # not above: a command that only asks is to be quick

        torch.set_num_threads(1)  # tiny tensors: threads would wait for each other
        for line in end.makefile("rb"):
            request, limit = json.loads(line)
            # For a loop that goes on when the process that asks is gone.
            signal.setitimer(signal.ITIMER_PROF, limit or 0)
            for message in chain(work(request), [None]):
                if os.getpid() != own:  # a child of the code, which has come back here
                    return
                end.sendall(json.dumps(message).encode() + b"\n")
            signal.setitimer(signal.ITIMER_PROF, 0)
        status = 0
    except ConnectionError:
        pass
    finally:
        os._exit(status)  # without what the code has registered for the end


def redirect(log: Any) -> None:
    """Read nothing, and write to a file from its start after each truncation, or nowhere."""
    nowhere = written = os.open(os.devnull, os.O_RDWR)
    if log is not None:
        written = os.open(f"/proc/self/fd/{log.fileno()}", os.O_WRONLY | os.O_APPEND)
    for number, file in enumerate((nowhere, written, written)):
        os.dup2(file, number)
    sys.stdout = sys.stderr = io.TextIOWrapper(
        os.fdopen(os.dup(1), "wb", buffering=0), "utf-8", "replace", write_through=True
    )


class Process(Child):
    """Answers each request with what `work` returns, which is data, and what it prints."""

    def __init__(self, work: Callable[[Any], Any]):
        super().__init__(lambda request: [[work(request)]], TemporaryFile())

    def ask(self, request: Any, limit: float | None) -> Answer:
        """The answer to one request, within `limit` seconds of computing; None: however many.

        What meets its limit is tried once again, in a new copy.
        """
        ended = ""
        for _ in range(2):
            try:
                ((value,),) = self.messages(request, limit)
                return Answer(value, self._printed())
            except Ended as error:
                ended, printed = str(error), self._printed()
            if ended != "limit":
                break
        return Answer(None, printed, ended)

    def _printed(self) -> str:
        """What was printed since the last request: its beginning, where it is long."""
        file = self.log.fileno()
        raw = os.pread(file, 4 * SHOWN, 0)
        os.ftruncate(file, 0)
        return shortened(raw.decode("utf-8", "replace"))


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
            progress = Progress(thread_clock(thread), ASLEEP)
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
    import torch

    safe = sys.platform.startswith("linux") and not torch.cuda.is_initialized()
    return Process(work) if safe else Thread(work)
