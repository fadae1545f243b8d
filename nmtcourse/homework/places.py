"""Check where a command may write before it starts its work."""

from __future__ import annotations

import os
from pathlib import Path


def require_place(path: Path, option: str) -> None:
    """Raise ValueError naming an option where no file can be written.

    Missing folders are no obstacle, and neither is a file that would be replaced.
    """
    above = next(place for place in path.absolute().parents if place.exists())
    why = ""
    if path.is_dir():
        why = f"{path} is a folder"
    elif not above.is_dir():
        why = f"{above} is a file and no folder"
    elif not os.access(above, os.W_OK):
        why = f"the folder {above} cannot be written"
    if why:
        raise ValueError(f"{option} must be a file that can be written, and {why}; choose another")
