"""A cause is named by a table of what each known mistake does, and only where all agrees."""

import pytest
import torch
from nightly import some

from nmtcourse.homework import causes
from nmtcourse.homework.catalogue import assignments, find_task
from nmtcourse.homework.grading import judge
from nmtcourse.homework.limits import undisturbed
from nmtcourse.homework.trials import LiveAnswer

TASKS = [task for each in assignments().values() for task in each.tasks.values() if task.mistakes]


@pytest.mark.parametrize("task", some(TASKS, every=9), ids=lambda task: task.id)
def test_the_table_is_that_of_the_master(task):
    stored = causes.table()[task.id]
    built = causes.build(task)
    assert [*stored] == [*built]
    for cause, codes in built.items():
        assert len(stored[cause]) == len(codes)
        assert all(map(causes.codes_agree, stored[cause], codes)), cause


def test_every_known_mistake_has_a_row_and_differs_from_the_solution():
    for task in TASKS:
        rows = dict(causes.table()[task.id])
        right = rows.pop(causes.SOLUTION)
        assert [*rows] == [*task.mistakes]
        for cause, codes in rows.items():
            assert not all(map(causes.codes_agree, right, codes)), (task.id, cause)


def test_a_mistake_in_other_words_is_named():
    def unscaled(q, k, v, allowed=None):
        scores = torch.einsum("...td,...sd->...ts", q, k)
        if allowed is not None:
            scores = torch.where(allowed, scores, -1e30)
        weights = scores.softmax(-1)
        if allowed is not None:
            weights = torch.where(allowed, weights, torch.zeros_like(weights))
        return weights @ v

    assert judge(find_task("04.2"), unscaled).finding.cause == "The scores are not scaled."


def test_an_answer_that_does_a_little_else_is_not_named():
    """It agrees with a known mistake on all inputs but one kind."""
    wrong = find_task("04.2").wrong["The scores are not scaled."]

    def other(query, key, value, mask=None):
        result = wrong(query, key, value, mask)
        return result + 1 if mask is None else result

    assert judge(find_task("04.2"), other).finding.cause == ""


def test_no_mistake_runs_while_an_answer_is_judged(monkeypatch):
    task = find_task("04.1")
    answer = [*task.wrong.values()][0]
    monkeypatch.setitem(task.__dict__, "wrong", None)
    assert judge(task, answer).finding.cause == [*task.mistakes][0]


def test_codes_agree_up_to_rounding():
    assert causes.codes_agree("0a 1.234", "0a 1.235") and causes.codes_agree("", "")
    for first, second in (("0a 1.2", "0a 1.3"), ("0a 1.2", "0b 1.2"), ("", "0a 1.2"), ("0a", "")):
        assert not causes.codes_agree(first, second)


def test_too_little_that_is_wrong_makes_no_digest():
    task = find_task("04.1")
    with undisturbed():
        codes = causes.fingerprint(LiveAnswer(task, task.solution))
    assert causes.behaviour(task, codes) == ""
    assert causes.behaviour(task, ["x 1" for _ in codes]) != ""
