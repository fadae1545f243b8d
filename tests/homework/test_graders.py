"""The graders are graded: right answers of any form have full points, wrong ones are named."""

from collections import Counter

import pytest
from nightly import some

from nmtcourse.homework.catalogue import assignments
from nmtcourse.homework.grading import judge
from nmtcourse.homework.trials import LiveAnswer, outcome

TASKS = [task for assignment in assignments().values() for task in assignment.tasks.values()]
CHOICES = [task for task in TASKS if task.uses]
MISTAKES = [(task, about) for task in TASKS for about in task.mistakes]


def number_of(task):
    """The assignment of a task: the first task of each runs at a commit, all at night."""
    return task.id[:2]


def named(given):
    """What a test is called: the same in each process."""
    return getattr(given, "id", None) or getattr(given, "__name__", None) or repr(given)[:20]


def judged(task, answer):
    """The verdict on an answer; a choice is compared with the solutions of the other tasks."""
    tasks = assignments()[task.id[:2]].tasks.values()
    others = [next(t for t in tasks if t.name == name).solution for name in task.uses]
    return judge(task, answer, *others)


@pytest.mark.slow
@pytest.mark.parametrize("task", some(TASKS, by=number_of), ids=lambda task: task.id)
def test_the_solution_has_full_points_and_the_blank_none(task):
    assert judged(task, task.solution).full
    if task.uses:
        assert judged(task, "?").points == 0
    else:
        blank = judged(task, task.build(task.student_source))
        assert blank.points == 0 and "nothing is written" in str(blank)


@pytest.mark.parametrize(
    ("task", "about"), some(MISTAKES, by=lambda case: number_of(case[0])), ids=named
)
def test_a_known_mistake_is_refused_and_named(task, about):
    verdict = judged(task, task.wrong[about])
    assert verdict.points < task.points
    assert verdict.finding.cause == about, verdict


def test_no_letter_is_right_more_often_than_another():
    letters = Counter(task.solution for task in CHOICES)
    assert set(letters) == {*"ABC"} and max(letters.values()) - min(letters.values()) <= 1


@pytest.mark.parametrize("task", some(CHOICES, every=4), ids=lambda task: task.id)
def test_a_choice_is_compared_with_ones_own_numbers(task):
    (name,) = task.uses
    used = next(t for t in assignments()[task.id[:2]].tasks.values() if t.name == name)
    wrong = used.wrong.values()
    answers = (LiveAnswer(task, task.solution, (each,)) for each in wrong)
    found = [outcome(task.properties[0], answer).finding for answer in answers]
    assert any(finding and "your own function computes" in finding.expected for finding in found)
    nonsense = (used.build(used.student_source), None, lambda *given: given[0])
    for letter, function in zip("ABC", nonsense, strict=True):
        verdict = judge(task, letter, function)
        assert verdict.points == 0 and f"Repair {used.id} first" in str(verdict)
