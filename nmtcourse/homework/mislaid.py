"""The files of a student: which are notebooks of an assignment, and what the others are."""

from __future__ import annotations

import json
import re
from pathlib import Path

from nmtcourse.homework.grading import assignments
from nmtcourse.homework.notebooks import MOST, number_in

CHECKPOINTS = ".ipynb_checkpoints"
KINDS = {
    ".zip .tar .gz .tgz .7z .rar .xz .bz2": "an archive: unpack it",
    ".ipynb.txt .ipynb.json": "a notebook with another ending: remove it",
    ".py": "a Python file, not a notebook: ask for the .ipynb",
    ".md .markdown": "Markdown, not a notebook: ask for the .ipynb",
    ".html .pdf": "a printed page, not a notebook: ask for the .ipynb",
}


def what_it_is(path: Path) -> str:
    """What a file that is no notebook of an assignment seems to be, and what to do; or ''."""
    name = path.name.lower()
    for ends, about in KINDS.items():
        if name.endswith(tuple(ends.split())):
            return about
    if name.endswith(".ipynb"):
        return f"a notebook under another name{assignment_inside(path)}"
    return ""


def assignment_inside(path: Path) -> str:
    """The name that a notebook should have, by its checks; or ''."""
    try:
        text = path.read_text("utf-8") if path.is_file() and path.stat().st_size <= MOST else ""
        cells = json.loads(text)["cells"]
        text = " ".join("".join(cell["source"]) for cell in cells)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ""
    ids = re.findall(r'grade\("(\d\d)\.\d"', text)
    known = {assignments()[id].stem for id in ids if id in assignments()}
    return f": rename it to {known.pop()}.ipynb" if len(known) == 1 else ""


def files_of(place: Path) -> list[Path]:
    """What is below a student's folder; links that lead out of it are left out."""
    inside = place.resolve()
    found = (p for p in place.rglob("*") if CHECKPOINTS not in p.parts)
    return [path for path in found if inside in path.resolve().parents]


def is_named(path: Path) -> bool:
    """Whether a file is named as the notebook of an assignment."""
    return path.suffix == ".ipynb" and number_in(path) in assignments()


def instead(folder: Path) -> list[str]:
    """The files of a student that are no notebooks of an assignment, and what they are."""
    inside, found = {*files_of(folder)}, list[str]()
    for path in sorted(folder.rglob("*")):
        if CHECKPOINTS in path.parts or is_named(path) and path in inside:
            continue
        if about := what_it_is(path) if path in inside else "a link to another place":
            found.append(f"{path.name} ({about})")
    return found[:5]


def printable(text: str) -> str:
    """A text in one line that any output can show: file names may have any bytes."""
    lone = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # those of a file name are others
    text = lone.sub(lambda found: f"\\u{ord(found[0]):x}", text)
    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
