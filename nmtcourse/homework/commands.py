"""The command `nmtlib homework`: its options, and what they do."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace, _SubParsersAction
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nmtcourse.outputs import MIXED_FOLDER, lab_command
from nmtlib.cli import add_command
from nmtlib.errors import require
from nmtlib.files import OutFile, OutFolder, has_keys, is_stamped, stamp, write_output


def is_board(path: Path) -> bool:
    """Whether each line of a file has what an entry of a leaderboard has, right or wrong."""
    lines = path.read_text("utf-8").splitlines()
    return all({"bleu", "signature"} <= json.loads(line).keys() for line in lines if line.strip())


def is_table(path: Path) -> bool:
    """Whether a file has the columns of a table of points."""
    from nmtcourse.homework import gradebook

    return bool(gradebook.read_table(path, gradebook.COLUMNS))


def is_sheet(kind: str) -> Callable[[Path], bool]:
    """Whether a file has the columns that we write for a platform, in our order."""

    def is_ours(path: Path) -> bool:
        from nmtcourse.homework.gradebook import SHEETS

        with path.open(encoding="utf-8-sig") as file:
            return file.readline().startswith(",".join(SHEETS[kind]))

    return is_ours


def is_feedback(folder: Path) -> bool:
    """Whether nobody has written into a page of a folder."""
    return all(map(is_stamped, folder.glob("*.md")))


TABLE = OutFile("table of points", is_ours=is_table)
BOARD = OutFile("leaderboard", is_ours=is_board)
RESULTS = OutFile("results.json of this command", is_ours=has_keys("score", "output", "tests"))
FEEDBACK = OutFolder("folder of unchanged feedback", is_ours=is_feedback)
CANVAS = OutFile("Canvas table", is_ours=is_sheet("canvas"))
MOODLE = OutFile("Moodle table", is_ours=is_sheet("moodle"))


def add_homework(commands: _SubParsersAction) -> None:
    """Add the command and its actions."""
    about = "do homework, check it, or grade a class"
    command = add_command(commands, "homework", command_homework, about)
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")

    def add(name: str, help: str) -> Callable:
        return actions.add_parser(name, help=help, description=help).add_argument

    option = add("start", "write the notebook of an assignment; never over an existing one")
    option("assignment", help="its number, such as 04, or its name")
    option(
        "--out", type=MIXED_FOLDER, default="homework", metavar="DIR", help="(default: homework)"
    )
    option("--lang", choices=["en", "zh"], help="of the page and its checks (default: NMTLIB_LANG)")
    option = add("check", "run your notebook and print its points; exit status 1 unless full")
    option("notebook", type=Path)
    option("tasks", nargs="*", metavar="TASK", help="such as 04.2 (default: all)")
    option("--gradescope", type=RESULTS, metavar="FILE", help="write results.json")
    option("--lang", choices=["en", "zh"], help="of what is printed (default: that of the page)")
    option = add("hint", "print a hint for a task")
    option("task", help="such as 04.2")
    option("number", type=int, nargs="?", default=1, help="1 or 2")
    option("--folder", type=Path, metavar="DIR", help="where it counts (default: . or homework)")
    option = add("status", "show what is done in a folder, and what comes next")
    option("folder", type=Path, nargs="?", default=Path("homework"))
    option = add("patient", "write your personal patient: a Transformer with silent bugs")
    option("student", help="your name or number, which decides the bugs")
    option(
        "--out", type=MIXED_FOLDER, default="homework", metavar="DIR", help="(default: homework)"
    )
    option = add("examine", "judge a patient that you have treated; exit status 1 unless full")
    option("file", type=Path)
    option = add("capstone", "score a run of nmtlib train and add it to a leaderboard")
    option("folder", type=Path, metavar="run", help="its folder")
    option("--name", required=True, help="who trained it")
    option("--board", type=BOARD, default="leaderboard.jsonl", metavar="FILE")
    option = add("leaderboard", "show the best run of each name in one or several leaderboards")
    option("files", type=Path, nargs="+", metavar="FILE")
    option = add("grade", "grade a folder that contains a folder for each student")
    option("submissions", type=Path)
    beside = "a page is written next to it; neither may exist yet"
    option("--csv", type=TABLE, default="points.csv", help=f"(default: points.csv); {beside}")
    option("--jobs", type=int, default=0, help="notebooks at a time (default: one a core)")
    option("--student", default="", help="this one alone, again: replaces the rows in --csv")
    option = add("export", "make feedback and gradebooks of a table of points")
    option("points", type=Path, help="what grade has written; points and comments may be edited")
    roster = "a CSV with a column student, and any of id, name, email, section, extension (in days)"
    option("--roster", type=Path, metavar="CSV", help=roster)
    option("--deadline", help="such as 2026-12-01T23:59")
    option("--late", type=float, default=0.0, metavar="PERCENT", help="of all points, for each day")
    option(
        "--bonus",
        type=float,
        default=0.0,
        metavar="POINTS",
        help="more than a task has (default: 0)",
    )
    option("--feedback", type=FEEDBACK, metavar="DIR", help="a page in Markdown for each student")
    option("--canvas", type=CANVAS, metavar="CSV")
    option("--moodle", type=MOODLE, metavar="CSV")


def command_homework(options: Namespace) -> int:
    """Run an action; 1 if a check found points missing."""
    return ACTIONS[options.action](options) or 0


def do_start(options: Namespace) -> None:
    """Write the notebook of an assignment."""
    from nmtcourse.homework.chinese import language_of, speaks
    from nmtcourse.homework.student import start

    language = options.lang or language_of()
    place = start(options.assignment, options.out, language)
    print(speaks(language)(f"your homework is {place}; open it with: {lab_command(place)}"))


def do_check(options: Namespace) -> int:
    """Run and judge a notebook; 1 if points are missing."""
    from nmtcourse.homework.checking import mark
    from nmtcourse.homework.chinese import LANGUAGE
    from nmtcourse.homework.student import keep, shown

    if options.lang:
        os.environ[LANGUAGE] = options.lang  # the process that judges follows it too
    marked = mark(
        options.notebook,
        tasks=options.tasks,
        report=partial(print, file=sys.stderr, flush=True),  # while it runs: a line a task
    )
    if options.gradescope:
        from nmtcourse.homework.gradebook import gradescope

        write_output(options.gradescope, gradescope(marked))
    if options.tasks:
        marked.marks = [result for result in marked.marks if result.task in options.tasks]
    print(shown(marked), flush=True)  # first: points need no file
    keep(marked, whole=not options.tasks)
    return 0 if all(result.full for result in marked.marks) else 1


def do_hint(options: Namespace) -> None:
    """Print a hint, and say so if it is not counted."""
    from nmtcourse.homework.chinese import language_here, speaks
    from nmtcourse.homework.grading import hint
    from nmtcourse.homework.progress import place_of

    hint(options.task, options.number, options.folder)
    if place_of(options.task, options.folder) is None:
        say = speaks(language_here(options.task[:2], options.folder))
        notice = (
            "(Not counted: there is no homework here or in the folder homework; name its "
            "folder with --folder.)"
        )
        print(say(notice))


def do_status(options: Namespace) -> None:
    """Print what is done in a folder."""
    from nmtcourse.homework.student import status

    print(status(options.folder))


def do_patient(options: Namespace) -> None:
    """Write a personal patient."""
    from nmtcourse.homework.chinese import language_of, speaks
    from nmtcourse.projects.patients import write

    place = write(options.student, options.out)
    print(speaks(language_of())(f"your patient is {place}; its first lines say what to do"))


def do_examine(options: Namespace) -> int:
    """Judge a treated patient; 1 if points are missing."""
    from nmtcourse.homework.chinese import language_of
    from nmtcourse.projects.examining import POINTS, examine

    examination = examine(options.file)
    print(examination.as_text(language_of()))
    return 0 if examination.points == sum(POINTS.values()) else 1


def do_capstone(options: Namespace) -> None:
    """Score a run and add it to a leaderboard."""
    from nmtcourse.projects.capstone import POSSIBLE, add_line, capstone

    entry = capstone(options.folder, options.name)
    add_line(options.board, entry)
    print(
        f"{entry.corpus}: BLEU {entry.bleu:.2f} ({entry.signature}) after {entry.minutes:g} "
        f"minutes: {entry.points:g} of {POSSIBLE:g} points; added to {options.board}"
    )


def do_leaderboard(options: Namespace) -> None:
    """Print the best run of each name."""
    from nmtcourse.projects.capstone import leaderboard, read_lines

    print(leaderboard(read_lines(options.files)))


def do_grade(options: Namespace) -> None:
    """Grade a class and write its reports; the table also while it is graded."""
    from nmtcourse.homework import reports
    from nmtcourse.homework.gradebook import replace_rows
    from nmtcourse.homework.submissions import grade_all

    if options.student:
        require(options.csv.is_file(), "--csv", "a table with the other students", options.csv)
        rows = [*reports.points_rows(grade_all(options.submissions, only=options.student))]
        return replace_rows(options.csv, rows, reports.cell(options.student))
    reports.require_places(options.csv)  # before a class is graded in vain
    TABLE.require(reports.part_of(options.csv))
    graded = grade_all(
        options.submissions,
        jobs=options.jobs,
        keep=lambda graded: reports.write_table(graded, options.csv),
    )
    paths = reports.write_reports(graded, options.csv)
    for count, task, cause in reports.misconceptions(graded)[:5]:
        print(f"{count:>3} x {task}: {cause}")
    print("written: " + ", ".join(map(str, paths)))


def do_export(options: Namespace) -> None:
    """Make feedback and gradebooks of a table of points."""
    from nmtcourse.homework import gradebook, tables

    if options.canvas and options.canvas == options.moodle:
        raise ValueError(f"--canvas and --moodle both name {options.canvas}; choose another file")
    terms = tables.terms(deadline=options.deadline, late=options.late, bonus=options.bonus)
    table = tables.read_points(options.points, terms.bonus)
    roster = tables.read_roster(options.roster)
    totals = gradebook.totals(table, roster, terms)
    if options.feedback:
        by_student = gradebook.by_student(totals)
        names = gradebook.page_names(by_student)
        for student, by_assignment in by_student.items():
            page = options.feedback / names[student]
            write_output(page, stamp(gradebook.feedback([*by_assignment.values()])))
    for kind in gradebook.SHEETS:
        place = getattr(options, kind)  # --canvas or --moodle
        if place:
            write_output(place, gradebook.sheet(kind, totals, roster))
    if roster:
        for student in sorted({row.student for row in table} - roster.keys()):
            print(f"{student} is not in {options.roster}")


ACTIONS: dict[str, Callable[[Namespace], int | None]] = {
    "start": do_start,
    "check": do_check,
    "hint": do_hint,
    "status": do_status,
    "patient": do_patient,
    "examine": do_examine,
    "capstone": do_capstone,
    "leaderboard": do_leaderboard,
    "grade": do_grade,
    "export": do_export,
}
