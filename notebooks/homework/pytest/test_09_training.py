"""Homework 09 for those who work in an editor: one test a task."""

import answers_09_training as answers
import pytest

from nmtcourse.homework import find_task, judge

TASKS = [
    ("09.1", ["EarlyStopping"]),
    ("09.2", ["train_step"]),
    ("09.3", ["Checkpoint"]),
    ("09.4", ["choice_09", "EarlyStopping"]),
]


@pytest.mark.parametrize(("task", "names"), TASKS)
def test_task(task, names):
    verdict = judge(find_task(task), *(getattr(answers, name, None) for name in names))
    assert verdict.full, f"\n{verdict}"
