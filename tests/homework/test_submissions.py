"""What a folder of submissions may hold, and where its reports may lie, before anything is run."""

import csv
import dataclasses
import json
import os
from pathlib import Path

import pytest

from nmtcourse.homework import apart, pages, reports, submissions
from nmtcourse.homework.answers import written_answers
from nmtcourse.homework.catalogue import assignments
from nmtcourse.homework.grading import judge
from nmtcourse.homework.marks import Mark, Marked
from nmtcourse.main import main

FOUR = assignments()["04"]
NAME, PAGE = f"{FOUR.stem}.ipynb", pages.notebook(FOUR)
OTHER = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


@pytest.fixture
def folder(tmp_path):
    """A class of one student, who has handed in nothing."""
    (tmp_path / "class" / "ann").mkdir(parents=True)
    return tmp_path / "class"


@pytest.fixture
def not_run(monkeypatch):
    """Nothing may be graded."""
    monkeypatch.setattr(
        submissions, "grade_all", lambda *given, **options: pytest.fail("graded in vain")
    )


@pytest.mark.parametrize("suffix", [".csv", ".md"])
def test_a_report_that_would_be_overwritten_is_refused_first(suffix, folder, not_run, capsys):
    there = folder.parent / f"points{suffix}"
    there.write_text("mine", "utf-8")
    table = str(folder.parent / "points.csv")
    assert main(["homework", "grade", str(folder), "--csv", table]) == 1
    error = capsys.readouterr().err
    assert str(there) in error and ("is not overwritten" in error or "with --csv" in error)
    assert there.read_text("utf-8") == "mine" and len(list(folder.parent.iterdir())) == 2


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("all.MD", "such as {}/all.csv, not {}/all.MD"),
        (".", "is a folder"),
        ("file/a.csv", "is a file"),
    ],
)
def test_a_table_in_an_impossible_place_is_refused_first(name, why, folder, not_run, capsys):
    (folder.parent / "file").touch()
    assert main(["homework", "grade", str(folder), "--csv", str(folder.parent / name)]) == 1
    assert why.format(folder.parent, folder.parent) in capsys.readouterr().err


def test_a_folder_without_the_right_to_write_is_refused_first(folder, not_run, capsys, monkeypatch):
    monkeypatch.setattr("os.access", lambda place, how: False)
    table = str(folder.parent / "new" / "points.csv")
    assert main(["homework", "grade", str(folder), "--csv", table]) == 1
    assert f"the folder {folder.parent} is not writable" in capsys.readouterr().err


def test_reports_may_lie_in_folders_that_are_not_there_yet(folder, capsys):
    table = folder.parent / "new" / "one" / "points.csv"
    assert main(["homework", "grade", str(folder), "--csv", str(table)]) == 0
    assert table.is_file() and table.with_suffix(".md").is_file()
    assert "ann: no notebook of an assignment" in capsys.readouterr().out
    (row,) = csv.DictReader(table.open(encoding="utf-8"))
    assert (row["points"], row["possible"], row["notices"]) == ("0", "0", "was not submitted")


