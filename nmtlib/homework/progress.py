"""What a student has done: points of the last check, and hints asked for, in one small file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nmtlib.files import write_atomically

FILE = "progress.json"


def read(folder: Path) -> dict[str, Any]:
    """What is known of a folder; nothing where there is no file.  Raises ValueError if damaged."""
    place = folder / FILE
    if not place.exists():
        return {"hints": {}, "checked": {}}
    try:
        found = json.loads(place.read_text("utf-8"))
        return {"hints": dict(found["hints"]), "checked": dict(found["checked"])}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{place} is damaged ({error!r}); delete it, and check your notebooks again"
        ) from None


def write(folder: Path, progress: dict[str, Any]) -> None:
    """Keep what is known of a folder."""
    write_atomically(folder / FILE, json.dumps(progress, indent=1) + "\n")


def count_hint(id: str, number: int) -> None:
    """Count a hint in the current folder, if homework was started there."""
    folder = Path.cwd()
    if (folder / FILE).exists():
        progress = read(folder)
        asked = progress["hints"].setdefault(id, [])
        if number not in asked:
            asked.append(number)
            write(folder, progress)
