"""Notebooks of students are run apart, judged by the master's checks, and never changed."""

import csv
import json
import os
import time
import warnings
from pathlib import Path

import pytest
import torch
from nightly import some

from nmtcourse.homework import causes, checking, pages, progress, student, trials
from nmtcourse.homework.catalogue import assignments, find_task
from nmtcourse.homework.grading import grade, judge
from nmtcourse.homework.limits import Stopped, undisturbed, within
from nmtcourse.homework.trials import LiveAnswer
from nmtcourse.main import main

FOUR = assignments()["04"]
NAME = f"{FOUR.stem}.ipynb"


def write(folder, kind="solution", *, change=lambda cells, order: None):
    """The path of a notebook whose cells, by id or in their order, were changed."""
    book = json.loads(pages.notebook(FOUR, kind))
    change({cell["id"]: cell for cell in book["cells"]}, book["cells"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_text(json.dumps(book), "utf-8")
    return folder / NAME


def code(source, id):
    """A cell without metadata."""
    return pages.code_cell(id, source)


@pytest.mark.nightly
def test_a_class_is_graded_and_its_files_stay_as_they_are(tmp_path, capsys):
    overflow = (
        "def stable_softmax(scores):\n    return scores.exp() / scores.exp().sum(-1)[..., None]"
    )

    def overflows(cells, _):
        cells["answer-04-1"]["source"] = [overflow]

    write(tmp_path / "class/ben", change=overflows)
    write(tmp_path / "class/cleo", change=overflows)

    def strip(cells, _):
        cells["answer-04-2"]["source"] = ["def masked_attention(:"]
        for cell in cells.values():
            cell["metadata"] = {}

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
    assert "the same answer from ben, cleo" in page and "lost their metadata" in page
    assert "SyntaxError" in page
    assert before == {path: path.read_bytes() for path in before}
    assert main(["homework", "grade", str(tmp_path / "class"), "--csv", str(table)]) == 1
    assert "exists already" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("assignment", some(assignments().values()))
def test_a_notebook_as_it_was_given_has_no_points(assignment, tmp_path):
    path = tmp_path / f"{assignment.stem}.ipynb"
    path.write_text(pages.notebook(assignment), "utf-8")
    assert [mark.points for mark in checking.mark(path).marks] == [0] * len(assignment.tasks)


STUBBORN = "while True:\n    try: sum(range(9999))\n    except BaseException: pass"
HELPED = """\
def helper(scores):
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)
def stable_softmax(scores):
    return helper(scores)
"""


@pytest.mark.nightly
def test_cheating_and_endless_loops_cost_only_the_task_they_stand_in(tmp_path):
    """A check that is edited, one that is gone, a loop, and one that nothing interrupts."""

    def cheat(cells, order):
        cells["check-04-1"]["source"] = ["def grade(*answers): return 100.0"]
        cells["check-04-2"].update(source=["pass"], metadata={}, id="mine")
        cells["answer-04-3"]["source"] = ["while True:\n", "    pass"]
        order.append(code(STUBBORN, "stubborn"))

    marked = checking.mark(write(tmp_path, change=cheat), cell_seconds=3)
    assert [mark.points for mark in marked.marks] == [4, 6, 0, 2]
    told = " ".join(marked.notices)
    assert "04.1 was edited" in told and "04.2 was deleted" in told
    assert "stopped after 3 s: the cell that begins 'while True:'" in told
    assert "could not be stopped, so the others were run without it: the cell" in told
    assert "causal_self_attention is not defined" in marked.marks[2].measured


@pytest.mark.nightly
def test_odd_things_in_a_notebook_cost_no_point(tmp_path):
    """A name used again, an answer in the cell of its check, a deleted file, another's kernel."""

    def change(cells, order):
        cells["answer-04-1"]["source"] = [HELPED]
        place = order.index(cells["check-04-1"]) + 1
        order.insert(place, code("def helper(x):\n    return x", "later"))
        answer = "".join(cells["answer-04-2"]["source"])
        cells["answer-04-2"]["source"] = ["pass"]
        cells["check-04-2"]["source"] = [answer, "\n\n", *cells["check-04-2"]["source"]]
        delete = "import pathlib\n[p.unlink() for p in pathlib.Path.cwd().glob('*.ipynb')]"
        order.insert(1, code(delete, "first"))
        order += [code("exit()", "last"), code("import os\nos._exit(1)", "more")]

    path = write(tmp_path, change=change)
    book = json.loads(path.read_text("utf-8"))
    book["metadata"]["kernelspec"] = {"name": "python388jvsc74a", "display_name": "Python [root]"}
    path.write_text(json.dumps(book), "utf-8")
    marked = checking.mark(path)
    assert not path.exists() and marked.points == FOUR.points and marked.digest
    assert marked.notices == [
        "the check of 04.2 was edited; the original was run",
        "ended the process, so the others were run without it: the cell that begins 'exit()'",
        "ended the process, so the others were run without it: the cell that begins 'import os'",
    ]


@pytest.mark.nightly
def test_a_page_that_is_pasted_twice_counts_its_best_answers(tmp_path):
    def paste(cells, order):
        cells["answer-04-3"]["source"] = [
            "def causal_self_attention(*given):\n    import os\n    os._exit(0)"
        ]
        page = json.loads(pages.notebook(FOUR))["cells"]
        order += [{**cell, "id": f"{cell['id']}-2"} for cell in page]

    marked = checking.mark(write(tmp_path, change=paste))
    assert [mark.points for mark in marked.marks] == [4, 6, 0, 2]
    assert marked.marks[2].measured == "the process ended during the check"
    assert marked.notices == ["the page is in the notebook more than once; the best answers count"]


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("metadata", {"nbgrader": None}, "has empty nbgrader metadata"),
        ("metadata", None, "has no metadata"),
        ("source", None, "has no source"),
    ],
)
def test_a_notebook_with_a_damaged_cell_is_refused(tmp_path, field, value, why):
    def damage(cells, _):
        cells["answer-04-2"][field] = value

    with pytest.raises(ValueError, match=why):
        checking.mark(write(tmp_path, change=damage))


