"""Where a command may write: checked before the work, not after."""

from __future__ import annotations

import os
from pathlib import Path


def require_place(path: Path, option: str) -> None:
    """Raise ValueError that names an option if no file can be written.

    Missing folders are created, and an existing file may be replaced.
    """
    above = next(place for place in path.absolute().parents if place.exists())
    why = ""
    if path.is_dir():
        why = f"{path} is a folder"
    elif not above.is_dir():
        why = f"{above} is a file, not a folder"
    elif not os.access(above, os.W_OK):
        why = f"the folder {above} is not writable"
    if why:
        raise ValueError(f"{option} must be a writable file, but {why}; choose a different one")
