"""A student's progress, in one small file: points of the last check, hints, choices tried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nmtlib.files import write_atomically

FILE = "progress.json"
KINDS = ("hints", "choices", "checked")


def read(folder: Path) -> dict[str, Any]:
    """The progress in a folder; empty if there is no file. Raises ValueError if damaged."""
    place = folder / FILE
    if not place.exists():
        return {kind: {} for kind in KINDS}
    try:
        found = json.loads(place.read_text("utf-8"))
        known = {kind: dict(found.get(kind, {})) for kind in KINDS}
        for kept in (*known["hints"].values(), *known["choices"].values()):
            _require(list, kept)
        for checked in known["checked"].values():
            _require(str, checked["sha256"])
            for mark in checked["marks"]:
                _require(str, mark["task"], mark["title"])
                _require((int, float), mark["points"], mark["possible"])
        return known
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{place} is damaged ({error!r}); delete it, and check your notebooks again"
        ) from None


def _require(kind: type | tuple[type, ...], *values: Any) -> None:
    """Raise TypeError for a value of the wrong type."""
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(f"{value!r} is not allowed there")


def write(folder: Path, progress: dict[str, Any]) -> None:
    """Save the progress of a folder."""
    write_atomically(folder / FILE, json.dumps(progress, indent=1) + "\n")


def place_of(id: str, folder: Path | None = None) -> Path | None:
    """The folder of a task's homework: `folder`, or this one, or `homework` below it.

    None if it was started in neither of them. Raises FileNotFoundError if `folder` is given and has
    no notebook of it.
    """
    number = id.partition(".")[0]
    notebook = f"{number}_*.ipynb"
    if folder is None:
        started = (p for p in (Path.cwd(), Path("homework")) if (p / FILE).exists())
        return next((place for place in started if any(place.glob(notebook))), None)
    if not any(folder.glob(notebook)):
        raise FileNotFoundError(
            f"{folder} has no notebook of homework {number}; name the folder that has it, or "
            f"begin with: nmtlib homework start {number} --out {folder}"
        )
    return folder


def count(kind: str, id: str, what: Any, folder: Path | None = None) -> None:
    """Record a hint or a choice of a task once, where `place_of` finds its homework."""
    if (place := place_of(id, folder)) is None:
        return
    progress = read(place)
    kept = progress[kind].setdefault(id, [])
    if what not in kept:
        kept.append(what)
        write(place, progress)
