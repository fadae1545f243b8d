"""The instructor's side: grade a folder of submissions.

All notebooks are read before the first is run. Each is run in a copy of its folder, and judged in a
process of its own, so that whatever one does costs no other student a row.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from nmtcourse.homework.execution import require_pipes
from nmtcourse.homework.grading import assignments
from nmtcourse.homework.marking import ALL_SECONDS, Marking
from nmtcourse.homework.marks import Mark, Marked
from nmtcourse.homework.mislaid import files_of, instead, is_named, printable
from nmtcourse.homework.notebooks import parsed, read_bytes
from nmtcourse.homework.task import Assignment

ANY = Assignment("any", "assignment", "", "", "")  # if no student has submitted a notebook
NEAR = 2**24  # bytes of other files that are copied with a notebook
START = "fork" if sys.platform == "linux" else "spawn"
Report = Callable[[str], None]
Results = list[tuple[str, Marked]]


def find_submissions(folder: Path) -> dict[str, list[Path]]:
    """The notebooks of each student, whose name is that of a subfolder.

    Raises FileNotFoundError for a missing folder, ValueError for one without students.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    students = {
        place.name: sorted(p for p in files_of(place) if is_named(p) and p.is_file())
        for place in sorted(folder.iterdir())
        if place.is_dir() and not place.name.startswith(".")
    }
    if not students:
        raise ValueError(f"{folder} has no subfolders; expected one for each student, by name")
    return students


@dataclass
class Entry:
    """A notebook that is graded: its bytes, the files near it, and the copies that are left out."""

    student: str
    path: Path
    raw: bytes
    near: dict[str, bytes]
    notices: list[str] = field(default_factory=list)


def grade_all(
    folder: Path,
    seed: int,
    report: Report = print,
    *,
    python: str = sys.executable,
    jobs: int = 0,
    keep: Callable[[Results], None] = lambda graded: None,
) -> Results:
    """Grade a notebook of each student and assignment; the files are only read.

    If a student's notebook cannot be graded, or is missing while others have submitted one, the
    result has no points and says why. `keep` gets the results so far. Raises ValueError on Windows.
    """
    require_pipes()
    students = find_submissions(folder)
    failed: dict[tuple[str, str], str] = {}
    entries, graded = list[Entry](), Results()

    def fail(student: str, path: Path, why: str) -> None:
        failed.setdefault((student, path.name.partition("_")[0]), why)
        report(f"{printable(student)}: {printable(why)}")

    for student, paths in students.items():
        if not paths:
            report(f"{printable(student)}: no notebook of an assignment")
        entries += read_student(folder / student, paths, partial(fail, student))
    odd = {student: instead(folder / student) for student in students}  # before anything is run

    def done(entry: Entry, found: Marked | str) -> None:
        if isinstance(found, str):
            fail(entry.student, entry.path, f"could not be graded: {found}")
        else:
            found.notices += entry.notices
            graded.append((entry.student, found))
            report(f"{printable(entry.student)}: {printable(entry.path.name)} {found.points:g}")
        keep(completed(folder, odd, graded, failed))

    run_all(entries, seed, python, jobs or os.cpu_count() or 1, str(folder.resolve()), done)
    return completed(folder, odd, graded, failed)


def completed(folder: Path, odd: dict[str, list[str]], graded: Results, failed: dict) -> Results:
    """The results with those without points, in the order of students and assignments."""
    rows = [*graded, *without_points(folder, odd, graded, failed)]
    return sorted(rows, key=lambda row: (row[0], row[1].assignment.stem))


def read_student(
    place: Path, paths: list[Path], fail: Callable[[Path, str], None]
) -> Iterator[Entry]:
    """What is graded of a student: a notebook of each assignment.

    The one with the assignment's own name is graded; of several, the newest. `fail` receives every
    file that is not a notebook of an assignment.
    """
    found: dict[str, list[tuple[Path, bytes]]] = defaultdict(list)
    for path in paths:
        try:
            raw = read_bytes(path)
            found[parsed(path, raw)[1].stem].append((path, raw))
        except Exception as error:
            fail(path, reason(error))
    for stem, each in found.items():
        each.sort(key=lambda pair: (pair[0].stem != stem, -pair[0].stat().st_mtime))
        (path, raw), *others = each
        near, notices = files_near(path)
        if others:
            taken, *rest = (str(p.relative_to(place)) for p, _ in each)
            notices.append(f"{taken} was graded, and left out: {', '.join(rest)}")
        yield Entry(place.name, path, raw, near, notices)


