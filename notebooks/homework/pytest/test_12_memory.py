"""Homework 12 for those who work in an editor: one test a task."""

import answers_12_memory as answers
import pytest

from nmtcourse.homework import find_task, judge

TASKS = [
    ("12.1", ["training_bytes"]),
    ("12.2", ["ring_all_reduce"]),
    ("12.3", ["fitting_batches"]),
    ("12.4", ["choice_12", "training_bytes"]),
]


@pytest.mark.parametrize(("task", "names"), TASKS)
def test_task(task, names):
    verdict = judge(find_task(task), *(getattr(answers, name, None) for name in names))
    assert verdict.full, f"\n{verdict}"
