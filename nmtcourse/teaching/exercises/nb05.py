"""The judges of notebook 05."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcheck import Adapter
from nmtcourse.teaching.exercises import Wrong, agree, call, name_call, require_equal
from nmtcourse.teaching.exercises.nb04 import require_passed
from nmtcourse.teaching.language import say

FIXED = (0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)  # first shares that an answer may have typed
Score = Callable[[Sequence[int]], float]  # of a model without these heads


def judge_1(
    unmix: Callable[[Tensor, Tensor, tuple[float, float]], tuple[int, int]], *, draw: Random
) -> str:
    """Which two words a mixture holds: the one with the larger share first."""
    hint = "the word that fits best, then the one that fits the rest best"
    not_refuted = set(FIXED)
    number = 0
    while number < 30 or not_refuted:
        words = torch.randn(draw.randint(5, 60), draw.choice((6, 16, 64)))  # (V, D)
        words = words / words.norm(dim=-1, keepdim=True)
        larger = draw.randint(55, 90) / 100
        shares = larger, round(1 - larger, 2)
        first, second = draw.sample(range(len(words)), 2)
        if number % 3 == 0:
            second = first  # a word may be its own neighbour
        mixture = shares[0] * words[first] + shares[1] * words[second]
        if unmix_by_steps(mixture, words, shares) != (first, second):
            continue  # too few dimensions for the way of section 2
        given = call(unmix, mixture, words, shares)
        if isinstance(given, Tensor):
            given = given.tolist()
        what = name_call(unmix, (mixture, words, shares))
        require_equal(what, given, (first, second), why=hint)
        number += 1
        for fixed in tuple(not_refuted):
            typed = fixed, 1 - fixed
            ways = unmix_by_steps(mixture, words, typed), unmix_by_search(mixture, words, typed)
            if (first, second) not in ways:
                not_refuted.remove(fixed)
    return f"{number} mixtures"


def unmix_by_steps(mixture: Tensor, words: Tensor, shares: tuple[float, float]) -> tuple[int, int]:
    """Both words of a mixture, as section 2 finds them."""
    found = int((words @ mixture).argmax())
    rest = mixture - shares[0] * words[found]
    return found, int((words @ rest).argmax())


def unmix_by_search(mixture: Tensor, words: Tensor, shares: tuple[float, float]) -> tuple[int, int]:
    """The two words whose mixture is nearest to this one."""
    mixtures = shares[0] * words[:, None] + shares[1] * words  # (V, V, D)
    best = int((mixtures - mixture).norm(dim=-1).argmin())
    return best // len(words), best % len(words)


def judge_2(make: Callable[[int, int], nn.Module], *, draw: Random) -> str:
    """Multi-head attention, by the checks that any implementation has to pass."""

    def projections(attention: nn.Module) -> dict[str, Any]:
        return {name: (layer.weight, layer.bias) for name, layer in attention.named_children()}

    adapter = Adapter(name="mine", multi_head=make, projections=projections)
    passed = require_passed(adapter, ["multi_head"])
    for n_heads, d_k in ((2, 3), (3, 8), (1, 10)):  # other sizes than those of the checks
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
    return passed


def judge_3(
    remove_heads: Callable[[list[int], Score], tuple[list[int], list[float]]], *, draw: Random
) -> str:
    """Heads in the order in which each next one costs least, and the score at each step."""
    for _ in range(10):
        heads = draw.sample(range(24), 7)
        alone = {head: draw.uniform(0.5, 4) for head in heads}
        # Two heads that do the same work: without both, much is lost.
        joint = {pair: draw.uniform(0, 9) for pair in combinations(sorted(heads), 2)}

        def score(removed: Sequence[int], alone: dict = alone, joint: dict = joint) -> float:
            pairs = combinations(sorted(removed), 2)
            return 200 - sum(alone[h] for h in removed) - sum(joint[pair] for pair in pairs)

        why = "first the order, then the scores; each step leaves the highest score"
        agree(remove_heads, heads, score, expected=greedy_order(heads, score), why=why)
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
