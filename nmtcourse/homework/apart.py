"""Run a student's code apart: a fresh process with an environment of its own asks a copy of itself.

    python -m nmtcourse.homework.apart nmtcourse.homework.marking:marked ASKER

That copy runs no such code either, and starts one process for each try. Whatever a notebook ends,
the fresh process ends what is left: orphans of its children become its own.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from nmtcheck.report.apart import DUMPABLE, Child, Ended, end_descendants, prctl, serve

ROOT = Path(__file__).parents[2]
HOSTS = set["Host"]()  # that live
LOST = {
    "asleep": "its process was stopped by a signal",
    "damaged": "its process sent something else than an answer",
}
WINDOWS = (
    "a notebook is checked, and a class graded, in a process of its own, which needs Linux or "
    "macOS; on Windows use WSL (https://learn.microsoft.com/windows/wsl/install). The checks in "
    "the notebook itself work everywhere"
)


def require_processes() -> None:
    """Raise ValueError on Windows."""
    if sys.platform == "win32":
        raise ValueError(WINDOWS)


class Host(Child):
    """A fresh process in a folder, which calls a function "module:name"; used in a `with`.

    Raises ValueError on Windows.
    """

    def __init__(self, folder: Path, function: str):
        super().__init__(lambda request: [])
        self.folder, self.function = folder, function

    def __enter__(self) -> Host:
        require_processes()
        prctl(DUMPABLE, 0)  # others of the same user, except root, do not read this memory
        self.home = tempfile.TemporaryDirectory(prefix="homework-", ignore_cleanup_errors=True)
        self.start()
        HOSTS.add(self)
        return self

    def __exit__(self, *raised: object) -> None:
        HOSTS.discard(self)
        self.close()
        self.home.cleanup()

    def begin(self, theirs: socket.socket) -> Any:
        """Start the process, which begins to import."""
        return subprocess.Popen(
            [sys.executable, "-P", "-s", "-m", __name__, self.function, str(os.getpid())],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            env=environment(Path(self.home.name)),
        )

    def code(self) -> int | None:
        return self.process.poll()

    def ask(self, report: Callable[[str], object] = str, **arguments: Any) -> Any:
        """What the function returns, or gives last; `report` gets the texts that it gives before.

        Raises ValueError where nothing comes back.
        """
        answer = None
        try:
            for message in self.messages(arguments, patience=3):
                if isinstance(answer, str):
                    report(answer[:1000])
                answer = message
        except Ended as ended:
            why = LOST.get(str(ended), "its process was ended, perhaps for lack of memory")
            raise ValueError(why) from None
        return answer


def environment(home: Path) -> dict[str, str]:
    """The environment of a notebook: a home of its own, and nothing that loads other code."""
    others = ("PYTHON", "IPYTHON", "JUPYTER")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    changed = {
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
        changed["PYTHONPATH"] = str(ROOT)
    return inherited | changed


def stop_all() -> None:
    """End all processes, such as those of a class that is interrupted."""
    for host in [*HOSTS]:
        with contextlib.suppress(OSError):
            host.process.kill()


def answer_in_copy(function: Callable[..., Any], arguments: dict[str, Any]) -> Iterator[Any]:
    """What a copy of this process answers; then nothing that it has started is left."""
    try:
        with Child(partial(call, function)) as copy:
            yield from copy.messages(arguments, patience=2)
    finally:
        end_descendants(os.getpid())


def call(function: Callable[..., Any], arguments: dict[str, Any]) -> Iterator[Any]:
    """The value of a function, as a message; of a generator function, each that it gives."""
    if inspect.isgeneratorfunction(function):
        yield from function(**arguments)
    else:
        yield function(**arguments)


def main() -> None:
    """Answer what comes through the standard input, a socket."""
    end = socket.socket(fileno=os.dup(0))
    prctl(DUMPABLE, 0)
    module, _, name = sys.argv[1].partition(":")
    serve(
        end, partial(answer_in_copy, getattr(import_module(module), name)), None, int(sys.argv[2])
    )


if __name__ == "__main__":
    main()
