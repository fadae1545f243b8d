"""Homework 05 for those who work in an editor: one test a task."""

import answers_05_multi_head as answers
import pytest

from nmtcourse.homework import find_task, judge

TASKS = [
    ("05.1", ["split_heads"]),
    ("05.2", ["multi_head_attention"]),
    ("05.3", ["take_over"]),
    ("05.4", ["choice_05", "multi_head_attention"]),
]


@pytest.mark.parametrize(("task", "names"), TASKS)
def test_task(task, names):
    verdict = judge(find_task(task), *(getattr(answers, name, None) for name in names))
    assert verdict.full, f"\n{verdict}"
