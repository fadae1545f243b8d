"""The process that runs a student's notebook: it runs cells, and answers the judge's calls.

    python -m nmtcourse.homework.host

Calls come through the standard input, answers go to the standard output as it was at the start.
Neither the checks nor the solutions are needed here.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import nmtcourse.homework
from nmtcourse.homework import masters
from nmtcourse.homework.careful import Careful, CarefulClass
from nmtcourse.homework.guards import Stopped, within
from nmtcourse.homework.peer import Peer
from nmtcourse.homework.wire import Lost, receive

MEMORY = 8  # GiB of address space; torch alone takes about three
FILE = 2**29  # bytes of a file, so that no notebook fills the disk alone


@contextlib.contextmanager
def clock(seconds: float) -> Iterator[None]:
    """Raise Stopped after that time, again and again, where the system has an alarm clock."""

    def stop(number: int, frame: Any) -> None:
        raise Stopped

    if not hasattr(signal, "SIGALRM"):  # Windows
        yield
        return
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Nowhere(io.TextIOBase):
    """An output that keeps nothing, however much is written."""

    def write(self, text: str) -> int:
        return len(text)


class Host:
    """What the judge can ask for."""

    def __init__(self, peer: Peer):
        self.peer, self.depth = peer, 0
        self.opened: list[str] = []
        self.careful: list[Careful] = []
        self.kept: dict[str, Any] = {}  # functions of libraries that `replace` has replaced
        peer.around = self.limited
        peer.number(self, 0)
        self.shell = new_shell()

    def run(self, source: str, seconds: float) -> list[str]:
        """Run a cell; returns the name and the text of the error that it raised, if any."""
        sys.stdout = sys.stderr = Nowhere()
        try:
            with clock(seconds):
                found = self.shell.run_cell(source, store_history=False)
            error = found.error_before_exec or found.error_in_exec
        except BaseException as raised:  # whatever a cell has done to the shell
            error = raised
        if error is None:
            return []
        return [type(error).__name__, (str(error).splitlines() or [""])[0][:300]]

    def answer(self, place: int, name: str, pure: bool, guards: list) -> Any:
        """The answer with that name, as data or as something to call."""
        found = self.shell.user_ns[name]
        if pure and callable(found):
            forbidden, sealed, seeded, methods = guards
            careful = Careful(found, tuple(forbidden), tuple(sealed), seeded)
            if inspect.isclass(found):
                careful = CarefulClass(found, methods)
            self.careful.append(careful)
            found = careful.function if inspect.isclass(found) else careful
        if callable(found):
            self.peer.number(found, place)
        return found

    def has(self, names: list[str]) -> list[bool]:
        """Which names are defined."""
        return [name in self.shell.user_ns for name in names]

    def watch(self, folders: list[str]) -> None:
        """From now on, note which files are opened below these folders or beside the solutions."""
        places = ("solutions-spoilers", str(Path("homework", "masters")), *folders)

        def note(event: str, given: tuple[Any, ...]) -> None:
            if event == "open" and isinstance(given[0], str) and len(self.opened) < 5:
                if any(place in given[0] for place in places) and given[0] not in self.opened:
                    self.opened.append(given[0])

        sys.addaudithook(note)

    def seen(self) -> list[str]:
        """The files that were opened."""
        return self.opened

    def solutions(self) -> str:
        """Where the solutions are installed, or ''."""
        places = [Path(p) for p in masters.__path__]
        found = [p for place in places for p in place.glob("a*.py") if "SOLUTION" in p.read_text()]
        return str(found[0].parent) if found else ""

    def replace(self, path: str, value: Any) -> None:
        """Put a function of the judge's in the place of one of a library's; None puts it back."""
        module, _, name = path.partition(":")
        here = sys.modules[module]
        self.kept.setdefault(path, getattr(here, name))
        setattr(here, name, self.kept.pop(path) if value is None else value)

    def forget(self) -> None:
        """Drop what calls have left."""
        self.peer.clear()
        for each in self.careful:
            each.forget()

    def settle(self) -> None:
        """End a turn of a check."""
        for each in self.careful:
            each.settle()

    @contextlib.contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """The time limit of a call; one within another has that of the outer one."""
        outer, self.depth = not self.depth, self.depth + 1
        try:
            with within(seconds) if outer and seconds else contextlib.nullcontext():
                yield
        finally:
            self.depth -= 1


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


def limit() -> None:
    """Limit memory and the size of a file, where the system supports it."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for kind, size in ((resource.RLIMIT_AS, MEMORY * 2**30), (resource.RLIMIT_FSIZE, FILE)):
        resource.setrlimit(kind, (size, resource.getrlimit(kind)[1]))


def main() -> None:
    """Serve until the judge goes away."""
    reader, writer = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    nmtcourse.homework.grade = lambda *given, **options: 0.0  # the judge grades
    nmtcourse.homework.hint = lambda *given, **options: None
    torch.set_num_threads(1)
    sys.path.append(os.getcwd())  # last, so that no file of a student hides a library
    peer = Peer(reader, writer, trusts=True)
    Host(peer)
    limit()
    with contextlib.suppress(Lost):
        while True:
            peer.serve(*receive(reader, peer.most))
    os._exit(0)  # without what a notebook has registered for the end


if __name__ == "__main__":
    main()
