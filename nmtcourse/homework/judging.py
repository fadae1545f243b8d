"""Mark the notebooks of a class, some at a time, each in a copy of its folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from nmtcourse.homework.apart import Host, stop_all
from nmtcourse.homework.marking import mark_bytes
from nmtcourse.homework.marks import Marked


@dataclass
class Entry:
    """A notebook that is graded: its bytes, the files near it, and the copies that are left out."""

    student: str
    path: Path
    raw: bytes
    near: dict[str, bytes]
    notices: list[str] = field(default_factory=list)
    submitted: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The student, and the number of the assignment."""
        return self.student, self.path.name.partition("_")[0]


def judge_all(
    entries: Sequence[Entry], seed: int, jobs: int, done: Callable[[Entry, Marked | str], None]
) -> None:
    """Mark each entry, and call `done` with it and with its result, or why it has none.

    If this is interrupted, all processes are ended.
    """
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        left = {pool.submit(judge_entry, entry, seed): entry for entry in entries}
        try:
            while left:
                for future in wait(left, timeout=1, return_when=FIRST_COMPLETED).done:
                    done(left.pop(future), future.result())
        except BaseException:
            for future in left:
                future.cancel()
            stop_all()
            raise


def judge_entry(entry: Entry, seed: int) -> Marked | str:
    """The result of an entry, or why it has none: whatever happens, no error."""
    try:
        with tempfile.TemporaryDirectory(prefix="homework-", ignore_cleanup_errors=True) as copy:
            for name, raw in {**entry.near, entry.path.name: entry.raw}.items():
                place = Path(copy, name)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(raw)
            with Host(Path(copy)) as host:
                marked = mark_bytes(entry.path, entry.raw, host, seed, confirmed=True)
    except Exception as error:
        return reason(error)
    marked.notices += entry.notices
    marked.submitted = entry.submitted
    return marked


def reason(error: BaseException) -> str:
    """Why a notebook could not be read or graded, in a line."""
    why = " ".join(str(error).split())[:300]
    return why if isinstance(error, ValueError) else f"{type(error).__name__}: {why}"
