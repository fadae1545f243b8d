"""The instructor's side: grade a folder of submissions.

All notebooks are read before the first is run. Each is run in a copy of its folder, and judged in a
process of its own, so that whatever one does costs no other student a row.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from nmtcourse.homework.answers import definitions
from nmtcourse.homework.apart import Host, require_processes, stop_all
from nmtcourse.homework.catalogue import assignment as find_assignment
from nmtcourse.homework.catalogue import stems
from nmtcourse.homework.checking import MARKED, UNGRADED, mark_bytes
from nmtcourse.homework.marks import NONE, Mark, Marked
from nmtcourse.homework.mislaid import files_of, instead, is_named, printable
from nmtcourse.homework.notebooks import number_in, parsed, read_bytes, steps_of
from nmtcourse.homework.task import Assignment
from nmtlib.errors import require
from nmtlib.files import write_atomically

WAITING = "not graded yet"
NEAR = 2**24  # bytes of other files that are copied with a notebook
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


def grade_all(
    folder: Path,
    report: Report = print,
    *,
    jobs: int = 0,
    keep: Callable[[Results], object] = lambda graded: None,
    only: str = "",
) -> Results:
    """Grade a notebook of each student, or of one, and assignment; the files are only read.

    If a student's notebook cannot be graded, or is missing while others have submitted one, the
    result has no points and says why. `keep` gets the results so far. Raises ValueError on Windows.
    """
    require_processes()
    students = find_submissions(folder)
    entries = list[Entry]()
    if only:
        require(only in students, "--student", f"a folder in {folder}", only)
        students = {only: students[only]}
    failed: dict[tuple[str, str], str] = {}  # by student and number

    def fail(student: str, path: Path, why: str) -> None:
        failed.setdefault((student, number_in(path)), why)
        report(f"{printable(student)}: {printable(why)}")

    for student, paths in students.items():
        if not paths:
            report(f"{printable(student)}: no notebook of an assignment")
        entries += read_student(folder / student, paths, partial(fail, student))
    rows: dict[tuple[str, str], Marked] = {}
    numbers = sorted({number for _, number in [*failed, *(entry.key for entry in entries)]})
    for student in students:
        for number in numbers or [""]:
            why = failed.get((student, number), "was not submitted")
            others = instead(folder / student)  # looked for before anything is run
            if others:
                why += f"; instead there is {', '.join(others)}"
            rows[student, number] = without_points(folder, student, number, why)
    for entry in entries:
        rows[entry.key] = without_points(folder, *entry.key, WAITING)

    def results() -> Results:
        return [(student, marked) for (student, _), marked in rows.items()]

    def take_result(entry: Entry, result: Marked | str) -> None:
        if isinstance(result, str):
            fail(entry.student, entry.path, f"{UNGRADED}: {result}")
            result = without_points(folder, *entry.key, failed[entry.key])
        else:
            report(f"{printable(entry.student)}: {printable(entry.path.name)} {result.points:g}")
        rows[entry.key] = result
        keep(results())

    judge_all(entries, jobs, take_result)
    return results()


def without_points(folder: Path, student: str, number: str, why: str) -> Marked:
    """The result of a notebook that was not graded.

    What is unknown is no verdict: one that could not be graded, or is not graded yet, has no points
    rather than 0.
    """
    tasks = [*find_assignment(number).tasks.values()] if number in stems() else []
    points = None if why.startswith((WAITING, UNGRADED)) else 0.0
    marks = [Mark(t.id, t.title, points, t.points) for t in tasks]
    path = folder / student / f"{stems().get(number, NONE)}.ipynb"
    return Marked(path, number, marks or [Mark("", "", 0.0, 0.0)], [why], was_run=False)


def read_student(
    place: Path, paths: list[Path], fail: Callable[[Path, str], None]
) -> Iterator[Entry]:
    """What is graded of a student: a notebook of each assignment.

    One that was worked on counts before untouched ones: a browser names a second download
    "04_attention (1).ipynb". Of several, the one with the assignment's own name is graded,
    otherwise the one with the highest number in its name. `fail` receives every file that is not
    a notebook of an assignment, and those of which none is the last.
    """
    by_stem: dict[str, list[Candidate]] = defaultdict(list)
    for path in paths:
        try:
            raw = read_bytes(path)
            cells, assignment = parsed(path, raw)
            rank = rank_copy(path, assignment.stem, is_worked_on(cells, assignment))
            by_stem[assignment.stem].append(Candidate(path, raw, rank))
        except Exception as error:
            fail(path, reason(error))
    for stem, candidates in by_stem.items():
        candidates.sort(key=lambda candidate: candidate.rank, reverse=True)
        best, *others = candidates
        names = [str(candidate.path.relative_to(place)) for candidate in candidates]
        if others and best.rank == others[0].rank:
            why = f"{UNGRADED}: there are {', '.join(names)}; keep one, named {stem}.ipynb"
            fail(best.path, why)
            continue
        near, notices = files_near(best.path)
        if others:
            notices.append(f"{names[0]} was graded, and left out: {', '.join(names[1:])}")
        changed = datetime.fromtimestamp(best.path.stat().st_mtime).astimezone()
        submitted = changed.isoformat(timespec="seconds")
        yield Entry(place.name, best.path, best.raw, near, notices, submitted)


class Candidate(NamedTuple):
    """A notebook of an assignment, one of perhaps several; the one of the highest rank counts."""

    path: Path
    raw: bytes
    rank: tuple[bool, bool, int]


def rank_copy(path: Path, stem: str, worked_on: bool) -> tuple[bool, bool, int]:
    """What decides between copies: that it was worked on, has the right name, or a high number.

    04_attention.ipynb        worked on     (True, True, 0)      is graded
    04_attention (2).ipynb    worked on     (True, False, 2)
    04_attention (1).ipynb    worked on     (True, False, 1)
    04_attention (3).ipynb    untouched     (False, False, 3)
    """
    if path.stem == stem:
        return worked_on, True, 0
    return worked_on, False, version(path)


def is_worked_on(cells: Any, assignment: Assignment) -> bool:
    """Whether a notebook has an answer that is not as the page gives it."""
    stubs: dict[str, str] = {}
    for task in assignment.tasks.values():
        stubs |= definitions(task.student_source)
    answers = dict(stubs)
    for source, id in steps_of(cells, assignment):
        if not id:
            answers |= definitions(source)
    return any(answers[name] != stub for name, stub in stubs.items())


def version(path: Path) -> int:
    """The number that ends a file's name, as in 04_attention-Copy2.ipynb; 0 without one."""
    number = re.search(r"(\d+)\D*$", path.stem.partition("_")[2])
    return int(number[1]) if number else 0


