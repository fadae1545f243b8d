"""A corpus of the course by name: are its files there and intact?"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from nmtcourse.corpora import find
from nmtlib.data.corpora import Source


class Report(NamedTuple):
    """What a check found: `ok` if the corpus can be loaded as it is, and one line per file."""

    ok: bool
    lines: list[str]


def check(name: str, *, root: str | Path | None = None) -> Report:
    """Which files of a corpus are there and intact; without touching the network.

    Raises ValueError for an unknown name.
    """
    source = find(name)
    lines = [_line(source, path) for path in source.paths(root)]
    if not all(line.startswith("ok") for line in lines):
        return Report(False, [*lines, f"fetch it with: nmtlib data fetch {source.name}"])
    try:
        return Report(True, [*lines, *_remarks(source, root)])
    except ValueError as error:
        return Report(False, [*lines, f"wrong     {error}"])


def _line(source: Source, path: Path) -> str:
    if not path.exists():
        return f"missing   {path} (from {source.home}/{path.name})"
    wrong = source.wrong(path)
    return f"wrong     {path}: {wrong}" if wrong else f"ok        {path}"


def _remarks(source: Source, root: str | Path | None) -> list[str]:
    """What the source itself has to say: a text without translations counts its sentences."""
    if own := getattr(source, "findings", None):
        return own(root)
    return [f"note: {note}" for note in source.read(source.folder_in(root)).notes]
