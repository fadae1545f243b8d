"""The judges of notebook 11b."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import torch
from torch import Tensor

from nmtcourse.teaching.alignment import alignment_error_rate, links
from nmtcourse.teaching.exercises import agree

Links = set[tuple[int, int]]


def judge_1(error_rate_of: Callable[[list[Links], list[Links]], float], *, draw: Random) -> str:
    """The alignment error rate of several sentences together."""
    for turn in range(8):
        found: list[Links] = []
        gold: list[Links] = []
        for _ in range(draw.randint(1, 4)):
            size = draw.randint(2, 5)
            everything = [(i, j) for i in range(size) for j in range(size)]
            gold.append(set(draw.sample(everything, size)))
            found.append(set(draw.sample(everything, draw.randint(1, size))))
            found[-1] |= set(draw.sample(sorted(gold[-1]), 1))
        hint = "add up the links of all sentences first"
        if turn % 2:  # a sentence without a found link, or without one that is wanted
            draw.choice([found, gold])[0] = set()
            found.append({(0, 1)})
            gold.append({(0, 1), (1, 0)})
        agree(error_rate_of, found, gold, expected=alignment_error_rate(found, gold), why=hint)
    return "8 sets of sentences"


def judge_2(links_of: Callable[[Tensor, str], Links], *, draw: Random) -> str:
    """The links of one map, read from the row that outputs a word or from the one that reads it."""
    for _ in range(8):
        targets, sources = draw.randint(2, 6), draw.randint(2, 6)
        weights = torch.rand(targets, sources).softmax(dim=-1)  # (T, S)
        weights[draw.randrange(targets), -1] = 1.0  # a word that attends to <EOS>
        for row in ("output", "input"):
            agree(links_of, weights, row, expected=links(weights, row), why="<EOS> has no links")
    return "16 maps"
