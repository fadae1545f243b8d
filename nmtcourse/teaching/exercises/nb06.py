"""The judges of notebook 06."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import torch
from torch import Tensor

from nmtcheck import ours, run_checks
from nmtcourse import bugs
from nmtcourse.teaching.exercises import Wrong, agree, call, require_equal, show
from nmtcourse.teaching.language import say
from nmtlib.specials import BOS, PAD

PLANTED = ("mask-inverted", "mask-fill-small", "causal-mask-training-only")


def judge_1(window: Callable[[int, int], Tensor], *, draw: Random) -> str:
    """The mask of a decoder that may attend to itself and to some words before it."""
    drawn = [(draw.randint(1, 12), draw.randint(0, 12)) for _ in range(10)]
    for length, back in sorted(drawn):  # a short mask is read at once
        position = torch.arange(length)
        distance = position[:, None] - position  # (T, T): how far back a key is
        expected = (distance >= 0) & (distance <= back)
        require_mask(f"window({length}, {back})", call(window, length, back), expected)
    return "10 masks"


def require_mask(what: str, given: Any, expected: Tensor) -> None:
    """Raise Wrong unless this is the expected mask; the message names the first wrong place."""
    should = f"{what} should be a bool tensor of the shape {tuple(expected.shape)}"
    if not isinstance(given, Tensor):
        raise Wrong(say(f"{should}, but it is {show(given)}"))
    if given.dtype != torch.bool or given.shape != expected.shape:
        kind = str(given.dtype).removeprefix("torch.")
        raise Wrong(say(f"{should}, but it is {kind} of the shape {tuple(given.shape)}"))
    differing = (given != expected).nonzero()
    if len(differing):
        place = tuple(differing[0].tolist())
        name = f"{what}[{', '.join(map(str, place))}]"
        raise Wrong(say(f"{name} should be {expected[place]}, but it is {given[place]}"))


def as_ints(mask: Any) -> Any:
    """A mask as lists of 0 and 1, so that a message shows it; anything else as it is."""
    is_mask = isinstance(mask, Tensor) and mask.dtype == torch.bool
    return mask.int().tolist() if is_mask else mask


def judge_2(
    left_mask: Callable[[Tensor], Tensor], without_keys: Callable[[Tensor], Tensor], *, draw: Random
) -> str:
    """The mask of targets that are padded on the left, and its queries without any key."""
    for number in range(10):
        length, lengths = draw.randint(3, 7), []
        rows = []
        n_rows = draw.randint(1, 4)
        if number == 0:
            length, n_rows = 4, 2  # a reader sees them whole
        for _ in range(n_rows):
            lengths.append(draw.randint(1, length))
            words = [BOS, *(draw.randint(4, 40) for _ in range(lengths[-1] - 1))]
            rows.append([PAD] * (length - lengths[-1]) + words)
        ids = torch.tensor(rows)  # (B, T)
        past = torch.ones(length, length, dtype=torch.bool).tril()
        expected = (ids != PAD)[:, None, None, :] & past  # (B, 1, T, T)
        require_mask(f"left_mask({rows})", call(left_mask, ids), expected)
        n_sentences = 1 + number % 3  # any mask, also of one sentence, and with empty rows
        empty = torch.rand(n_sentences, 1, length, length) < 0.3
        empty[0, 0, draw.randrange(length)] = False
        given = as_ints(call(without_keys, empty))
        wanted = as_ints(~empty.any(dim=-1)[:, 0])  # (B, T)
        require_equal(f"without_keys({as_ints(empty)})", given, wanted)
    return "10 batches"


def judge_3(with_bug: Callable[[str, Callable[[], Any]], Any], *, draw: Random) -> str:
    """What a function returns while a bug is planted, and no longer than that."""
    for bug in PLANTED:
        caught_by, number = bugs.get(bug).caught_by, draw.randint(1, 999)
        seen: list[bool] = []

        def experiment(caught_by: Any = caught_by, number: int = number, seen: list = seen) -> int:
            seen.append(run_checks(ours(), only=caught_by).ok)
            return number

        agree(with_bug, bug, experiment, expected=number)
        if seen != [False]:
            raise Wrong(say(f"with_bug({bug!r}, experiment): the experiment ran without the bug"))
        if not run_checks(ours(), only=caught_by).ok:
            raise Wrong(say(f"with_bug({bug!r}, experiment): the bug is still there"))
        require_error_passed_on(with_bug, bug)
        if not run_checks(ours(), only=caught_by).ok:
            raise Wrong(say(f"with_bug({bug!r}, experiment): the bug is still there"))
    return f"{len(PLANTED)} bugs"


class Failed(Exception):
    """What an experiment raises that fails."""


def require_error_passed_on(with_bug: Callable[[str, Callable[[], Any]], Any], bug: str) -> None:
    """Raise Wrong where the error of an experiment is swallowed."""

    def fail() -> None:
        raise Failed

    try:
        with_bug(bug, fail)
    except Failed:
        return
    except Exception as error:
        raise Wrong(say(f"with_bug({bug!r}, fail) raises {type(error).__name__}")) from error
    raise Wrong(say(f"with_bug({bug!r}, fail) hides the error that the experiment raises"))