@pytest.mark.nightly
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


def test_what_is_no_homework_is_refused(tmp_path):
    (tmp_path / NAME).write_text("{", "utf-8")
    with pytest.raises(ValueError, match="is not a notebook"):
        checking.mark(tmp_path / NAME)
    course = Path(__file__).parents[2] / "notebooks" / "04_scaled_dot_product_attention.ipynb"
    with pytest.raises(ValueError, match="no cell of homework 04; .* start 04"):
        checking.mark(course)


@pytest.mark.parametrize(
    "found", [{"hints": {"04.2": 3}}, {"checked": {"04.ipynb": {"sha256": "a", "marks": [{}]}}}, []]
)
def test_progress_of_another_form_is_named(tmp_path, found):
    (tmp_path / progress.FILE).write_text(json.dumps(found), "utf-8")
    with pytest.raises(ValueError, match="progress.json is damaged"):
        student.status(tmp_path)


def test_a_grade_is_a_number_and_a_verdict_goes_to_stdout_alone(capfd):
    def noisy(scores):
        warnings.warn("old", stacklevel=1)
        os.write(2, b"from a library in C")
        print("look at me")
        return (scores - scores.logsumexp(-1, keepdim=True)).exp()

    points = grade("04.1", noisy)
    out, err = capfd.readouterr()
    assert points == 4.0 and err == "" and "look at me" not in out and "4 of 4" in out


def test_what_an_answer_raises_is_told_with_its_line():
    answer: dict = {}
    exec(
        compile("def broken(scores):\n    return scores + [1]\n", "/home/answers.py", "exec"),
        answer,
    )
    verdict = judge(find_task("04.1"), answer["broken"])
    assert verdict.points == 0 and "TypeError" in str(verdict)
    assert "in line 2 of broken" in verdict.finding.measured
    assert "has no value" in str(judge(find_task("04.1"), None))


def test_endless_loops_of_an_answer_are_stopped_also_when_its_cause_is_looked_for(monkeypatch):
    """The cause is looked for on other inputs, on which an answer may never end."""

    def endless(*given):
        while True:
            pass

    monkeypatch.setattr(find_task("04.1"), "seconds", 0.3)
    assert "stopped after 0.3 s" in str(judge(find_task("04.1"), endless))
    monkeypatch.setattr(causes, "SECONDS", 0.2)
    assert {*causes.fingerprint(LiveAnswer(find_task("04.1"), endless))} == {"hangs"}


def test_an_endless_loop_is_run_once(monkeypatch):
    """A search that ignores its limit ends for most inputs, wrongly, and never for some.

    It took five times the limit, and as long again for a digest of what it does.
    """
    spent = []

    def ignores_the_limit(log_probs, longest):
        words = [1]
        while words[-1] != 2:
            words.append(int(log_probs(words).argmax()))
            if len(words) > 60:  # it does not end
                began = time.process_time()
                try:
                    while True:
                        pass
                finally:
                    spent.append(time.process_time() - began)
        return words[1:-1]

    monkeypatch.setattr(trials, "HANGS", 1.0)
    monkeypatch.setattr(causes, "SECONDS", 0.3)
    assert not judge(find_task("10.1"), ignores_the_limit).full
    assert 0 < len(spent) <= 2 and sum(spent) < 2.0


def test_a_choice_does_not_run_an_answer_that_was_judged_before():
    def endless(*given):
        raise AssertionError("it is run again")

    verdict = judge(find_task("04.4"), "A", endless, known={"04.1": 0.0})
    assert verdict.points == 0 and "Repair 04.1 first" in str(verdict)


def test_an_answer_that_waits_is_not_stopped_as_if_it_computed():
    """A busy machine makes an answer wait; only processor time counts."""
    with within(0.2):
        time.sleep(1.5)
    with pytest.raises(Stopped), within(0.2):
        while True:
            pass


def test_an_argument_that_is_changed_is_a_finding():
    def in_place(scores):
        scores -= scores.logsumexp(-1, keepdim=True)
        return scores.exp()

    assert "was changed" in str(judge(find_task("04.1"), in_place))


def test_states_are_as_before():
    torch.manual_seed(3)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    judge(find_task("04.3"), lambda *given: torch.rand(3))
    assert torch.equal(state, torch.get_rng_state()) and threads == torch.get_num_threads()
    with torch.no_grad():  # of a notebook
        with undisturbed():
            assert torch.is_grad_enabled()
        assert not torch.is_grad_enabled()