def reason(error: BaseException) -> str:
    """Why a notebook could not be read or graded, in a line."""
    why = " ".join(str(error).split())[:300]
    return why if isinstance(error, ValueError) else f"{type(error).__name__}: {why}"


def files_near(path: Path) -> tuple[dict[str, bytes], list[str]]:
    """The other files in the folder of a notebook, which it may read, and notices."""
    found: dict[str, bytes] = {}
    left_out, size = [], 0
    for other in sorted(files_of(path.parent)):
        if other.is_file() and other.suffix != ".ipynb":
            name = str(other.relative_to(path.parent))
            size += other.stat().st_size
            if size > NEAR:
                left_out.append(name)
            else:
                found[name] = other.read_bytes()
    return found, [f"too large to be copied: {', '.join(left_out[:5])}"] if left_out else []


def run_all(
    entries: list[Entry],
    seed: int,
    python: str,
    jobs: int,
    closed: str,
    done: Callable[[Entry, Marked | str], None],
) -> None:
    """Grade each entry in a process of its own, some at a time; a process may fail in any way."""
    context: Any = multiprocessing.get_context(START)
    waiting = [*reversed(entries)]
    running: dict[Any, tuple[Entry, Any, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            entry = waiting.pop()
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(
                target=grade_entry, args=(entry, seed, python, closed, sender), daemon=True
            )
            process.start()
            sender.close()
            running[receiver] = (entry, process, time.monotonic() + 2 * ALL_SECONDS)
        ready = wait(list(running), timeout=1)
        late = [each for each, row in running.items() if time.monotonic() > row[2]]
        for receiver in [*ready, *(each for each in late if each not in ready)]:
            entry, process, _ = running.pop(receiver)
            done(entry, outcome_of(receiver, entry, late=receiver not in ready))
            process.kill()
            process.join()


def outcome_of(receiver: Any, entry: Entry, late: bool) -> Marked | str:
    """What a process has found, or why it has found nothing."""
    if late:
        return "it took too long"
    try:
        found = receiver.recv()
    except (EOFError, OSError):
        return "the process of the judge was ended, perhaps for lack of memory"
    if isinstance(found, str):
        return found
    return Marked(entry.path, assignments()[entry.path.name.partition("_")[0]], **found)


def grade_entry(entry: Entry, seed: int, python: str, closed: str, sender: Any) -> None:
    """Grade a notebook in a copy of its folder; the result goes to the pipe."""
    try:
        with tempfile.TemporaryDirectory(prefix="homework-", ignore_cleanup_errors=True) as copy:
            for name, raw in {**entry.near, entry.path.name: entry.raw}.items():
                place = Path(copy, name)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(raw)
            marking = Marking(
                entry.path, entry.raw, Path(copy), seed, python=python, closed=[closed]
            )
            found = vars(marking.marked())
        sender.send({n: v for n, v in found.items() if n not in ("path", "assignment")})
    except BaseException as error:
        sender.send(reason(error))


def without_points(
    folder: Path,
    odd: dict[str, list[str]],
    graded: Results,
    failed: dict[tuple[str, str], str],
) -> Iterator[tuple[str, Marked]]:
    """A result for each notebook that could not be graded, or that only others have submitted."""
    done = {(student, marked.assignment.number) for student, marked in graded}
    wanted = {number for _, number in done}
    for student, files in odd.items():
        for number in sorted(wanted | {n for s, n in failed if s == student}) or [""]:
            if (student, number) in done:
                continue
            assignment = assignments().get(number, ANY)
            why = failed.get((student, number), "was not submitted")
            if files:
                why += f"; instead there is {', '.join(files)}"
            marks = [Mark(t.id, t.title, 0.0, t.points) for t in assignment.tasks.values()]
            path = folder / student / f"{assignment.stem}.ipynb"
            blank = Mark("", "", 0.0, 0.0)
            yield student, Marked(path, assignment, marks or [blank], [why], was_run=False)
