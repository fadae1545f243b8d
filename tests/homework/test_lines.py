"""A report prints lines to paste; whoever pastes them sees what it says."""

import contextlib
import io
import math
import random

import numpy as np
import pytest
import torch
from nightly import some

from nmtcourse.homework.catalogue import assignments
from nmtcourse.homework.compare import short
from nmtcourse.homework.grading import judge
from nmtcourse.homework.lines import again, given, literal

TASKS = [task for each in assignments().values() for task in each.tasks.values() if not task.uses]
MISTAKES = [(task, about) for task in TASKS for about in task.mistakes]
HEAD = "  paste these lines to see it:\n"


def replayed(task, answer, lines):
    """What the last line gives: its value, or what it prints or raises as text."""
    namespace = {"torch": torch, task.name: answer}
    *first, last = lines
    exec("\n".join(first), namespace)
    code = last.partition("  # ")[0]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            value = eval(code, namespace)
    except Exception as error:
        message = (str(error).strip().splitlines() or [""])[0]
        return f"{type(error).__name__}: {message[:100]}"
    return printed.getvalue().strip() or value


def looks_like(value, text):
    """Whether a value is what a report prints."""
    if isinstance(value, torch.Tensor) and value.shape == ():
        value = value.item()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, torch.Size):
        value = tuple(value)
    if type(value) in (int, float):
        return math.isclose(value, float(text), rel_tol=1e-3) or str(value) == text
    return text in (str(value), short(value))


def require_true_lines(task, answer):
    """Judge an answer twice, and paste the lines of its report."""
    verdict = judge(task, answer)
    _, _, block = str(verdict).partition(HEAD)
    lines = [line.removeprefix("    ") for line in block.splitlines()]
    assert lines, verdict
    torch.manual_seed(1)
    random.seed(1)
    value = replayed(task, answer, lines)
    if lines[-1].startswith("again("):
        measured = verdict.finding.measured.partition(", in line")[0]
        assert value.startswith(measured), (value, str(verdict))
        lines = lines[:-2]  # without again, and its import
        value = replayed(task, answer, lines) if lines and "#" in lines[-1] else None
    if lines and "  # " in lines[-1]:
        text = lines[-1].partition("  # ")[2].partition(", expected ")[0]
        assert looks_like(value, text), (value, str(verdict))


@pytest.mark.parametrize(
    ("task", "about"),
    some(MISTAKES, by=lambda case: case[0].id),
    ids=lambda given: getattr(given, "id", None) or given[:20],
)
def test_the_lines_of_a_report_give_what_it_says(task, about):
    require_true_lines(task, task.wrong[about])


@pytest.mark.nightly
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_the_lines_about_a_stranger_give_what_they_say(task):
    from homework_rounds import wrong_answers

    for _, _, answer in wrong_answers([task.id]):
        require_true_lines(task, answer)


def test_literals_are_the_values_bit_for_bit():
    values = [
        None, True, -3, math.pi, -math.inf, "a'\n", [1, [2.5]], (1,), (1, 2), {"a": {3}}, set(),
        torch.tensor(0.1), torch.tensor([[0.1, -torch.inf], [torch.nan, 1e-30]]),
        torch.tensor([0.1], dtype=torch.float64, requires_grad=True),
        torch.tensor([0.1, 2.0], dtype=torch.bfloat16), torch.tensor([True]),
        torch.zeros(2, 0, dtype=torch.int64), torch.arange(3),
    ]  # fmt: skip
    for value in values:
        found = eval(literal(value), {"torch": torch})
        if isinstance(value, torch.Tensor):
            assert (found.dtype, found.shape) == (value.dtype, value.shape)
            assert found.requires_grad == value.requires_grad
            assert torch.equal(found.nan_to_num(7), value.nan_to_num(7))
        else:
            assert found == value and type(found) is type(value)
    assert literal(torch.zeros(99)) is None and literal(print) is None and literal([print]) is None


def test_what_is_no_input_is_refused_by_name():
    with pytest.raises(ValueError, match="05.1 has properties 0 to 1, not 9"):
        given("05.1", 9, [])
    with pytest.raises(ValueError, match="makes fewer than 8 calls"):
        given("05.1", 0, [], 7)


def test_a_right_answer_holds_on_an_input(capsys):
    task = TASKS[0]
    again(task.id, task.solution, 0, [])
    assert "holds on this input" in capsys.readouterr().out
