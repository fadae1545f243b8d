"""Homework 11 for those who work in an editor: one test a task."""

import answers_11_evaluation as answers
import pytest

from nmtcourse.homework import find_task, judge

TASKS = [
    ("11.1", ["alignment_error_rate"]),
    ("11.2", ["bleu"]),
    ("11.3", ["bootstrap"]),
    ("11.4", ["choice_11", "bootstrap"]),
]


@pytest.mark.parametrize(("task", "names"), TASKS)
def test_task(task, names):
    verdict = judge(find_task(task), *(getattr(answers, name, None) for name in names))
    assert verdict.full, f"\n{verdict}"
