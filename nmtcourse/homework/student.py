"""The student's side: start an assignment, check it, see the progress."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nmtcourse.homework import progress
from nmtcourse.homework.catalogue import assignment, stems
from nmtcourse.homework.chinese import Say, language_of, speaks
from nmtcourse.homework.marks import Marked, table_line
from nmtcourse.homework.notebooks import number_in
from nmtlib.errors import did_you_mean
from nmtlib.files import write_atomically

if TYPE_CHECKING:
    from nmtcourse.homework.task import Assignment

HERE = Path(__file__).parent
TUTOR = {"en": HERE / "AGENTS.md", "zh": HERE / "zh" / "AGENTS.md"}  # what assistants read


def start(number: str, folder: Path, language: str = "en") -> Path:
    """Write the student's notebook of an assignment into a folder and return its path.

    `language` is "en" or "zh".

    Raises ValueError for an unknown assignment and FileExistsError if the notebook exists.
    """
    from nmtcourse.homework import pages

    assignment = find_assignment(number)
    place = folder / f"{assignment.stem}.ipynb"
    if place.exists():
        raise FileExistsError(
            f"{place} exists already and contains your work; move it away to begin again"
        )
    folder.mkdir(parents=True, exist_ok=True)
    tutor = TUTOR[language]
    if not (folder / tutor.name).exists():
        write_atomically(folder / tutor.name, tutor.read_bytes())
    with progress.changing(folder):
        if place.exists():  # another process has begun it
            raise FileExistsError(f"{place} exists already; move it away to begin again")
        page = pages.notebook(assignment, language=language)
        write_atomically(place, page)  # a full disk leaves no empty one
    return place


def find_assignment(number: str) -> Assignment:
    """The assignment with that number ('04', '4') or name ('attention')."""
    by_name = {stem.partition("_")[2]: key for key, stem in stems().items()}
    key = by_name.get(number, number.zfill(2))
    if key not in stems():
        hint = did_you_mean(number, by_name)
        numbers = ", ".join(stems())
        raise ValueError(f"there is no assignment {number!r}{hint}; choose one of {numbers}")
    return assignment(key)


def keep(marked: Marked, whole: bool = True) -> None:
    """Save the points of a notebook and the letters chosen in its folder, for `status`.

    If it is not `whole`, the points of other tasks are as they were.

    Raises ValueError if the progress file is damaged, OSError if it cannot be written.
    """
    marks = [replace(mark, text="") for mark in marked.marks]
    with progress.changing(marked.path.parent) as saved:
        checked = progress.Checked(sha256=marked.digest, marks=marks)
        if not whole:
            before = saved.checked.get(marked.path.name)
            if before is None:
                before = progress.Checked(sha256="", marks=[])
            merged = {mark.task: mark for mark in [*before.marks, *marks]}
            # With the digest of before: the other marks are of that version of the notebook.
            checked = before.model_copy(update={"marks": [merged[id] for id in sorted(merged)]})
        saved.checked[marked.path.name] = checked
        for id, letter in marked.choices.items():
            progress.add(saved, "choices", id, letter)


def shown(marked: Marked) -> str:
    """The verdicts on all tasks, notices about the file, and a table of points."""
    say = speaks(marked.language)
    possible = sum(mark.possible for mark in marked.marks)
    parts = [mark.text or f"{mark.task} {mark.title}: {mark.measured}" for mark in marked.marks]
    parts += [f"{say('Note: ')}{say(notice)}{say('.')}" for notice in marked.notices]
    table = [table_line(mark, say) for mark in marked.marks]
    total = say(f"total: {marked.points:g} of {possible:g}, in {marked.seconds:.0f} s")
    return "\n\n".join([*parts, "\n".join([*table, total])])


def status(folder: Path) -> str:
    """A table of the notebooks in a folder: points, hints used, choices tried, next step."""
    saved = progress.read(folder)
    next_step = ""
    say = speaks("en")
    rows: list[str] = []
    for path in sorted(folder.glob("*.ipynb")):
        if number_in(path) not in stems():
            continue
        homework = assignment(number_in(path))
        if not rows:  # all rows speak as the first page does
            say = speaks(language_of(path.read_bytes()))
        checked = saved.checked.get(path.name)
        hints = sum(len(saved.hints.get(id, [])) for id in homework.tasks)
        choices = sum(len(saved.choices.get(id, [])) for id in homework.tasks)
        points, state = "-", "not checked yet"
        if checked:
            points = f"{round(sum(mark.points or 0 for mark in checked.marks), 1):g}"
            changed = checked.sha256 != digest(path)
            state = "changed since it was checked" if changed else "checked"
        possible = f"{say('of')} {homework.points:g}"
        used = say(f"hints {hints}  choices {choices}")
        rows.append(f"{path.name:<34} {points:>4} {possible}  {used}  {say(state)}")
        next_step = next_step or _next_step(path, checked, state, say)
    if not rows:
        none = f"no assignment in {folder}; begin with: nmtlib homework start 01 --out {folder}"
        return speaks(language_of())(none)
    return "\n".join([*rows, say("next: ") + (next_step or say("everything here is done"))])


def _next_step(path: Path, checked: progress.Checked | None, state: str, say: Say) -> str:
    """The next step in a notebook, or ''."""
    if state != "checked" or not checked:
        return f"nmtlib homework check {path}"
    for mark in checked.marks:
        if not mark.full:
            return f"{mark.task} {say(mark.title)} ({path.name})"
    return ""


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
