"""Homework 10 for those who work in an editor: one test a task."""

import answers_10_decoding as answers
import pytest

from nmtcourse.homework import find_task, judge

TASKS = [
    ("10.1", ["greedy"]),
    ("10.2", ["beam_search"]),
    ("10.3", ["StepAttention"]),
    ("10.4", ["choice_10", "greedy"]),
]


@pytest.mark.parametrize(("task", "names"), TASKS)
def test_task(task, names):
    verdict = judge(find_task(task), *(getattr(answers, name, None) for name in names))
    assert verdict.full, f"\n{verdict}"
