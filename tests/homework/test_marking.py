"""Notebooks of students are run apart, judged by the master's checks, and never changed."""

import csv
import json
import time
from pathlib import Path

import pytest
from nightly import some

from nmtcourse.homework import marking, pages, progress, reports, student
from nmtcourse.homework.compare import Finding
from nmtcourse.homework.grading import assignments, find_task, grade, judge
from nmtcourse.homework.limits import Stopped, within
from nmtcourse.main import main

FOUR = assignments()["04"]
NAME = f"{FOUR.stem}.ipynb"


def write(folder, kind="solution", *, change=lambda cells: None):
    """A notebook in a folder, with its cells by id changed; returns its path."""
    book = json.loads(pages.notebook(FOUR, kind))
    change({cell["id"]: cell for cell in book["cells"]})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_text(json.dumps(book), "utf-8")
    return folder / NAME


def cheat(cells):
    """An edited check, a check that is gone, an endless loop, and a grade() of one's own."""
    cells["check-04-1"]["source"] = ["def grade(*answers): return 100.0"]
    cells["check-04-2"].update(source=["pass"], metadata={}, id="mine")
    cells["answer-04-3"]["source"] = ["while True:\n", "    pass"]


def strip(cells):
    cells["answer-04-2"]["source"] = ["def masked_attention(:"]
    for cell in cells.values():
        cell["metadata"] = {}


@pytest.mark.slow
def test_a_class_is_graded_and_its_files_stay_as_they_are(tmp_path, capsys):
    overflow = (
        "def stable_softmax(scores):\n    return scores.exp() / scores.exp().sum(-1)[..., None]"
    )

    def overflows(cells):
        cells["answer-04-1"]["source"] = [overflow]

    write(tmp_path / "class/ben", change=overflows)
    write(tmp_path / "class/cleo", change=overflows)
    write(tmp_path / "class/dan", "student", change=strip)
    (tmp_path / "class/eve").mkdir()
    before = {path: path.read_bytes() for path in (tmp_path / "class").rglob("*") if path.is_file()}
    table = tmp_path / "points.csv"
    assert main(["homework", "grade", str(tmp_path / "class"), "--csv", str(table)]) == 0
    said = capsys.readouterr().out
    assert "eve: no notebook" in said, said
    assert "2 x 04.1: Nothing is subtracted, so large scores overflow." in said, said
    rows = list(csv.DictReader(table.open()))
    points = {(row["student"], row["task"]): float(row["points"]) for row in rows}
    assert points["ben", "04.2"] == find_task("04.2").points
    assert 0 < points["ben", "04.1"] < find_task("04.1").points
    assert not any(points["dan", task] for task in FOUR.tasks)
    page = table.with_suffix(".md").read_text("utf-8")
    assert "the same answers from ben, cleo" in page and "lost their metadata" in page
    assert "SyntaxError" in page
    assert before == {path: path.read_bytes() for path in before}
    assert main(["homework", "grade", str(tmp_path / "class"), "--csv", str(table)]) == 1
    assert "exists already" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("assignment", some(assignments().values(), every=6))
def test_a_notebook_as_it_was_given_has_no_points(assignment, tmp_path):
    path = tmp_path / f"{assignment.stem}.ipynb"
    path.write_text(pages.notebook(assignment), "utf-8")
    assert [mark.points for mark in marking.mark(path).marks] == [0] * len(assignment.tasks)


@pytest.mark.slow
def test_cheating_and_endless_loops_cost_only_the_task_they_stand_in(tmp_path):
    marked = marking.mark(write(tmp_path, change=cheat), cell_seconds=3)
    points = {mark.task: mark.points for mark in marked.marks}
    assert points == {"04.1": 4, "04.2": 6, "04.3": 0, "04.4": 2}
    told = " ".join(marked.notices)
    assert "04.1 was edited" in told and "04.2 was deleted" in told
    assert "stopped after 3 s: the cell that begins 'while True:'" in told
    assert "causal_self_attention is not defined" in marked.marks[2].measured


@pytest.mark.slow
def test_what_cannot_be_interrupted_is_killed_and_the_rest_is_judged(tmp_path):
    stubborn = "while True:\n    try: sum(range(9999))\n    except BaseException: pass"

    def loops(cells):
        cells["answer-04-3"]["source"] = [stubborn]

    marked = marking.mark(write(tmp_path, change=loops), cell_seconds=3)
    points = {mark.task: mark.points for mark in marked.marks}
    assert points == {"04.1": 4, "04.2": 6, "04.3": 0, "04.4": 2}
    (told,) = marked.notices
    assert told.startswith("could not be stopped") and "that begins 'while True:'" in told


