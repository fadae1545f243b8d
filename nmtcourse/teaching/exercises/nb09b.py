"""The judges of notebook 09b."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import torch
from torch import Tensor

from nmtcourse.teaching.exercises import Wrong, agree, call, require_equal, show
from nmtcourse.teaching.language import say

RATES = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016)
LENGTH = 400  # updates of a final run
ROUNDS = 30
LARGEST_REGRET = 3.0


def judge_1(stops_by_score: Callable[[list[float], int], tuple[int, int]], *, draw: Random) -> str:
    """Early stopping by a score of which more is better."""
    for turn in range(20):
        levels = [round(draw.uniform(0, 40), 1) for _ in range(4 if turn % 2 else 100)]
        scores = [draw.choice(levels) for _ in range(draw.randint(3, 15))]  # of four levels: ties
        patience = draw.randint(1, 4)
        best = end = 0
        for end, score in enumerate(scores):
            if score > scores[best]:
                best = end
            if end - best == patience:
                break
        agree(stops_by_score, scores, patience, expected=(best, end), why="(best, end)")
    return "20 curves"


def judge_2(follow: Callable[[dict[str, Tensor], Any, float], Any], *, draw: Random) -> str:
    """A running average of weights."""
    for _ in range(5):
        average = {name: torch.randn(3, 2) for name in ("a", "b")}
        expected = {name: tensor.clone() for name, tensor in average.items()}
        share = draw.choice([0.02, 0.1, 0.5, 1.0])
        for _ in range(3):
            # in the other order: names tell what belongs together
            weights = {name: torch.randn(3, 2) for name in reversed(average)}
            before = {name: tensor.clone() for name, tensor in weights.items()}
            for name in expected:
                expected[name] += share * (weights[name] - expected[name])
            follow(average, weights, share)  # not `call`: it copies
            for name in average:
                what = f"average[{name!r}] after follow(average, weights, {share})"
                require_equal(what, average[name], expected[name])
                require_equal(f"weights[{name!r}], which stay", weights[name], before[name])
    return "15 updates"


def judge_3(
    choose: Callable[[Callable[[float, int, int], float], Sequence[float], int], float],
    *,
    draw: Random,
) -> str:
    """A strategy that buys runs on a budget, and chooses a rate."""
    regrets = []
    for _ in range(ROUNDS):
        shop = Shop(draw, budget=len(RATES) * LENGTH)
        choice = call(choose, shop.buy, RATES, shop.budget)
        if choice not in RATES:
            raise Wrong(say(f"choose(buy, {show(RATES)}, {shop.budget}) gave {show(choice)}"))
        finals = [shop.quality(rate, LENGTH) for rate in RATES]
        regrets.append(max(finals) - shop.quality(choice, LENGTH))
    regret = sum(regrets) / ROUNDS
    if regret > LARGEST_REGRET:
        raise Wrong(
            say(f"the mean regret is {regret:.1f}, but it should be below {LARGEST_REGRET}")
        )
    return f"a mean regret of {regret:.1f} over {ROUNDS} games"


class Shop:
    """Runs for sale.  High rates learn fast, and beyond the best one they end lower."""

    def __init__(self, draw: Random, budget: int):
        self.best = draw.randrange(len(RATES) - 1)
        self.noise = Random(draw.random())
        self.luck: dict[tuple[float, int], float] = {}
        self.bought: dict[tuple[float, int], int] = {}
        self.budget = budget

    def quality(self, rate: float, updates: int) -> float:
        """The expected score of a run at a rate."""
        above = RATES.index(rate) - self.best
        final = 90 + 12 * above if above <= 0 else 90 - 10 * above
        pace = LENGTH / 2 / 2**above  # updates
        return final * (1 - math.exp(-updates / pace))

    def buy(self, rate: float, seed: int, updates: int) -> float:
        """The score of a run; its price is the updates that it has not made yet."""
        run = (rate, seed)
        price = max(0, updates - self.bought.get(run, 0))
        spent = sum(self.bought.values())
        if not 0 < updates <= LENGTH or spent + price > self.budget:
            left = self.budget - spent
            raise ValueError(f"{updates} updates of {run}: up to {LENGTH} a run, {left} are left")
        self.bought[run] = self.bought.get(run, 0) + price
        luck = self.luck.setdefault(run, self.noise.gauss(0, 1))
        return self.quality(rate, updates) + luck
