"""What is made from the masters: complete, without answers, and as it lies in the folder."""

import json
import re
from pathlib import Path

import cells
import nbformat
import pytest

from nmtcourse.homework import pages
from nmtcourse.homework.catalogue import assignments
from nmtcourse.homework.task import SOLUTION

HOMEWORK = Path(__file__).resolve().parents[2] / "notebooks" / "homework"
NOTEBOOKS = HOMEWORK.parent
SECTIONS = {  # to which tasks point, with their titles: a section that moves takes the task along
    "01": {
        3: "The vocabulary",
        4: "Between letters and words: byte-pair encoding",
        7: "Which sentences should share a batch?",
    },
    "02": {
        1: "What does a model read when it reads a word?",
        4: "Why multiply embeddings by the square root of $d_{model}$?",
        5: "Why would one table do three jobs?",
    },
    "03": {
        3: "The table of sines and cosines",
        5: "What does a dot product of two positions say?",
        6: "What does moving by $k$ positions do to the vector?",
        8: "How is it added, and what if a sentence is too long?",
    },
    "04": {
        2: "From loops to two matrix multiplications",
        3: "Where do queries, keys and values come from?",
        4: "Which words may be attended to? A mask by hand",
        5: "What does softmax do to the scores?",
        7: "Why divide by the square root of $d_k$?",
        8: "Attention in `nmtlib`, in PyTorch, and what it costs",
    },
    "05": {
        2: "What is hard for one head?",
        3: "From a loop over heads to one computation",
        4: "Break it and watch: the missing transpose",
        5: "The same as PyTorch's, and what it costs",
    },
    "06": {
        2: "The padding mask",
        3: "The causal mask: the answer stays hidden",
        4: "Does my decoder see the future? Change one token",
        5: "Where do NaNs come from?",
    },
    "07": {
        1: "A Transformer in seventy lines",
        3: "Residual: keep what you had",
        4: "LayerNorm: bring each word to the same size",
        5: "Dropout: rely on nothing",
        8: 'Question: "How many parameters does my model have?"',
    },
    "08": {
        2: "The smoothed target",
        4: "How far should one update go?",
        6: 'Question: "With batch size 16 or 32 the loss is small, with 64 or 128 it is large. '
        'Why?"',
    },
    "09": {
        2: "The loop in a dozen lines",
        5: "Gradient norm, clipping, and a bad batch",
        6: "Stop and resume, to the last bit",
    },
    "09b": {
        1: 'Question: "After 47 epochs the training loss falls, the validation loss rises. '
        'Overfitting, or too few epochs?"',
    },
    "10": {
        1: "Greedy search: take the best word, again and again",
        3: "Why the best word can be the wrong word",
        4: "Beam search by hand",
        7: "The key-value cache: never compute anything twice",
        8: "The bug that the cache invites",
    },
    "11": {1: "What should count?", 5: "Is the difference more than chance?"},
    "11b": {1: "Where does a word come from?"},
    "12": {
        1: "Where does the memory go?",
        3: 'Question: "CUDA out of memory: is the data set too large, or is it that I pad '
        'everything to the longest sentence?"',
    },
    "12b": {1: "The ring"},
}
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


def find_sections(task):
    """The notebook and the numbers of the sections that a task tells the student to read."""
    notebook, numbers = re.fullmatch(r"notebook (\w+), sections? ([\d, and]+)", task.read).groups()
    return notebook, [int(number) for number in re.findall(r"\d+", numbers)]


def test_a_task_points_to_a_section_that_is_there():
    tasks = [task for each in assignments().values() for task in each.tasks.values()]
    pointers = {(name, n) for name, numbers in map(find_sections, tasks) for n in numbers}
    assert pointers == {(name, n) for name, titles in SECTIONS.items() for n in titles}
    for name, titles in SECTIONS.items():
        (path,) = [*NOTEBOOKS.glob(f"{name}_*.ipynb"), *NOTEBOOKS.glob(f"deeper/{name}_*.ipynb")]
        chinese = NOTEBOOKS / "zh" / path.name
        books = (nbformat.read(page, as_version=4) for page in (path, chinese))
        ours, theirs = (cells.headings(cells.prose(book.cells)) for book in books)
        for number, title in titles.items():
            assert f"{number} · {title}" in ours, (name, number)
            assert any(heading.startswith(f"{number} · ") for heading in theirs), (name, number)


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
