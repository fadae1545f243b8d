"""What a notebook may hold: damaged cells, ends of the process, answers in odd places."""

import json

import pytest
import torch

from nmtcourse.homework import marking, pages
from nmtcourse.homework.grading import assignments
from nmtcourse.homework.limits import undisturbed

FOUR = assignments()["04"]


HELPED = """\
def helper(scores):
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)
"""


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
@pytest.mark.parametrize("ending", ["exit()", "import os\nos._exit(1)"])
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


@pytest.mark.slow
def test_an_answer_that_ends_the_process_costs_its_own_points_alone(handed_in):
    def end(cells, _):
        cells["answer-04-3"]["source"] = [
            "def causal_self_attention(*given):\n    import os\n    os._exit(0)"
        ]

    marked = marking.mark(handed_in(end))
    assert [mark.points for mark in marked.marks] == [4, 6, 0, 2]
    assert marked.marks[2].measured == "the process ended during the check"


@pytest.mark.slow
def test_a_helper_that_a_later_cell_redefines_costs_nothing(handed_in):
    """Each answer is judged where its check is; one that is repaired later counts, too."""

    def redefine(cells, order):
        answer = "def stable_softmax(scores):\n    return helper(scores)"
        cells["answer-04-1"]["source"] = [HELPED + answer]
        code = {**cells["imports"], "id": "later", "source": ["def helper(x):\n    return x"]}
        order.insert(order.index(cells["check-04-1"]) + 1, code)

    assert marking.mark(handed_in(redefine)).points == FOUR.points


@pytest.mark.slow
def test_an_answer_in_the_cell_of_its_check_counts(handed_in):
    def move(cells, _):
        answer = "".join(cells["answer-04-1"]["source"])
        cells["answer-04-1"]["source"] = ["pass"]
        cells["check-04-1"]["source"] = [answer, "\n\n", *cells["check-04-1"]["source"]]

    marked = marking.mark(handed_in(move))
    assert marked.points == FOUR.points
    assert "the check of 04.1 was edited; the original was run" in marked.notices


@pytest.mark.slow
def test_a_page_that_is_pasted_twice_gives_one_notice(handed_in):
    def paste(_, order):
        page = json.loads(pages.notebook(FOUR))["cells"]
        order += [{**cell, "id": f"{cell['id']}-2"} for cell in page]

    marked = marking.mark(handed_in(paste))
    assert marked.points == FOUR.points
    assert marked.notices == ["the page is in the notebook more than once; the best answers count"]


@pytest.mark.slow
def test_a_notebook_that_deletes_itself_is_graded(handed_in):
    def delete(_, order):
        source = "import pathlib\n[p.unlink() for p in pathlib.Path.cwd().glob('*.ipynb')]"
        order.insert(1, {**order[1], "id": "first", "source": source})

    path = handed_in(delete)
    marked = marking.mark(path)
    assert not path.exists() and marked.points == FOUR.points and marked.digest


def test_a_check_computes_gradients_where_they_are_switched_off():
    with torch.no_grad():
        with undisturbed():
            assert torch.is_grad_enabled()
        assert not torch.is_grad_enabled()
