"""What commands of the course write, and how each knows a file of its own."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from nmtlib.files import OutFile, OutFolder, has_keys, has_mark, is_any, is_stamped

PICTURE_MARK = "drawn by nmtlib data check"


def has_notes(path: Path) -> bool:
    """Whether a file of pairs has the notes of an interrupted call beside it."""
    return has_keys("sentences", "search", "done")(path.with_name(f"{path.name}.json"))


NEW_FOLDER = OutFolder("new folder")
MIXED_FOLDER = OutFolder("folder", is_ours=is_any)  # no file in it is written over
PAGE = OutFile("unchanged page of the explorer", is_ours=is_stamped)
PAIRS = OutFile("file of pairs that backtranslate began", is_ours=has_notes)
PICTURE = OutFile("picture of data check", is_ours=has_mark(PICTURE_MARK))


def lab_command(notebook: Path) -> str:
    """The command that opens a notebook: the JupyterLab of this Python, where no other is found."""
    beside = Path(sys.executable).with_name("jupyter")
    found = shutil.which("jupyter") or not beside.is_file()
    return f"{'jupyter' if found else os.path.relpath(beside)} lab {notebook}"
