"""What is made from the masters: complete, without answers, and as it lies in the folder."""

import json
from pathlib import Path

import nbformat
import pytest

from nmtcourse.homework import pages
from nmtcourse.homework.catalogue import assignments
from nmtcourse.homework.task import SOLUTION

HOMEWORK = Path(__file__).resolve().parents[2] / "notebooks" / "homework"
ALL = pytest.mark.parametrize("assignment", assignments().values(), ids=lambda a: a.stem)


def test_the_student_notebooks_are_those_of_the_masters():
    notebooks = {f"{each.stem}.ipynb": pages.notebook(each) for each in assignments().values()}
    stored = {path.name: path.read_text("utf-8") for path in HOMEWORK.glob("*.ipynb")}
    assert stored == notebooks, "run `make homework`"


def test_one_command_makes_all_forms(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["pages", str(tmp_path)])
    pages.main()
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    forms = {path for each in assignments().values() for path in pages.files(each)}
    assert written == forms and len(forms) == 3 * len(assignments())


@ALL
def test_the_student_sees_no_line_of_a_solution(assignment):
    book = nbformat.reads(pages.notebook(assignment), as_version=4)
    nbformat.validate(book)
    shown = "\n".join(cell.source for cell in book.cells)
    for task in assignment.tasks.values():
        for marked in SOLUTION.finditer(task.source + "\n"):
            hidden = [line.strip() for line in marked[0].splitlines() if "###" not in line]
            leaked = [x for x in hidden if len(x) > 30 and x in shown and x not in task.given]
            assert not leaked, task.id
        for mistake in task.mistakes:
            assert mistake not in shown
        assert task.check_line in shown
    assert "BEGIN SOLUTION" not in shown and "YOUR CODE HERE" in shown


@ALL
def test_the_sources_are_what_nbgrader_reads(assignment):
    source = nbformat.reads(pages.notebook(assignment, "source"), as_version=4)
    student = nbformat.reads(pages.notebook(assignment), as_version=4)
    graded = [cell.metadata["nbgrader"] for cell in source.cells if "nbgrader" in cell.metadata]
    ids = [about["grade_id"] for about in graded]
    assert (
        len(set(ids)) == len(ids) == 2 * len(assignment.tasks) - 1
    )  # a choice is no cell of nbgrader's
    assert sum(about.get("points", 0) for about in graded) == assignment.points
    for one, other in zip(source.cells, student.cells, strict=True):
        assert one.metadata == other.metadata and one.id == other.id


@ALL
def test_a_page_without_answers_runs_from_top_to_bottom(assignment, capsys):
    """As "Run All" does: blanks stop nothing, have no points, and say so in a line each."""
    defined, points, checks = {"__name__": "page"}, [], []
    for cell in nbformat.reads(pages.notebook(assignment), as_version=4).cells:
        if cell.source.startswith("grade("):
            points.append(eval(cell.source, defined))
            checks.append(cell.source)
        elif cell.cell_type == "code":
            exec(cell.source, defined)
    assert points == [0] * len(assignment.tasks)
    said = capsys.readouterr().out.splitlines()
    assert sum("0 of" in line and "nothing is written here yet" in line for line in said) == len(
        points
    )
    # marking judges at the end, when what is given for later tasks is defined, too
    assert [eval(check, defined) for check in checks] == points


def test_the_same_master_gives_the_same_bytes():
    first = next(iter(assignments().values()))
    assert pages.files(first) == pages.files(first)
    assert json.loads(pages.notebook(first))["nbformat"] == 4
