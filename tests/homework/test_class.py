"""A class gets the verdicts that a student gets: the same points, and the same likely causes."""

import textwrap

import pytest
from nightly import some

from nmtcourse.homework import execution, submissions
from nmtcourse.homework.execution import Session
from nmtcourse.homework.grading import assignments, judge
from nmtcourse.homework.values import Remote

TASKS = [t for each in assignments().values() for t in each.tasks.values() if not t.uses]
# The same tensor twice, a GRU, a function called back that has weights of its own
ALWAYS = [task for task in TASKS if task.id in ("07.1", "11.3", "12.1")]
CASES = [(task, about) for task in TASKS for about in task.mistakes]
APART = "The weights are shared, not copied: training one module changes the other."


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """A process that a notebook may have."""
    with Session(tmp_path_factory.mktemp("class")) as started:
        yield started


def in_class(session, task, source, seed=0):
    """The verdict on an answer that is in another process."""
    page = assignments()[task.id[:2]]
    given = [textwrap.dedent(each.given) for each in page.tasks.values()]
    cell = "\n".join([page.imports, *given, source])
    assert session.run(cell, 60) is None
    (answer,) = session.answers(task, [task.name])
    assert isinstance(answer, Remote)
    return judge(task, answer, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "task",
    some(TASKS, by=lambda task: task in ALWAYS and task.id),
)
def test_a_solution_has_full_points_in_class(session, task):
    verdict = in_class(session, task, task.source)
    assert verdict.full, verdict


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "about"),
    some(CASES, by=lambda case: case[0] in ALWAYS and case[0].id),
)
def test_a_class_is_told_the_cause_that_a_student_is_told(session, task, about):
    verdict = in_class(session, task, task.edited(task.mistakes[about]))
    if about == APART:  # two processes share no memory
        assert not verdict.full
    else:
        assert verdict.finding.cause == about, verdict


@pytest.mark.slow
def test_a_cause_is_named_whatever_the_arguments_are_called(session):
    source = (
        "def stable_softmax(rows):\n    powers = rows.exp()\n"
        "    return powers / powers.sum(-1, keepdim=True)"
    )
    four = assignments()["04"]
    task, space = four.tasks["04.1"], {}
    exec(source, space)
    verdicts = [in_class(session, task, source), judge(task, space["stable_softmax"], seed=0)]
    assert str(verdicts[0]) == str(verdicts[1])
    finding = verdicts[0].finding
    assert finding.cause == "Nothing is subtracted, so large scores overflow."
    assert "for rows = " in finding.measured


def test_windows_is_told_what_to_use(tmp_path, monkeypatch):
    monkeypatch.setattr(execution.sys, "platform", "win32")
    (tmp_path / "ann").mkdir()
    with pytest.raises(ValueError, match="needs Linux or macOS; on Windows use WSL"):
        submissions.grade_all(tmp_path, 1)
    with pytest.raises(ValueError, match="needs Linux or macOS"), Session(tmp_path):
        pass
