"""A student's progress, in one small file: points of the last check, hints, choices tried."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError

from nmtcourse.homework.marks import Mark
from nmtlib.files import write_atomically

FILE = "progress.json"


class Checked(BaseModel):
    """The last check of a notebook."""

    sha256: str
    marks: list[Mark]


class Progress(BaseModel):
    """What is kept: hints and choices by task, checks by the name of the notebook."""

    model_config = ConfigDict(extra="forbid")  # of another program: it is not written over

    hints: dict[str, list[int]] = {}
    choices: dict[str, list[str]] = {}
    checked: dict[str, Checked] = {}


def read(folder: Path) -> Progress:
    """The progress in a folder; empty if there is no file. Raises ValueError if damaged."""
    place = folder / FILE
    if not place.exists():
        return Progress()
    try:
        return Progress.model_validate_json(place.read_bytes())
    except ValidationError as error:
        from nmtlib.settings import explain

        raise ValueError(
            f"{place} is damaged ({explain(error)}); delete it, and check your notebooks again"
        ) from None


@contextmanager
def changing(folder: Path) -> Iterator[Progress]:
    """The progress of a folder, to be changed; it is saved at the end.

    A second process that changes it waits for the first, so that nothing is lost.
    """
    with FileLock(folder / f".{FILE}.lock", timeout=30):
        progress = read(folder)
        yield progress
        write_atomically(folder / FILE, progress.model_dump_json(indent=1) + "\n")


def place_of(id: str, folder: Path | None = None) -> Path | None:
    """The folder of a task's homework: `folder`, or this one, or `homework` below it.

    None if it was started in neither of them. Raises FileNotFoundError if `folder` is given and has
    no notebook of it.
    """
    number = id.partition(".")[0]
    notebook = f"{number}_*.ipynb"
    if folder is None:
        for place in (Path.cwd(), Path("homework")):
            if (place / FILE).exists() and any(place.glob(notebook)):
                return place
        return None
    if not any(folder.glob(notebook)):
        raise FileNotFoundError(
            f"{folder} has no notebook of homework {number}; name the folder that has it, or "
            f"begin with: nmtlib homework start {number} --out {folder}"
        )
    return folder


def count(kind: str, id: str, what: Any, folder: Path | None = None) -> None:
    """Record a hint or a choice of a task once, where `place_of` finds its homework."""
    place = place_of(id, folder)
    if place is None:
        return
    with changing(place) as progress:
        add(progress, kind, id, what)


def add(progress: Progress, kind: str, id: str, what: Any) -> None:
    """Record a hint or a choice of a task once."""
    entries = getattr(progress, kind).setdefault(id, [])
    if what not in entries:
        entries.append(what)
