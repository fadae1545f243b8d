"""The judges of notebook 05."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcourse.teaching.exercises import Wrong, agree, call, name_call, require_equal
from nmtcourse.teaching.language import say

Score = Callable[[Sequence[int]], float]  # of a model without these heads


def judge_1(
    unmix: Callable[[Tensor, Tensor, tuple[float, float]], tuple[int, int]], *, draw: Random
) -> str:
    """Which two rows of a table, in which order, make up a mixture with known shares."""
    why = "of all pairs of rows, the one whose mixture is nearest"
    # The long row and the near one mislead the two steps of section 2.
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.7, 0.3], [3.0, 3.0]])
    for shares in ((0.65, 0.35), (0.35, 0.65)):
        mixture = shares[0] * rows[0] + shares[1] * rows[1]
        require_pair(unmix, mixture, rows, shares, (0, 1), why)
    for number in range(30):
        words = torch.randn(draw.randint(5, 60), draw.choice((6, 16, 64)))  # (V, D)
        words = words * torch.empty(len(words), 1).uniform_(0.5, 2)  # rows of any length
        share = draw.choice((draw.randint(10, 45), draw.randint(55, 90))) / 100
        shares = share, round(1 - share, 2)
        first, second = draw.sample(range(len(words)), 2)
        if number % 3 == 0:
            second = first  # a word may be its own neighbour
        mixture = shares[0] * words[first] + shares[1] * words[second]
        require_pair(unmix, mixture, words, shares, (first, second), why)
    return "32 mixtures"


def require_pair(
    unmix: Callable[..., Any],
    mixture: Tensor,
    words: Tensor,
    shares: tuple[float, float],
    pair: tuple[int, int],
    why: str,
) -> None:
    """Raise Wrong unless the two rows are found, as a tuple, a list or a tensor."""
    given = call(unmix, mixture, words, shares)
    if isinstance(given, Tensor):
        given = given.tolist()
    require_equal(name_call(unmix, (mixture, words, shares)), given, pair, why=why)


def judge_2(make: Callable[[int, int], nn.Module], *, draw: Random) -> str:
    """Multi-head attention, compared with torch's attention on its own four maps."""
    heads = (4, 4), (2, 3), (3, 8), (1, 10)
    for n_heads, d_k in heads:
        attention = call(make, n_heads * d_k, n_heads)
        query, memory = torch.randn(2, 5, n_heads * d_k), torch.randn(2, 7, n_heads * d_k)
        mask = torch.rand(2, 1, 5, 7) < 0.6
        mask[..., 0] = True
        queries, keys, values = (
            getattr(attention, name)(x).unflatten(-1, (n_heads, d_k)).transpose(1, 2)
            for name, x in (("query", query), ("key", memory), ("value", memory))
        )  # (B, H, T, d_k) each
        answers = F.scaled_dot_product_attention(queries, keys, values, mask)
        expected = attention.output(answers.transpose(1, 2).flatten(2))
        given = call(attention, query, memory, memory, mask)
        if not isinstance(given, Tensor) or not torch.allclose(given, expected, atol=1e-4):
            sizes = f"Mine({n_heads * d_k}, {n_heads})"
            raise Wrong(say(f"{sizes}: the result is not that of {n_heads} heads of size {d_k}"))
    return f"{len(heads)} sizes"


def judge_3(
    remove_heads: Callable[[list[int], Score], tuple[list[int], list[float]]], *, draw: Random
) -> str:
    """Heads in the order in which each next one costs least, and the score at each step."""
    for _ in range(10):
        heads = draw.sample(range(24), 7)
        alone = {head: draw.uniform(-2, 4) for head in heads}  # without some the score rises
        # Two heads that do the same work: without both, much is lost.
        joint = {pair: draw.uniform(0, 9) for pair in combinations(sorted(heads), 2)}

        def score(removed: Sequence[int], alone: dict = alone, joint: dict = joint) -> float:
            pairs = combinations(sorted(removed), 2)
            return 200 - sum(alone[h] for h in removed) - sum(joint[pair] for pair in pairs)

        why = "first the order, then the scores; each step leaves the highest score"
        agree(remove_heads, heads, score, expected=greedy_order(heads, score), why=why)
        kept = list(heads)
        remove_heads(kept, score)
        if kept != heads:
            raise Wrong(say("remove_heads changes the list of heads that it is given"))
    return "10 models"


def greedy_order(heads: Sequence[int], score: Score) -> tuple[list[int], list[float]]:
    """Remove the head whose removal leaves the highest score, again and again."""
    removed: list[int] = []
    curve = [score([])]
    while len(removed) < len(heads):
        left = [head for head in heads if head not in removed]
        removed.append(max(left, key=lambda head: score([*removed, head])))
        curve.append(score(removed))
    return removed, curve
