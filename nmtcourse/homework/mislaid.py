"""The files of a student: which are notebooks of an assignment, and what the others are."""

from __future__ import annotations

import json
import re
from pathlib import Path

from nmtcourse.homework.catalogue import assignments
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
        if not path.is_file() or path.stat().st_size > MOST:
            return ""
        cells = json.loads(path.read_text("utf-8"))["cells"]
        text = " ".join("".join(cell["source"]) for cell in cells)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ""
    ids = re.findall(r'grade\("(\d\d)\.\d"', text)
    stems = {assignments()[id].stem for id in ids if id in assignments()}
    if len(stems) != 1:
        return ""
    return f": rename it to {stems.pop()}.ipynb"


def files_of(place: Path) -> list[Path]:
    """What is below a student's folder; links that lead out of it are left out."""
    inside = place.resolve()
    paths = [path for path in place.rglob("*") if CHECKPOINTS not in path.parts]
    return [path for path in paths if inside in path.resolve().parents]


def is_named(path: Path) -> bool:
    """Whether a file is named as the notebook of an assignment."""
    return path.suffix == ".ipynb" and number_in(path) in assignments()


def instead(folder: Path) -> list[str]:
    """The files of a student that are no notebooks of an assignment, and what they are."""
    inside = {*files_of(folder)}
    descriptions = []
    for path in sorted(folder.rglob("*")):
        if CHECKPOINTS in path.parts or (is_named(path) and path in inside):
            continue
        about = "a link to another place"
        if path in inside:
            about = what_it_is(path)
        if about:
            descriptions.append(f"{path.name} ({about})")
    return descriptions[:5]


def printable(text: str) -> str:
    """A text in one line that any output can show: file names may have any bytes."""
    lone = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # those of a file name are others
    text = lone.sub(lambda match: f"\\u{ord(match[0]):x}", text)
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    characters = []
    for character in text:
        if not character.isprintable():
            character = character.encode("unicode_escape").decode()
        characters.append(character)
    return "".join(characters)
