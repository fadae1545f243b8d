"""Judge each notebook of a class in a process of its own, which may end in any way."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from nmtcourse.homework.grading import assignments
from nmtcourse.homework.marking import Marking
from nmtcourse.homework.marks import Marked
from nmtcourse.homework.sealing import (
    MOST,
    Result,
    close_memory,
    encodable,
    marks_of,
    new_key,
    opened,
    result_of,
    sealed,
)

START = "fork" if sys.platform == "linux" else "spawn"


@dataclass
class Entry:
    """A notebook that is graded: its bytes, the files near it, and the copies that are left out."""

    student: str
    path: Path
    raw: bytes
    near: dict[str, bytes]
    notices: list[str] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str]:
        """The student, and the number of the assignment."""
        return self.student, self.path.name.partition("_")[0]


def run_all(
    entries: list[Entry],
    seed: int,
    python: str,
    jobs: int,
    closed: str,
    done: Callable[[Entry, Marked | str], None],
) -> None:
    """Grade each entry in a process of its own, some at a time; a process may fail in any way."""
    context: Any = multiprocessing.get_context(START)
    waiting = [*reversed(entries)]
    running: dict[Any, tuple[Entry, Any, bytes]] = {}
    close_memory()
    while waiting or running:
        while waiting and len(running) < (jobs or os.cpu_count() or 1):
            entry = waiting.pop()
            receiver, sender = context.Pipe(duplex=False)
            key = new_key()
            process = context.Process(
                target=grade_entry, args=(entry, seed, python, closed, sender, key), daemon=True
            )
            process.start()
            sender.close()
            running[receiver] = (entry, process, key)
        for receiver in wait(list(running), timeout=1):
            entry, process, key = running.pop(receiver)
            done(entry, outcome_of(receiver, entry, key))
            process.kill()
            process.join()


def outcome_of(receiver: Any, entry: Entry, key: bytes) -> Marked | str:
    """What a process has found, or why it has found nothing; whatever it has sent, no error."""
    assignment = assignments()[entry.path.name.partition("_")[0]]
    try:
        result = opened(key, receiver.recv_bytes(MOST), assignment)
    except (EOFError, OSError):
        return "the process of the judge was ended, or sent something else"
    except Exception as error:
        return reason(error)
    if result.failure:
        return result.failure
    rest = result.model_dump(exclude={"failure", "marks"})
    rest["notices"] += entry.notices
    return Marked(entry.path, assignment, marks_of(result), **rest)


def grade_entry(entry: Entry, seed: int, python: str, closed: str, sender: Any, key: bytes) -> None:
    """Grade a notebook in a copy of its folder; the signed result goes to the pipe."""
    close_memory()
    os.closerange(3, sender.fileno())  # what other notebooks answer through
    os.closerange(sender.fileno() + 1, 4096)
    try:
        with tempfile.TemporaryDirectory(prefix="homework-", ignore_cleanup_errors=True) as copy:
            for name, raw in {**entry.near, entry.path.name: entry.raw}.items():
                place = Path(copy, name)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(raw)
            marking = Marking(
                entry.path, entry.raw, Path(copy), seed, python=python, closed=[closed]
            )
            result = result_of(marking.marked())
    except BaseException as error:
        result = Result(failure=encodable(reason(error)))
    sender.send_bytes(sealed(key, result))


def reason(error: BaseException) -> str:
    """Why a notebook could not be read or graded, in a line."""
    why = " ".join(str(error).split())[:300]
    return why if isinstance(error, ValueError) else f"{type(error).__name__}: {why}"
