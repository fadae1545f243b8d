"""The instructor's side: grade a folder of submissions and count the misconceptions."""

from __future__ import annotations

import csv
import io
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from nmtcourse.homework.grading import assignments
from nmtcourse.homework.marking import Mark, Marked, mark
from nmtcourse.homework.notebooks import read_notebook, written_answers
from nmtcourse.homework.places import require_place
from nmtcourse.homework.task import Assignment
from nmtlib.files import write_atomically

COLUMNS = ("student", "assignment", "task", "points", "possible", "cause", "notices")
ANY = Assignment("any", "assignment", "", "", "")  # if no student has submitted a notebook


def find_submissions(folder: Path) -> dict[str, list[Path]]:
    """The notebooks of each student, whose name is that of a subfolder.

    Raises FileNotFoundError for a missing folder, ValueError for one without students.
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
        raise ValueError(f"{folder} has no subfolders; expected one for each student, by name")
    return students


def grade_all(
    folder: Path, seed: int, report: Callable[[str], None] = print
) -> list[tuple[str, Marked]]:
    """Run a notebook of each student and assignment, one after another; files are only read.

    If a student's notebook cannot be run, or is missing while others have submitted one, the result
    has no points and says why.
    """
    students, graded = find_submissions(folder), []
    failed: dict[tuple[str, str], str] = {}  # why, by student and number of the assignment

    def fail(student: str, path: Path, error: Exception) -> None:
        why = " ".join(str(error).split())[:300]
        why = why if isinstance(error, ValueError) else f"{type(error).__name__}: {why}"
        failed.setdefault((student, path.name.partition("_")[0]), why)
        report(f"{student}: {why}")

    for student, paths in students.items():
        if not paths:
            report(f"{student}: no notebook of an assignment")
        for path, others in one_of_each(paths, partial(fail, student)):
            try:
                marked = mark(path, seed)
            except Exception as error:  # whatever one file does, the class is graded
                fail(student, path, error)
                continue
            if others:
                taken, *rest = (str(each.relative_to(folder / student)) for each in [path, *others])
                marked.notices.append(f"{taken} was graded, and left out: {', '.join(rest)}")
            graded.append((student, marked))
            report(f"{student}: {path.name} {marked.points:g} of {marked.assignment.points:g}")
    return sorted([*graded, *without_points(folder, [*students], graded, failed)], key=by_student)


def by_student(result: tuple[str, Marked]) -> tuple[str, str]:
    """The order of results."""
    return result[0], result[1].assignment.stem


def without_points(
    folder: Path,
    students: Iterable[str],
    graded: list[tuple[str, Marked]],
    failed: dict[tuple[str, str], str],
) -> Iterator[tuple[str, Marked]]:
    """A result for each notebook that could not be run, or that only others have submitted."""
    done = {(student, marked.assignment.number) for student, marked in graded}
    wanted = {number for _, number in done}
    for student in students:
        for number in sorted(wanted | {n for s, n in failed if s == student}) or [""]:
            if (student, number) in done:
                continue
            assignment = assignments().get(number, ANY)
            why = failed.get((student, number), "was not submitted")
            if odd := misnamed(folder / student):
                why += f"; not named as an assignment: {', '.join(odd)}"
            marks = [Mark(t.id, t.title, 0.0, t.points) for t in assignment.tasks.values()]
            path = folder / student / f"{assignment.stem}.ipynb"
            blank = Mark("", "", 0.0, 0.0)
            yield student, Marked(path, assignment, marks or [blank], [why], was_run=False)


def misnamed(folder: Path) -> list[str]:
    """The names of notebooks below a folder that do not begin like those of an assignment."""
    paths = [p for p in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts]
    return sorted(p.name for p in paths if p.name.partition("_")[0] not in assignments())


def one_of_each(
    paths: Iterable[Path], fail: Callable[[Path, Exception], None]
) -> Iterator[tuple[Path, list[Path]]]:
    """A student's graded notebook of each assignment, and the others of it, such as copies.

    The one with the assignment's own name is graded; of several, the newest. `fail` receives every
    file that is not a notebook of an assignment.
    """
    found: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        try:
            found[read_notebook(path)[1].stem].append(path)
        except Exception as error:
            fail(path, error)
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
    """Groups of students whose answers are the same apart from comments and layout."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for student, marked in graded:
        if marked.was_run and (answers := written_answers(marked.path)):
            groups[marked.assignment.stem, repr(answers)].append(student)
    return [
        f"{stem}: the same answers from {', '.join(students)}"
        for (stem, _), students in groups.items()
        if len(students) > 1
    ]


def misconceptions(graded: Iterable[tuple[str, Marked]]) -> list[tuple[int, str, str]]:
    """How many students failed a task for each cause, the most frequent first."""
    counts = Counter(
        (found.task, found.cause or found.measured)
        for _, marked in graded
        for found in marked.marks
        if marked.was_run and found.points < found.possible
    )
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(count, task, cause) for (task, cause), count in ranked]


def class_report(graded: list[tuple[str, Marked]]) -> str:
    """A page in Markdown: points by task, misconceptions by frequency, notices."""
    by_task: dict[str, list[float]] = defaultdict(list)
    for _, marked in graded:
        for found in marked.marks if marked.was_run else []:
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
    """A bar chart of the most frequent misconceptions. Nothing if there are none."""
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
    """The paths of the CSV and of the page and picture next to it.

    Raises ValueError if the table cannot be written or would be replaced by the page or the
    picture, FileExistsError if one of the three exists.
    """
    require_place(table, "--csv")
    page, picture = table.with_suffix(".md"), table.with_suffix(".png")
    if table.suffix.lower() in (page.suffix, picture.suffix):
        raise ValueError(
            f"--csv must be the name of a table, such as {table.with_suffix('.csv')}, not "
            f"{table}: the page {page.name} and the picture {picture.name} are written next "
            "to it"
        )
    for path in (table, page, picture):
        if path.exists():
            raise FileExistsError(f"{path} exists already; give a different name with --csv")
    return table, page, picture


def write_reports(graded: list[tuple[str, Marked]], table: Path) -> list[Path]:
    """Write the CSV, the page and the picture; returns the written paths.

    Raises what `report_places` does, and then writes nothing.
    """
    table, page, picture = report_places(table)
    table.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(table, points_table(graded))
    write_atomically(page, class_report(graded))
    draw_report(graded, picture)
    return [path for path in (table, page, picture) if path.exists()]
