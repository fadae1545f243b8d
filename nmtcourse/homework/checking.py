"""Check a student's notebook: ask a process of its own for the result.

Nothing here needs torch, which that process imports.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from nmtcourse.homework.apart import Host
from nmtcourse.homework.marks import Marked, require_marked
from nmtcourse.homework.notebooks import number_of, read_bytes

MARKED = "nmtcourse.homework.marking:marked"  # what a host calls
CELL_SECONDS = 60.0  # of processor time
UNGRADED = "could not be graded"
NO_RESULT = "its process sent something else than a result"


def mark(path: Path, **how: Any) -> Marked:
    """Run a notebook in its folder and judge its answers, `how` as in `mark_bytes`.

    The file is read once, before it is run. Raises FileNotFoundError for a missing file, and
    ValueError for a file that is not a notebook of an assignment, or as `mark_bytes` does.
    """
    raw = read_bytes(path)
    with Host(path.parent, MARKED) as host:
        return mark_bytes(path, raw, host, **how)


def mark_bytes(
    path: Path,
    raw: bytes,
    host: Host,
    *,
    tasks: Iterable[str] = (),
    cell_seconds: float = CELL_SECONDS,
    report: Callable[[str], object] = str,
) -> Marked:
    """The result of the notebook in some bytes, which is run by a host in its folder.

    `report` gets a line for each task as soon as it is judged. `tasks` are judged, or all. Raises
    ValueError for an unknown task, or if the process sends what is no result.
    """
    data = host.ask(
        report,
        name=str(path),
        text=raw.decode("utf-8", "surrogateescape"),
        tasks=[*tasks],
        cell_seconds=cell_seconds,
    )
    if not isinstance(data, dict):
        raise ValueError(NO_RESULT)
    if data.get("failure"):
        raise ValueError(data["failure"])
    marked = require_marked(data, path, number_of(path))
    marked.digest = hashlib.sha256(raw).hexdigest()
    return marked
