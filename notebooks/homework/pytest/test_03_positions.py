"""Homework 03 for those who work in an editor: one test a task."""

import answers_03_positions as answers
import pytest

from nmtcourse.homework import find_task, judge

TASKS = [
    ("03.1", ["position_table"]),
    ("03.2", ["rotation"]),
    ("03.3", ["Positions"]),
    ("03.4", ["choice_03", "position_table"]),
]


@pytest.mark.parametrize(("task", "names"), TASKS)
def test_task(task, names):
    verdict = judge(find_task(task), *(getattr(answers, name, None) for name in names))
    assert verdict.full, f"\n{verdict}"