@pytest.mark.slow
def test_a_student_starts_checks_and_sees_what_is_left(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "my"
    assert main(["homework", "start", "4", "--out", str(folder)]) == 0
    path = folder / NAME
    assert "teach" not in path.read_text("utf-8") and (folder / "AGENTS.md").is_file()
    assert main(["homework", "start", "attention", "--out", str(folder)]) == 1
    assert "contains your work" in capsys.readouterr().err
    monkeypatch.chdir(folder)
    assert main(["homework", "hint", "04.2"]) == 0
    assert find_task("04.2").hints[0][:30] in capsys.readouterr().out
    assert "hints 1  choices 0  not checked yet" in student.status(folder)
    for letter in ("?", "B", "b", "C"):
        grade("04.4", letter, find_task("04.1").solution)
    assert "hints 1  choices 2  not checked yet" in student.status(folder)

    path.write_text(write(tmp_path / "done").read_text("utf-8"), "utf-8")
    assert main(["homework", "check", str(path)]) == 0
    assert "total: 20 of 20" in capsys.readouterr().out
    assert "20 of 20  hints 1  choices 3  checked" in student.status(folder)
    assert "everything here is done" in student.status(folder)
    path.write_text(path.read_text("utf-8").replace("amax", "amin"), "utf-8")
    assert "changed since it was checked" in student.status(folder)
    assert f"next: nmtlib homework check {path}" in student.status(folder)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["start", "13"], "there is no assignment '13'"),
        (["start", "attentoin"], "did you mean attention"),
        (["check", "05.ipynb"], "not named as an assignment"),
        (["check", NAME], "there is no file"),
        (["hint", "04.9"], "there is no task '04.9'"),
        (["hint", "04.2", "3"], "hints 1 and 2"),
        (["grade", "nowhere"], "there is no folder"),
        (["grade", "."], "a student|for each student"),
    ],
)
def test_bad_input_is_explained(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["homework", *arguments]) == 1
    message = capsys.readouterr().err
    assert any(part in message for part in said.split("|")), message


def test_a_file_that_is_no_notebook_is_refused(tmp_path):
    (tmp_path / NAME).write_text("{", "utf-8")
    with pytest.raises(ValueError, match="is not a notebook"):
        marking.mark(tmp_path / NAME)


def test_a_notebook_of_the_course_is_no_homework():
    course = Path(__file__).parents[2] / "notebooks" / "04_scaled_dot_product_attention.ipynb"
    with pytest.raises(ValueError, match="no cell of homework 04; .* start 04"):
        marking.mark(course)


def test_a_damaged_progress_file_is_named(tmp_path):
    write(tmp_path)
    (tmp_path / "progress.json").write_text("[]", "utf-8")
    with pytest.raises(ValueError, match="progress.json is damaged"):
        student.status(tmp_path)


@pytest.mark.parametrize(
    "found",
    [
        {"hints": {"04.2": 3}},
        {"choices": {"04.2": "A"}},
        {"checked": {"04.ipynb": []}},
        {"checked": {"04.ipynb": {"sha256": 7, "marks": []}}},
        {"checked": {"04.ipynb": {"sha256": "a", "marks": [{"task": "04.1", "title": "Mask"}]}}},
        {"checked": {"04.ipynb": {"sha256": "a", "marks": 5}}},
        [],
    ],
)
def test_progress_of_another_form_is_named(tmp_path, found):
    (tmp_path / progress.FILE).write_text(json.dumps(found), "utf-8")
    with pytest.raises(ValueError, match="progress.json is damaged"):
        progress.read(tmp_path)


def test_a_grade_is_a_number_and_a_verdict_goes_to_stdout_alone(capfd):
    import os
    import warnings

    def noisy(scores):
        warnings.warn("old", stacklevel=1)
        os.write(2, b"from a library in C")
        print("look at me")
        return (scores - scores.logsumexp(-1, keepdim=True)).exp()

    points = grade("04.1", noisy)
    out, err = capfd.readouterr()
    assert points == 4.0 and err == "" and "look at me" not in out and "4 of 4" in out


@pytest.mark.parametrize("place", ["answers.py", "/home/me/nmtlib/notebooks/answers.py"])
def test_what_an_answer_raises_is_told_with_its_line(place):
    answer: dict = {}
    exec(compile("def broken(scores):\n    return scores + [1]\n", place, "exec"), answer)
    verdict = judge(find_task("04.1"), answer["broken"])
    assert (
        verdict.points == 0
        and "TypeError" in str(verdict)
        and "in line 2 of broken" in verdict.finding.measured
    )
    assert "has no value" in str(judge(find_task("04.1"), None))


def test_an_endless_loop_is_stopped(monkeypatch):
    def endless(scores):
        while True:
            pass

    monkeypatch.setattr(find_task("04.1"), "seconds", 0.3)
    assert "stopped after 0.3 s" in str(judge(find_task("04.1"), endless))


def test_an_answer_that_waits_is_not_stopped_as_if_it_computed():
    """A busy machine makes an answer wait; only processor time counts."""
    with within(0.2):
        time.sleep(1.5)
    with pytest.raises(Stopped), within(0.2):
        while True:
            pass


def test_an_endless_loop_in_the_diagnosis_is_stopped(monkeypatch):
    """The cause is looked for on other inputs, on which an answer may never end."""
    from nmtcourse.homework import diagnosis

    def looked(*given):
        while True:
            pass

    monkeypatch.setattr(find_task("04.1"), "seconds", 0.5)
    monkeypatch.setattr(diagnosis, "tried", looked)
    verdict = judge(find_task("04.1"), lambda scores: scores)
    assert not verdict.full and verdict.finding.cause == ""


def test_an_argument_that_is_changed_is_a_finding():
    def in_place(scores):
        scores -= scores.logsumexp(-1, keepdim=True)
        return scores.exp()

    assert "was changed" in str(judge(find_task("04.1"), in_place))


def test_states_are_as_before():
    import torch

    torch.manual_seed(3)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    judge(find_task("04.3"), lambda *given: torch.rand(3))
    assert torch.equal(state, torch.get_rng_state()) and threads == torch.get_num_threads()


def test_a_finding_says_what_was_measured_and_expected():
    assert str(Finding("3", "4")) == "3; expected 4"
    assert reports.COLUMNS[0] == "student"
