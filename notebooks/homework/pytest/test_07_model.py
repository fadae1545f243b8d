"""Homework 07 for those who work in an editor: one test a task."""

import answers_07_model as answers
import pytest

from nmtcourse.homework import find_task, judge

TASKS = [
    ("07.1", ["Residual"]),
    ("07.2", ["count"]),
    ("07.3", ["OwnTransformer"]),
    ("07.4", ["choice_07", "count"]),
]


@pytest.mark.parametrize(("task", "names"), TASKS)
def test_task(task, names):
    verdict = judge(find_task(task), *(getattr(answers, name, None) for name in names))
    assert verdict.full, f"\n{verdict}"