def hand_in(place, age=0, text=PAGE):
    """Write a notebook that is so many seconds old."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, "utf-8")
    os.utime(place, (1e9 - age, 1e9 - age))


@pytest.fixture
def marked(monkeypatch):
    """The paths that were marked; nothing is run, and everybody makes the same mistake."""
    paths = []

    def judge_all(entries, jobs, done):
        for entry in entries:
            paths.append(entry.path)
            mark = Mark("04.1", "Softmax", 1, 4, cause="no maximum")
            done(entry, Marked(entry.path, FOUR.number, [mark], [*entry.notices]))

    monkeypatch.setattr(submissions, "judge_all", judge_all)
    return paths


def test_a_copy_counts_once_and_is_told_of(folder, marked, capsys):
    hand_in(folder / "ann" / NAME, age=9)
    hand_in(folder / "ann" / "04_attention-Copy1.ipynb")
    table = folder.parent / "points.csv"
    assert main(["homework", "grade", str(folder), "--csv", str(table)]) == 0
    assert marked == [folder / "ann" / NAME]
    assert "1 x 04.1: no maximum" in capsys.readouterr().out
    (row,) = csv.DictReader(table.open(encoding="utf-8"))
    told = f"{NAME} was graded, and left out: 04_attention-Copy1.ipynb"
    page = table.with_suffix(".md").read_text("utf-8")
    assert (
        row["notices"] == told and f"- ann, {reports.inline(NAME)}: {reports.inline(told)}" in page
    )
    assert "| 04.1 Softmax | 1 |" in page and "the same answers" not in page


@pytest.mark.parametrize("name", ["04_attention (1).ipynb", "04_attention-Copy1.ipynb"])
@pytest.mark.parametrize("letter", [False, True])
def test_the_notebook_that_was_worked_on_counts_before_the_untouched_one(
    name, letter, folder, marked
):
    book = json.loads(PAGE)
    for cell in book["cells"]:
        if letter and cell["id"] == "answer-04-4":
            cell["source"] = ['choice_04 = "A"']
        elif not letter and cell["id"] == "answer-04-1":
            cell["source"] = ["def stable_softmax(scores):\n    return scores"]
    hand_in(folder / "ann" / NAME)
    hand_in(folder / "ann" / name, text=json.dumps(book))
    ((_, found),) = submissions.grade_all(folder)
    assert marked == [folder / "ann" / name]
    assert found.notices == [f"{name} was graded, and left out: {NAME}"]


def test_without_the_usual_name_the_highest_number_counts(folder, marked):
    """The time of a file is that of an archive or of a download, not of the work."""
    hand_in(folder / "ann" / "04_mine-Copy2.ipynb", age=9)
    hand_in(folder / "ann" / "04_mine-Copy10.ipynb", age=5)
    hand_in(folder / "ann" / "04_mine.ipynb", age=1)
    ((_, found),) = submissions.grade_all(folder)
    assert marked == [found.path] == [folder / "ann" / "04_mine-Copy10.ipynb"]
    assert "left out: 04_mine-Copy2.ipynb, 04_mine.ipynb" in found.notices[0]


def test_of_two_notebooks_of_which_neither_is_the_last_none_is_chosen(folder, marked):
    hand_in(folder / "ann" / "04_mine.ipynb", age=5)
    hand_in(folder / "ann" / "new" / "04_mine.ipynb", age=1)
    ((_, found),) = submissions.grade_all(folder)
    assert not marked and found.marks[0].points is None
    assert "could not be graded: there are" in found.notices[0]
    assert "keep one, named 04_attention.ipynb" in found.notices[0]


def test_what_is_no_homework_takes_the_place_of_none(folder, marked):
    """A notebook of the course, a file that is damaged, and a folder that is called as one."""
    hand_in(folder / "ann" / "04_mine.ipynb", age=9)
    hand_in(folder / "ann" / "04_scaled.ipynb", text=OTHER)
    hand_in(folder / "ann" / NAME, text="{")
    (folder / "ann" / "05_folder.ipynb").mkdir()
    said = []
    ((_, found),) = submissions.grade_all(folder, said.append)
    assert marked == [folder / "ann" / "04_mine.ipynb"] and not found.notices
    assert any("no cell of homework 04" in line for line in said)
    assert any("is not a notebook" in line for line in said)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
def test_a_pipe_in_the_place_of_a_notebook_is_not_waited_for(folder, monkeypatch):
    for name in (NAME, "attention.ipynb", "helper.py"):
        os.mkfifo(folder / "ann" / name)
    monkeypatch.setattr(Path, "read_text", lambda path, *given: pytest.fail(f"reads {path}"))
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"reads {path}"))
    ((_, found),) = submissions.grade_all(folder)
    assert found.notices[0].startswith("was not submitted; instead there is attention.ipynb")


def rows_of(folder, graded):
    """The rows of the table, by student."""
    made = csv.DictReader(reports.points_table(graded).splitlines())
    found = {}
    for row in made:
        found.setdefault(row["student"], []).append(row)
    return found


def test_who_has_no_notebook_that_runs_has_rows_without_points(folder, marked):
    hand_in(folder / "ben" / NAME)
    hand_in(folder / "cleo" / "attention.ipynb")
    hand_in(folder / "dan" / NAME, text="{")
    graded = submissions.grade_all(folder)
    rows = rows_of(folder, graded)
    for student, why in [
        ("ann", "was not submitted"),
        (
            "cleo",
            "attention.ipynb (a notebook under another name: rename it to 04_attention.ipynb)",
        ),
        ("dan", "is not a notebook"),
    ]:
        assert [row["task"] for row in rows[student]] == [*FOUR.tasks]
        assert {row["points"] for row in rows[student]} == {"0"}
        assert why in rows[student][0]["notices"]
        assert f"- {student}, 04\\_attention.ipynb: " in reports.class_report(graded)
    assert [float(row["points"]) for row in rows["ben"]] == [1] and list(rows) == sorted(rows)
    assert "| 04.1 Softmax | 1 |" in reports.class_report(graded)
    assert reports.misconceptions(graded) == [(1, "04.1", "no maximum")]


WAY = "    powers = powers / powers.sum(-1, keepdim=True)\n"


def same_answers(folder, **sources):
    """What is said of students who have written these sources into the cell of the first task."""
    graded = []
    for student, source in sources.items():
        book = json.loads(PAGE)
        cell = next(cell for cell in book["cells"] if cell["id"] == "answer-04-1")
        cell["source"] = source or cell["source"]
        sources = ["".join(c["source"]) for c in book["cells"] if c["cell_type"] == "code"]
        answers = written_answers(sources, FOUR)
        graded.append((student, Marked(folder / student / NAME, FOUR.number, answers=answers)))
    return reports.copies(graded)


def test_answers_are_the_same_but_for_names_layout_and_comments(folder):
    answer = (
        "%time\ndef stable_softmax(scores):\n    powers = ({})\n" + 3 * WAY + "    return powers"
    )
    spaced = answer.format("scores.exp()")
    tight = answer.format(" scores . exp( ) ").replace("powers = (", "powers=(  # so\n")
    tight = tight.replace("powers", "p").replace(":\n", ':\n    """Mine."""\n', 1)
    said = same_answers(folder, ann=spaced, ben=tight, cleo=answer.format("scores.log()"))
    assert said == ["04.1: the same answer from ann, ben"]
    assert not same_answers(folder, ann="", ben=""), "untouched notebooks"
    short = "def stable_softmax(scores):\n    return scores.softmax(-1)"
    assert not same_answers(folder, ann=short, ben=short), "written twice by chance"


def test_one_copied_task_is_found_among_others_that_differ(folder):
    code = {"04.1": reports.SHORT * "x", "04.2": reports.SHORT * "y"}
    more = {**code, "04.3": reports.SHORT * "z"}
    graded = [
        (student, Marked(folder, FOUR.number, answers=answers))
        for student, answers in (
            ("ann", code),
            ("ben", more),
            ("cem", {"04.2": reports.SHORT * "y"}),
        )
    ]
    assert reports.copies(graded) == [
        "04.1: the same answer from ann, ben",
        "04.2: the same answer from ann, ben, cem",
    ]


def test_the_same_wrong_numbers_are_noticed_where_no_known_mistake_is_the_reason(folder):
    def halved(scores):
        return scores.softmax(-1) / 2 if scores.dim() > 1 else scores.exp() / scores.exp().sum()

    def written_anew(s):
        weights = (s - s.logsumexp(-1, keepdim=True)).exp()
        return weights if s.dim() == 1 else 0.5 * weights

    def thirds(scores):
        return written_anew(scores) / 1.5

    task = assignments()["04"].tasks["04.1"]
    task = dataclasses.replace(task, forbidden=())
    verdicts = {f.__name__: judge(task, f) for f in (halved, written_anew, thirds)}
    known = judge(
        task,
        task.wrong["The weights are divided by the sum of the whole tensor, not of their row."],
    )
    digests = {name: verdict.behaviour for name, verdict in verdicts.items()}
    assert digests["halved"] == digests["written_anew"] != digests["thirds"] != ""
    assert known.finding.cause and known.behaviour == ""
    graded = []
    for student, name in (("ann", "halved"), ("ben", "written_anew"), ("cem", "thirds")):
        mark = Mark("04.1", "Softmax", 0.0, 4.0, behaviour=digests[name])
        graded.append((student, Marked(folder, FOUR.number, [mark])))
    assert reports.copies(graded) == ["04.1: the same wrong numbers from ann, ben"]


def test_windows_is_told_what_to_use(folder, monkeypatch):
    monkeypatch.setattr(apart.sys, "platform", "win32")
    with pytest.raises(ValueError, match="needs Linux or macOS; on Windows use WSL"):
        submissions.grade_all(folder)
