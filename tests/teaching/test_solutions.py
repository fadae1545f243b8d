"""Each judged exercise has a right answer, which is printed after a try."""

import inspect
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from nmtcourse.teaching import exercises, judge, solution
from nmtcourse.teaching.exercises import ANSWERS, Wrong, name_answers

NUMBERS = list(tomllib.loads(ANSWERS.read_text("utf-8")))


def test_every_judged_exercise_has_an_answer():
    judged = []
    for path in sorted(Path(exercises.__file__).parent.glob("nb*.py")):
        module = import_module(f"nmtcourse.teaching.exercises.{path.stem}")
        for name, _ in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("judge_"):
                judged.append(f"{path.stem[2:]}.{name[len('judge_') :]}")
    assert sorted(judged) == sorted(NUMBERS)


@pytest.mark.parametrize("number", NUMBERS)
def test_what_solution_prints_is_right(number, capsys, monkeypatch):
    monkeypatch.setattr(exercises, "tried", {number})
    solution(number)
    names = {}
    exec(capsys.readouterr().out, names)
    judge(number, *(names[name] for name in name_answers(number)))
    assert f"exercise {number} is right" in capsys.readouterr().out


def test_an_answer_is_printed_after_a_try_only(capsys, monkeypatch):
    monkeypatch.setattr(exercises, "tried", set())
    with pytest.raises(ValueError, match=r'try it first: judge\("06.2", left_mask, without_keys\)'):
        solution("06.2")
    with pytest.raises(Wrong, match="the function itself"):
        judge("01.1", 0.1)
    with pytest.raises(ValueError, match="try it first"):
        solution("01.1")
    with pytest.raises(Wrong, match=r'; solution\("01.1"\) prints a right answer'):
        judge("01.1", lambda counts, size: 0.1)
    solution("01.1")
    assert "def share_of_unknown(counts, size):" in capsys.readouterr().out
    with pytest.raises(ValueError, match="no judge for the exercise '99.9'"):
        solution("99.9")
