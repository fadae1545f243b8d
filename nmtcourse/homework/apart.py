"""Ask a process of its own to run a student's code: start it, give it a task, end it.

The process (`nmtcourse.homework.host`) runs none of that code itself; a child of it does. What it
answers is signed with a key that it gets when that child has ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import psutil

from nmtcourse.homework.watching import become_subreaper, children, close_memory, end_all

ROOT = Path(__file__).parents[2]
STARTING = threading.Lock()
RUNNING: set[subprocess.Popen] = set()  # the processes of this one
MOST = 2**24  # bytes of an answer
READY = b"ready\n"
WINDOWS = (
    "a notebook is checked, and a class graded, in a process of its own, which needs Linux or "
    "macOS; on Windows use WSL (https://learn.microsoft.com/windows/wsl/install). The checks in "
    "the notebook itself work everywhere"
)


class Lost(Exception):
    """The process has ended, was stopped, or has sent something else than its answer."""


def require_processes() -> None:
    """Raise ValueError on Windows, where `select` does not wait for a pipe."""
    if sys.platform == "win32":
        raise ValueError(WINDOWS)


class Host:
    """A process that waits for a task, with a home folder of its own; used in a `with`.

    Raises ValueError on Windows.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def __enter__(self) -> Host:
        require_processes()
        become_subreaper()
        close_memory()
        self.home = tempfile.TemporaryDirectory(prefix="homework-", ignore_cleanup_errors=True)
        with STARTING:
            self.spared = children() - {each.pid for each in RUNNING}
            self.process = started(self.folder, environment(Path(self.home.name)))
            RUNNING.add(self.process)
        return self

    def __exit__(self, *raised: Any) -> None:
        with STARTING:
            RUNNING.discard(self.process)
            end_all(self.process, self.spared | {each.pid for each in RUNNING})
        self.home.cleanup()

    def ask(self, task: dict[str, Any]) -> Any:
        """The answer to a task of `nmtcourse.homework.host.TASKS`.

        The task may run code in the folder. Raises Lost if there is no answer.
        """
        try:
            return answer_of(self.process, task)
        except OSError:  # a broken pipe
            raise Lost("its process was ended, perhaps for lack of memory") from None


def started(folder: Path, environment: dict[str, str]) -> subprocess.Popen:
    """A process that waits for a task."""
    return subprocess.Popen(
        [sys.executable, "-P", "-s", "-m", "nmtcourse.homework.host"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )


def answer_of(process: subprocess.Popen, task: dict[str, Any]) -> Any:
    """What a process answers to a task. Raises Lost."""
    assert process.stdin and process.stdout
    process.stdin.write(json.dumps(task).encode() + b"\n")
    process.stdin.flush()
    lines = Lines(process)
    while lines.next() != READY:  # what the process did not send is left out
        pass
    key = os.urandom(32)
    process.stdin.write(key.hex().encode() + b"\n")
    process.stdin.flush()
    while True:
        seal, _, text = lines.next().partition(b" ")
        if hmac.compare_digest(seal, seal_of(key, text)):
            return json.loads(text)


def seal_of(key: bytes, text: bytes) -> bytes:
    """The signature of a text."""
    return hmac.new(key, text, hashlib.sha256).hexdigest().encode()


class Lines:
    """The lines that a process writes, waited for as long as it is not stopped."""

    def __init__(self, process: subprocess.Popen):
        assert process.stdout
        self.process, self.file, self.rest = process, process.stdout.fileno(), b""

    def next(self) -> bytes:
        """The next line. Raises Lost at the end, for a line without end, or a stopped process."""
        while b"\n" not in self.rest:
            if len(self.rest) > MOST:
                raise Lost("its process sent something else than an answer")
            if select.select([self.file], [], [], 2.0)[0]:
                if not (part := os.read(self.file, 2**20)):
                    raise Lost("its process was ended, perhaps for lack of memory")
                self.rest += part
            elif self.is_stopped():
                raise Lost("its process was stopped by a signal")
        line, _, self.rest = self.rest.partition(b"\n")
        return line + b"\n" if line + b"\n" == READY else line

    def is_stopped(self) -> bool:
        """Whether the process waits for a signal to continue."""
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED
        return False


def environment(home: Path) -> dict[str, str]:
    """The environment of a notebook: a home of its own, and nothing that loads other code."""
    others = ("PYTHON", "IPYTHON", "JUPYTER")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    own = {
        **dict.fromkeys(["HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP"], str(home)),
        "IPYTHONDIR": str(home / "ipython"),
        "MPLCONFIGDIR": str(home / "matplotlib"),
        "MPLBACKEND": "agg",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    if (ROOT / "pyproject.toml").exists():  # not installed
        own["PYTHONPATH"] = str(ROOT)
    return inherited | own


def stop_all() -> None:
    """End all processes, such as those of a class that is interrupted."""
    for process in [*RUNNING]:
        with contextlib.suppress(OSError):
            process.kill()
