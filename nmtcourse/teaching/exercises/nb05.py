"""The judges of notebook 05."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from nmtcheck import Adapter
from nmtcourse.teaching.exercises import agree
from nmtcourse.teaching.exercises.nb04 import require_passed

SHARES = ((0.65, 0.35), (0.7, 0.3), (0.8, 0.2))
Score = Callable[[Sequence[int]], float]  # of a model without these heads


def judge_1(
    unmix: Callable[[Tensor, Tensor, tuple[float, float]], tuple[int, int]], *, draw: Random
) -> str:
    """Which two words a mixture holds: the one with the larger share first."""
    for number in range(30):
        words = torch.randn(draw.randint(5, 60), 64)  # (V, D)
        words = words / words.norm(dim=-1, keepdim=True)
        shares = draw.choice(SHARES)
        first, second = draw.sample(range(len(words)), 2)
        if number % 3 == 0:
            second = first  # a word may be its own neighbour
        mixture = shares[0] * words[first] + shares[1] * words[second]
        hint = "the word that fits best, then the one that fits the rest best"
        if recovered(mixture, words, shares) == (first, second):
            agree(unmix, mixture, words, shares, expected=(first, second), why=hint)
    return "30 mixtures"


def recovered(mixture: Tensor, words: Tensor, shares: tuple[float, float]) -> tuple[int, int]:
    """Both words of a mixture, as section 2 finds them."""
    found = int((words @ mixture).argmax())
    rest = mixture - shares[0] * words[found]
    return found, int((words @ rest).argmax())


def judge_2(make: Callable[[int, int], nn.Module], *, draw: Random) -> str:
    """Multi-head attention, by the checks that any implementation has to pass."""

    def projections(attention: nn.Module) -> dict[str, Any]:
        return {name: (layer.weight, layer.bias) for name, layer in attention.named_children()}

    adapter = Adapter(name="mine", multi_head=make, projections=projections)
    return require_passed(adapter, ["multi_head"])


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
