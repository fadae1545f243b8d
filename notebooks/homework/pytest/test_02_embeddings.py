"""Homework 02 for those who work in an editor: one test a task."""

import answers_02_embeddings as answers
import pytest

from nmtcourse.homework import find_task, judge

TASKS = [
    ("02.1", ["lookup"]),
    ("02.2", ["ScaledEmbedding"]),
    ("02.3", ["TiedTable"]),
    ("02.4", ["choice_02", "TiedTable"]),
]


@pytest.mark.parametrize(("task", "names"), TASKS)
def test_task(task, names):
    verdict = judge(find_task(task), *(getattr(answers, name, None) for name in names))
    assert verdict.full, f"\n{verdict}"
