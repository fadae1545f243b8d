"""Run a function in a child process within limits of processor time, and end all that it starts.

The wall clock never decides: a child that computes may take as long as the machine needs. One that
uses no processor for minutes is asleep, and is ended as such.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psutil

SUBREAPER, DUMPABLE = 36, 4  # options of prctl, which Linux alone has
ASLEEP = 120.0  # seconds of the clock without computing after which a child is ended
AWAKE = 0.4  # seconds of processor time in them with which it is not asleep
MOST = 2**22  # bytes that a child may send
START: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")

Send = Callable[[dict[str, Any]], None]


@dataclass
class Ended:
    """The messages of a child, and how it ended: "done", "ended", "overdue" or "asleep"."""

    how: str = "ended"
    messages: list[Any] = field(default_factory=list)


def prctl(option: int, value: int) -> None:
    """Set an option of this process; nothing happens where the system has none."""
    with contextlib.suppress(OSError, AttributeError):
        libc: Any = ctypes.CDLL(None)
        libc.prctl(option, value, 0, 0, 0)


def become_subreaper() -> None:
    """Make orphans of this process's children its own children."""
    prctl(SUBREAPER, 1)


def close_memory() -> None:
    """Close memory and descriptors of this process to others of the same user, on Linux.

    A process of root reads them all the same.
    """
    prctl(DUMPABLE, 0)


def watched(work: Callable[..., None], *given: Any, limit: float) -> Ended:
    """What a child sends while it runs `work(send, *given)`, and how it ended.

    `limit` is in seconds of processor time of the child and all that it starts. A message with
    "limit" begins a step, which has a limit of its own.
    """
    spared = children()  # of this process, and nothing that the child starts
    receiver, sender = START.Pipe(duplex=False)
    process = START.Process(target=run_child, args=(sender, work, *given))
    process.start()
    sender.close()
    ended, lines = Ended(), b""
    try:
        for part in parts(receiver.fileno(), process, spared, limit, ended):
            lines += part
            while b"\n" in lines and ended.how == "ended":
                line, _, lines = lines.partition(b"\n")
                take(line, ended)
            if len(lines) > MOST or ended.how != "ended":
                break
    finally:
        end_all(process, spared)
        receiver.close()
    return ended


def take(line: bytes, ended: Ended) -> None:
    """Add the message in a line; one that is none ends it all."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        ended.how = "damaged"
    elif message.get("done") is True:
        ended.how = "done"
    else:
        ended.messages.append(message)


def parts(
    receiver: int, process: Any, spared: set[int], limit: float, ended: Ended
) -> Iterator[bytes]:
    """What comes through a pipe until it closes, or a limit is reached; `ended` says which."""
    count, begun, step_limit = 0, 0.0, limit
    awake_at, awake = time.monotonic(), 0.0
    parent = os.getppid()
    while True:
        if select.select([receiver], [], [], 0.5)[0]:
            if not (part := os.read(receiver, 2**16)):
                return
            yield part
        used = processor_time(children() - spared)
        for message in ended.messages[count:]:
            step = message.get("limit", step_limit)
            begun, step_limit = used, float(step) if isinstance(step, int | float) else limit
        count = len(ended.messages)
        if used > limit or used - begun > step_limit:
            ended.how = "overdue"
        elif used > awake + AWAKE:
            awake_at, awake = time.monotonic(), used
        elif time.monotonic() - awake_at > ASLEEP:
            ended.how = "asleep"
        if ended.how != "ended":
            return
        if os.getppid() != parent:  # whoever has asked is gone
            end_all(process, spared)
            os._exit(1)


def run_child(pipe: Any, work: Callable[..., None], *given: Any) -> None:
    """Run some work in the child, which has no descriptors but the pipe to its parent."""
    os.setsid()
    own, sender = os.getpid(), pipe.fileno()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    for number in range(3, 256):
        if number != sender:
            with contextlib.suppress(OSError):
                os.close(number)

    def send(message: dict[str, Any]) -> None:
        if os.getpid() != own:  # a child of a notebook that has not ended
            os._exit(1)
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(sender, data) :]

    work(send, *given)
    send({"done": True})
    os._exit(0)  # without what a notebook has registered for the end


def processor_time(roots: Iterable[int]) -> float:
    """The processor time of some processes and all that they have started, in seconds."""
    used = 0.0
    for pid in {pid for root in roots for pid in (root, *offspring(root))}:
        with contextlib.suppress(psutil.Error):
            used += sum(psutil.Process(pid).cpu_times()[:4])  # user, system, and its children's
    return used


def is_alive(process: psutil.Process) -> bool:
    """Whether a process has not ended, even if nobody has waited for it."""
    with contextlib.suppress(psutil.Error):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def children() -> set[int]:
    """The live processes that this one has started, or got from one that has ended."""
    return {each.pid for each in psutil.Process().children() if is_alive(each)}


def end_all(process: Any, spared: Iterable[int] = ()) -> None:
    """End a child, and all children of this process but those that are `spared`.

    The others are orphans that the child has left, and may start more meanwhile.
    """
    for _ in range(100):
        roots = [pid for pid in children() if pid not in spared]
        for pid in [*roots, *(child for root in roots for child in offspring(root))]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait() if isinstance(process, subprocess.Popen) else process.join()
        for pid in roots:
            with contextlib.suppress(OSError):
                os.waitpid(pid, 0)
        if not roots:
            break
    for file in (getattr(process, "stdin", None), getattr(process, "stdout", None)):
        with contextlib.suppress(OSError, AttributeError):
            file.close()  # type: ignore[union-attr]


def offspring(pid: int) -> list[int]:
    """All that a process has started."""
    with contextlib.suppress(psutil.Error):
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    return []
