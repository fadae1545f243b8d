"""The instructor's side: grade a folder of submissions, and see what a class has misunderstood."""

from __future__ import annotations

import csv
import hashlib
import io
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from nmtlib.files import require_place, write_atomically
from nmtlib.homework.grading import assignments
from nmtlib.homework.marking import Marked, is_check, mark, read_notebook

COLUMNS = ("student", "assignment", "task", "points", "possible", "cause", "notices")


def find_submissions(folder: Path) -> dict[str, list[Path]]:
    """The notebooks of each student, who has a folder of the name below this one.

    Raises FileNotFoundError for a folder that is not there, ValueError for one without students.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    students = {
        place.name: sorted(
            path
            for path in place.rglob("*.ipynb")
            if path.name.partition("_")[0] in assignments()
            and ".ipynb_checkpoints" not in path.parts
            and path.is_file()
        )
        for place in sorted(folder.iterdir())
        if place.is_dir() and not place.name.startswith(".")
    }
    if not students:
        raise ValueError(f"{folder} has no folders; expected one for each student, by name")
    return students


def grade_all(
    folder: Path, seed: int, report: Callable[[str], None] = print
) -> list[tuple[str, Marked]]:
    """Run a notebook of each student and assignment, one after another; files are only read."""
    students, graded = find_submissions(folder), []
    for student, paths in students.items():
        if not paths:
            report(f"{student}: no notebook of an assignment")
        for path, others in one_of_each(student, paths, report):
            try:
                marked = mark(path, seed)
            except ValueError as error:
                report(f"{student}: {error}")
                continue
            if others:
                taken, *rest = (str(each.relative_to(folder / student)) for each in [path, *others])
                marked.notices.append(f"{taken} was graded, and left out: {', '.join(rest)}")
            graded.append((student, marked))
            report(f"{student}: {path.name} {marked.points:g} of {marked.assignment.points:g}")
    return graded


def one_of_each(
    student: str, paths: Iterable[Path], report: Callable[[str], None]
) -> Iterator[tuple[Path, list[Path]]]:
    """A student's notebook of each assignment that counts, and the others of it, such as copies.

    The one of the assignment's own name counts, of several the newest.  A file that is no notebook
    of an assignment is reported.
    """
    found: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        try:
            found[read_notebook(path)[1].stem].append(path)
        except ValueError as error:
            report(f"{student}: {error}")
    for stem, each in found.items():
        first, *others = sorted(each, key=lambda p: (p.stem != stem, -p.stat().st_mtime))
        yield first, others


def points_table(graded: Iterable[tuple[str, Marked]]) -> str:
    """A CSV with a row for each student and task."""
    made = io.StringIO()
    rows = csv.writer(made, lineterminator="\n")
    rows.writerow(COLUMNS)
    for student, marked in graded:
        for found in marked.marks:
            cause = found.cause if found.points < found.possible else ""
            notices = "; ".join(marked.notices)
            about = (student, marked.assignment.stem, found.task, found.points, found.possible)
            rows.writerow([*about, cause, notices])
    return made.getvalue()


def identical(graded: Iterable[tuple[str, Marked]]) -> list[str]:
    """Groups of students whose answers are the same but for layout and comments."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for student, marked in graded:
        groups[marked.assignment.stem, answers_digest(marked.path)].append(student)
    return [
        f"{stem}: the same answers from {', '.join(students)}"
        for (stem, _), students in groups.items()
        if len(students) > 1
    ]


def answers_digest(path: Path) -> str:
    """A digest of the code that a student wrote, comments and spaces left out."""
    book, _ = read_notebook(path)
    lines = [
        line.partition("#")[0].split()
        for cell in book.cells
        if cell.cell_type == "code" and not is_check(cell)
        for line in cell.source.splitlines()
    ]
    return hashlib.sha256(repr([words for words in lines if words]).encode()).hexdigest()


def misconceptions(graded: Iterable[tuple[str, Marked]]) -> list[tuple[int, str, str]]:
    """How many students have which cause of failure in which task, the most frequent first."""
    counts = Counter(
        (found.task, found.cause or found.measured)
        for _, marked in graded
        for found in marked.marks
        if found.points < found.possible
    )
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(count, task, cause) for (task, cause), count in ranked]


def class_report(graded: list[tuple[str, Marked]]) -> str:
    """A page in Markdown: points by task, misconceptions by frequency, notices."""
    by_task: dict[str, list[float]] = defaultdict(list)
    for _, marked in graded:
        for found in marked.marks:
            by_task[f"{found.task} {found.title}"].append(found.points / found.possible)
    lines = ["# The class", "", "| task | submissions | mean | full points |", "|---|---|---|---|"]
    for task, shares in sorted(by_task.items()):
        full = sum(share == 1 for share in shares)
        mean = 100 * sum(shares) / len(shares)
        lines.append(f"| {task} | {len(shares)} | {mean:.0f} % | {full} |")
    lines += [
        "",
        "## What was misunderstood",
        "",
        "| students | task | likely cause |",
        "|---|---|---|",
    ]
    lines += [f"| {count} | {task} | {cause} |" for count, task, cause in misconceptions(graded)]
    told = [f"- {student}, {m.path.name}: {n}" for student, m in graded for n in m.notices]
    told += [f"- {line}" for line in identical(graded)]
    return "\n".join([*lines, "", "## To look at", "", *(told or ["Nothing."])]) + "\n"


def draw_report(graded: list[tuple[str, Marked]], path: Path) -> None:
    """A picture of the most frequent misconceptions, a bar each.  Nothing where there are none."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    if not (found := misconceptions(graded)[:12]):
        return
    labels = [textwrap.fill(f"{task}: {cause}", 60) for _, task, cause in found]
    figure, axes = plt.subplots(figsize=(9, 1 + 0.6 * len(found)), layout="constrained")
    axes.barh(labels, [count for count, *_ in found])
    axes.invert_yaxis()
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="students", title="What was misunderstood, the most frequent first")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def report_places(table: Path) -> tuple[Path, Path, Path]:
    """Where the CSV will lie, and beside it the page and the picture.

    Raises ValueError where no table can be written, or one that the page or the picture would
    replace; FileExistsError where one of the three would be overwritten.
    """
    require_place(table, "--csv")
    page, picture = table.with_suffix(".md"), table.with_suffix(".png")
    if table.suffix.lower() in (page.suffix, picture.suffix):
        raise ValueError(
            f"--csv must be the name of a table, such as {table.with_suffix('.csv')}, not {table}: "
            f"beside it come the page {page.name} and the picture {picture.name}"
        )
    for path in (table, page, picture):
        if path.exists():
            raise FileExistsError(f"{path} is there already; name another with --csv")
    return table, page, picture


def write_reports(graded: list[tuple[str, Marked]], table: Path) -> list[Path]:
    """The CSV, and beside it the page and the picture; returns what was written.

    Raises what `report_places` does, and then writes nothing.
    """
    table, page, picture = report_places(table)
    table.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(table, points_table(graded))
    write_atomically(page, class_report(graded))
    draw_report(graded, picture)
    return [path for path in (table, page, picture) if path.exists()]
