"""Damaged notebooks are refused; a cell that ends the process or changes torch costs no check."""

import json

import homework
import pytest
import torch
from sampling import sampled

from nmtcourse.homework import execution, marking, pages
from nmtcourse.homework.grading import assignments, find_task
from nmtcourse.homework.guards import undisturbed

FOUR = assignments()["04"]


@pytest.fixture
def handed_in(tmp_path):
    """A function that writes the solution with its cells by id, or in their order, changed."""

    def write(change):
        book = json.loads(pages.notebook(FOUR, "solution"))
        change({cell["id"]: cell for cell in book["cells"]}, book["cells"])
        path = tmp_path / f"{FOUR.stem}.ipynb"
        path.write_text(json.dumps(book), "utf-8")
        return path

    return write


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("metadata", {"nbgrader": None}, "has empty nbgrader metadata"),
        ("metadata", None, "is not a notebook"),
        ("source", None, "has no source"),
        ("source", ..., "has no source"),
        ("cell_type", 7, "is damaged|is not a notebook"),
    ],
)
def test_a_notebook_with_a_damaged_cell_is_refused(handed_in, field, value, why):
    def damage(cells, _):
        cells["answer-04-2"][field] = value
        if value is ...:
            del cells["answer-04-2"][field]

    path = handed_in(damage)
    with pytest.raises(ValueError, match=why):
        marking.mark(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "ending",
    sampled(["exit()", "import os\nos._exit(1)"], "endings", enough=homework.is_recorded()),
)
def test_a_cell_that_ends_the_process_costs_no_check(handed_in, ending):
    def append(by_id, cells):
        code = next(cell for cell in cells if cell["cell_type"] == "code")
        cells.append({**code, "id": "last", "metadata": {}, "source": ending})

    marked = marking.mark(handed_in(append))
    assert marked.points == FOUR.points
    (told,) = marked.notices
    assert "ended the process" in told and f"that begins {ending.splitlines()[0]!r}" in told


@pytest.mark.slow
def test_a_right_answer_has_its_points_where_gradients_are_switched_off(handed_in):
    def switch_off(cells, _):
        cells["answer-04-1"]["source"] += ["\nimport torch\ntorch.set_grad_enabled(False)"]

    assert marking.mark(handed_in(switch_off)).points == FOUR.points


def test_a_check_without_a_mark_says_why():
    from nbformat.v4 import new_code_cell, new_output

    def told(why="", **error):
        outputs = [new_output("error", traceback=[], **error)] if error else []
        cell = new_code_cell(outputs=outputs)
        return marking.mark_of(find_task("04.1"), cell, [execution.Loss(cell, why)])

    assert told(execution.STUCK).measured == "the check did not end"
    assert told(ename="KeyboardInterrupt", evalue="").measured == "the check did not end"
    assert told(execution.DIED).measured == "the process ended during the check"
    found = told(ename="RuntimeError", evalue="no grad_fn\nat all")
    assert found.measured == "the check raised RuntimeError: no grad_fn" and found.points == 0


def test_a_check_computes_gradients_where_they_are_switched_off():
    with torch.no_grad():
        with undisturbed():
            assert torch.is_grad_enabled()
        assert not torch.is_grad_enabled()
