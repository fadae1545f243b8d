"""Start and end the process that runs a student's notebook."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from nmtcourse.homework.careful import methods_of
from nmtcourse.homework.grading import SEED
from nmtcourse.homework.peer import Peer
from nmtcourse.homework.task import Task
from nmtcourse.homework.values import Remote
from nmtcourse.homework.wire import Lost

GRACE = 10  # seconds within which an interrupted cell must end
STARTING = 300  # a busy machine must not end the grading of a class
ROOT = Path(__file__).parents[2]
WINDOWS = (
    "a notebook is checked, and a class graded, in a process of its own, which needs Linux or "
    "macOS; on Windows use WSL (https://learn.microsoft.com/windows/wsl/install). The checks in "
    "the notebook itself work everywhere"
)
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: orphans become children of this process


class Overdue(Lost):
    """The process was stopped, because it did not answer in time."""


class Channel:
    """The pipes to a process, as one file that never waits beyond `deadline`."""

    def __init__(self, process: subprocess.Popen):
        assert process.stdin and process.stdout
        self.process, self.deadline, self.kept = process, 0.0, bytearray()
        self.into, self.out = process.stdin.fileno(), process.stdout.fileno()
        for file in (self.into, self.out):
            os.set_blocking(file, False)

    def read(self, size: int) -> bytes:
        """That many bytes; fewer at the end."""
        while len(self.kept) < size:
            self.wait([self.out], [])
            if not (part := os.read(self.out, 2**20)):
                break
            self.kept += part
        found, self.kept = bytes(self.kept[:size]), self.kept[size:]
        return found

    def write(self, data: bytes) -> None:
        """Write all of it."""
        view = memoryview(data)
        while view:
            self.wait([], [self.into])
            view = view[os.write(self.into, view[:65536]) :]

    def flush(self) -> None:
        """Nothing is kept back."""

    def wait(self, reading: list[int], writing: list[int]) -> None:
        """Wait for a pipe. Raises Lost if the process has ended, Overdue at the deadline."""
        while time.monotonic() < self.deadline:
            if any(select.select(reading, writing, [], 0.5)):
                return
            if self.process.poll() is not None:
                raise Lost("the process has ended")
        raise Overdue("it did not answer in time")


def require_pipes() -> None:
    """Raise ValueError on Windows, where a process cannot be waited for as `Channel` does it."""
    if sys.platform == "win32":
        raise ValueError(WINDOWS)


class Session:
    """A fresh process for one notebook, with a home of its own; used in a `with`.

    Raises ValueError on Windows, RuntimeError if no process can be started.
    """

    def __init__(self, folder: Path, python: str = sys.executable):
        self.folder, self.python = folder, python

    def __enter__(self) -> Session:
        require_pipes()
        with contextlib.suppress(OSError, AttributeError):  # Linux alone has it
            ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
        self.before = {*children()}
        self.home = tempfile.TemporaryDirectory(prefix="homework-", ignore_cleanup_errors=True)
        try:
            self.start()
        except Lost:  # once more: the machine may have been busy, or out of memory for a moment
            self.end()
            try:
                self.start()
            except Lost:
                self.__exit__()
                raise RuntimeError("no process for it could be started") from None
        return self

    def __exit__(self, *raised: Any) -> None:
        self.end()
        self.home.cleanup()

    def start(self) -> None:
        """Start the process, and wait until it answers."""
        self.process = subprocess.Popen(
            [self.python, "-P", "-s", "-m", "nmtcourse.homework.host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            env=environment(Path(self.home.name), self.python),
            start_new_session=True,
        )
        self.channel: Any = Channel(self.process)
        self.peer = Peer(self.channel, self.channel, trusts=False)
        self.ask(STARTING, "has", [])

    def ask(self, seconds: float, what: str, *given: Any) -> Any:
        """Ask the process for something, and wait that long for it."""
        self.channel.deadline = time.monotonic() + seconds
        return self.peer.call(0, what, given)

    def run(self, source: str, seconds: float) -> tuple[str, str] | None:
        """Run a cell; returns the name and the text of the error that it raised, if any."""
        found = self.ask(seconds + GRACE, "run", source, seconds)
        return (str(found[0])[:80], str(found[1])[:300]) if found else None

    def answers(self, task: Task, names: list[str]) -> list[Any]:
        """Answers that the judge can call."""
        guards = [[*task.forbidden], [*task.sealed], task.seeded, methods_of(task.solution)]
        found = [
            self.ask(GRACE, "answer", place, name, task.pure, guards)
            for place, name in enumerate(names, start=1)
        ]
        for each in found:
            if isinstance(each, Remote):
                object.__setattr__(each, "_session", self)
        # What a function returns is data, and may not say itself what it is.
        self.peer.attributes = any(isinstance(a, Remote) and a._about["class"] for a in found)
        return found

    def values(self, names: list[str]) -> list[Any]:
        """What names stand for, in a file that is no homework. Raises ValueError without them."""
        there = self.ask(GRACE, "has", names)
        if missing := [name for name, found in zip(names, there, strict=True) if found is not True]:
            raise ValueError(f"the file defines no {missing[0]}")
        return [
            self.ask(GRACE, "answer", place, name, False, [])
            for place, name in enumerate(names, start=1)
        ]

    @contextlib.contextmanager
    def within(self, seconds: float) -> Any:
        """Limit the calls of the judge to that many seconds, or six times as many of waiting."""
        self.channel.deadline = time.monotonic() + 6 * seconds + GRACE
        self.peer.forget()
        self.peer.until, self.peer.seconds = time.monotonic() + 6 * seconds, seconds
        try:
            yield
        finally:
            self.peer.until = self.peer.seconds = 0.0

    def end(self) -> None:
        """End the process and all that it has started."""
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        for _ in range(100):
            left = [pid for pid in children() if pid not in self.before]
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                    if pid != self.process.pid:
                        os.waitpid(pid, 0)
            self.process.wait()
            if not left:
                break
        for file in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                file.close()  # type: ignore[union-attr]


def children() -> list[int]:
    """The live processes that this one has started, or got from one of them; under Linux."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            after = place.read_text("utf-8", "replace").rpartition(")")[2].split()
            if int(after[1]) == os.getpid() and after[0] != "Z":
                found.append(int(place.parent.name))
    return found


def environment(home: Path, python: str) -> dict[str, str]:
    """The environment of a notebook: a home of its own, and nothing that loads other code."""
    others = ("PYTHON", "IPYTHON", "JUPYTER", SEED)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    own = {
        **dict.fromkeys(["HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP"], str(home)),
        "IPYTHONDIR": str(home / "ipython"),
        "MPLCONFIGDIR": str(home / "matplotlib"),
        "MPLBACKEND": "agg",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    if python == sys.executable and (ROOT / "pyproject.toml").exists():  # not installed
        own["PYTHONPATH"] = str(ROOT)
    return kept | own


def python_without_solutions(python: str) -> str:
    """The path of a Python whose nmtlib has no solutions.

    Raises ValueError if it cannot run notebooks, or has the solutions.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            with Session(Path(folder), python) as session:
                found = session.ask(STARTING, "solutions")
        except (OSError, RuntimeError) as error:
            raise ValueError(f"--strict {python} cannot run a notebook: {error}") from None
    if found:
        raise ValueError(
            f"--strict {python} has the solutions in {found}; install nmtlib there with "
            "NMTLIB_SOLUTIONS=0, as docs/instructors.md shows"
        )
    return python
