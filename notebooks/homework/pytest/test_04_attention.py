"""Homework 04 for those who work in an editor: one test a task."""

import answers_04_attention as answers
import pytest

from nmtcourse.homework import find_task, judge

TASKS = [
    ("04.1", ["stable_softmax"]),
    ("04.2", ["masked_attention"]),
    ("04.3", ["causal_self_attention"]),
    ("04.4", ["choice_04", "stable_softmax"]),
]


@pytest.mark.parametrize(("task", "names"), TASKS)
def test_task(task, names):
    verdict = judge(find_task(task), *(getattr(answers, name, None) for name in names))
    assert verdict.full, f"\n{verdict}"