def files_near(path: Path) -> tuple[dict[str, bytes], list[str]]:
    """The other files in the folder of a notebook, which it may read, and notices."""
    contents: dict[str, bytes] = {}
    too_large = []
    size = 0
    for file in sorted(files_of(path.parent)):
        if file.is_file() and file.suffix != ".ipynb":
            name = str(file.relative_to(path.parent))
            size += file.stat().st_size
            if size > NEAR:
                too_large.append(name)
            else:
                contents[name] = file.read_bytes()
    notices = []
    if too_large:
        notices.append(f"too large to be copied: {', '.join(too_large[:5])}")
    return contents, notices


@dataclass
class Entry:
    """A notebook that is graded: its bytes, the files near it, and the copies that are left out."""

    student: str
    path: Path
    raw: bytes
    near: dict[str, bytes]
    notices: list[str] = field(default_factory=list)
    submitted: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The student, and the number of the assignment."""
        return self.student, number_in(self.path)


def judge_all(
    entries: Sequence[Entry], jobs: int, take_result: Callable[[Entry, Marked | str], None]
) -> None:
    """Mark each entry, and call `take_result` with it and its result, or why it has none.

    If this is interrupted, all processes are ended.
    """
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        running = {pool.submit(judge_entry, entry): entry for entry in entries}
        try:
            while running:
                # The timeout lets this thread see Ctrl-C.
                for future in wait(running, timeout=1, return_when=FIRST_COMPLETED).done:
                    take_result(running.pop(future), future.result())
        except BaseException:
            for future in running:
                future.cancel()
            stop_all()
            raise


def judge_entry(entry: Entry) -> Marked | str:
    """The result of an entry, or why it has none: whatever happens, no error."""
    try:
        with tempfile.TemporaryDirectory(prefix="homework-", ignore_cleanup_errors=True) as copy:
            for name, raw in {**entry.near, entry.path.name: entry.raw}.items():
                place = Path(copy, name)
                place.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(place, raw)
            with Host(Path(copy), MARKED) as host:
                marked = mark_bytes(entry.path, entry.raw, host)
    except Exception as error:
        return reason(error)
    marked.notices += entry.notices
    marked.submitted = entry.submitted
    return marked


def reason(error: BaseException) -> str:
    """Why a notebook could not be read or graded, in a line."""
    why = " ".join(str(error).split())[:300]
    if isinstance(error, ValueError):  # our own errors say it all
        return why
    return f"{type(error).__name__}: {why}"
