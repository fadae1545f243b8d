"""Run a command of nmtlib in a fork that is killed at one of its operations on a folder."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmtcourse import main as cli

EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")


@dataclass(frozen=True)
class Point:
    """Where a training is killed: at its `number`-th operation, counted from 1, or within it."""

    number: int
    within: bool = False


def trace(command: Sequence[str], folder: Path) -> list[tuple[str, str]]:
    """The operations that an undisturbed command does in the folder: what, and with which file."""
    status, said = fork(command, folder, log=Path("trace.txt"))
    if status != 0:
        raise SystemExit(f"the undisturbed training failed: {said}")
    lines = Path("trace.txt").read_text("utf-8").splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def fork(
    command: Sequence[str], folder: Path, point: Point | None = None, log: Path | None = None
) -> tuple[int, str]:
    """Run a command in a child that is killed at a point; its status (-9: killed), what it said."""
    said = Path("said.txt")
    child = os.fork()
    if child == 0:
        status = 70
        try:
            with open(said, "w", encoding="utf-8") as errors, silence(errors):
                watch(folder.absolute(), point, log)
                status = cli.main([part.format(folder) for part in command])
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(ended), said.read_text("utf-8")


@contextlib.contextmanager
def silence(errors: io.TextIOBase) -> Iterator[None]:
    """Send standard error to a file and standard output nowhere."""
    with (
        open(os.devnull, "w") as nothing,
        contextlib.redirect_stdout(nothing),
        contextlib.redirect_stderr(errors),
    ):
        yield


def watch(folder: Path, point: Point | None, log: Path | None) -> None:
    """Count this process's operations in the folder, and kill it at a point."""
    number, busy = 0, False

    def hook(event: str, arguments: tuple) -> None:
        nonlocal number, busy
        if busy or event not in EVENTS or not (name := operation(event, arguments, folder)):
            return
        number += 1
        busy = True  # what follows is our own
        if log:
            with open(log, "a", encoding="utf-8") as file:
                file.write(f"{event} {name}\n")
        if point and number == point.number:
            if point.within:
                write_half(folder / name)
            os.kill(os.getpid(), signal.SIGKILL)
        busy = False

    sys.addaudithook(hook)


def operation(event: str, arguments: tuple, folder: Path) -> str:
    """The file in the folder that an event is about to change; '' where there is none."""
    path = arguments[0]
    if not isinstance(path, (str, os.PathLike)):
        return ""  # a number: a file that is open already
    if event == "open":
        _, mode, flags = arguments
        changing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
        if not (set("wax+") & set(mode) if mode else flags & changing):
            return ""
    place = Path(os.path.abspath(path))
    if place == folder:
        return "."
    return place.relative_to(folder).as_posix() if place.is_relative_to(folder) else ""


def write_half(path: Path) -> None:
    """What a kill within a write can leave: an appended line without its end, half a file."""
    with open(path, "a", encoding="utf-8") as file:
        file.write("torn")
