"""Homework 08 for those who work in an editor: one test a task."""

import answers_08_loss as answers
import pytest

from nmtcourse.homework import find_task, judge

TASKS = [
    ("08.1", ["rate"]),
    ("08.2", ["smoothed_loss"]),
    ("08.3", ["gradients"]),
    ("08.4", ["choice_08", "smoothed_loss"]),
]


@pytest.mark.parametrize(("task", "names"), TASKS)
def test_task(task, names):
    verdict = judge(find_task(task), *(getattr(answers, name, None) for name in names))
    assert verdict.full, f"\n{verdict}"
