"""Homework 06 for those who work in an editor: one test a task."""

import answers_06_masks as answers
import pytest

from nmtcourse.homework import find_task, judge

TASKS = [
    ("06.1", ["three_masks"]),
    ("06.2", ["leaks"]),
    ("06.3", ["masked_softmax"]),
    ("06.4", ["choice_06", "three_masks"]),
]


@pytest.mark.parametrize(("task", "names"), TASKS)
def test_task(task, names):
    verdict = judge(find_task(task), *(getattr(answers, name, None) for name in names))
    assert verdict.full, f"\n{verdict}"
