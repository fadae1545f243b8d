"""Homework 01 for those who work in an editor: one test a task."""

import answers_01_text as answers
import pytest

from nmtcourse.homework import find_task, judge

TASKS = [
    ("01.1", ["Vocabulary"]),
    ("01.2", ["learn_merges"]),
    ("01.3", ["plan"]),
    ("01.4", ["choice_01", "Vocabulary"]),
]


@pytest.mark.parametrize(("task", "names"), TASKS)
def test_task(task, names):
    verdict = judge(find_task(task), *(getattr(answers, name, None) for name in names))
    assert verdict.full, f"\n{verdict}"
