"""What every exercise's judge must say of right answers, wrong ones, and what is no function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from nmtcourse.teaching import judge
from nmtcourse.teaching.exercises import Wrong

Answers = tuple[Callable[..., Any], ...]
# A judge draws its inputs with a seed: one at a commit, another one by night.
SEEDS = [0, pytest.param(5, marks=pytest.mark.nightly)]


def answers_of(exercises: Mapping[str, Any], which: int) -> list[tuple[str, Answers]]:
    """Each right (0) or wrong (1) answer with the number of its exercise, as functions."""
    return [
        (number, answer if isinstance(answer, tuple) else (answer,))
        for number, answers in exercises.items()
        for answer in answers[which]
    ]


def require_right(number: str, answers: Answers, seed: int, capsys: Any) -> None:
    """The judge takes the functions, and says so."""
    judge(number, *answers, seed=seed)
    assert f"exercise {number} is right: " in capsys.readouterr().out


def require_refused(number: str, answers: Answers, seed: int, capsys: Any) -> None:
    """The judge refuses the functions, and says nowhere that they are right."""
    with pytest.raises(Wrong):
        judge(number, *answers, seed=seed)
    assert "is right" not in capsys.readouterr().out


def require_function(number: str) -> None:
    """The judge asks for the function where it is given a result."""
    for invented in (1.0, {}, torch.ones(2), "right"):
        with pytest.raises(Wrong, match="the function itself"):
            judge(number, invented)
