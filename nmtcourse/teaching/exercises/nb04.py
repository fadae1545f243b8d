"""The judges of notebook 04."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nmtcheck import Adapter, run_checks
from nmtcourse.teaching.exercises import Wrong, agree
from nmtcourse.teaching.language import say

Vector = list[float]


def judge_1(
    look_up_by_hand: Callable[[Vector, list[Vector], list[Vector]], Vector], *, draw: Random
) -> str:
    """The answer of a soft dictionary for one query, in plain Python."""
    for number in range(20):
        n_keys, d_k, d_v = draw.randint(1, 6), draw.randint(1, 9), draw.randint(1, 5)
        if number == 0:
            n_keys, d_k, d_v = 2, 2, 1  # a reader can compute it
        query, *keys = ([draw.gauss(0, 2) for _ in range(d_k)] for _ in range(n_keys + 1))
        values = [[draw.gauss(0, 2) for _ in range(d_v)] for _ in range(n_keys)]
        scores = torch.tensor(keys) @ torch.tensor(query) / math.sqrt(d_k)  # (S,)
        expected = (scores.softmax(dim=0) @ torch.tensor(values)).tolist()
        why = "the weights are the softmax of query · key / √d_k"
        agree(look_up_by_hand, query, keys, values, expected=expected, why=why)
    return "20 queries"


def judge_2(mine: Callable[..., tuple[Tensor, Tensor]], *, draw: Random) -> str:
    """Masked attention, by the checks that any implementation has to pass."""
    only = ["attention.reference", "attention.mask"]
    return require_passed(Adapter(name="mine", attention=mine), only)


def require_passed(adapter: Adapter, only: Collection[str]) -> str:
    """Raise Wrong unless checks ran and found nothing; one that was skipped did not run."""
    report = run_checks(adapter, only=list(only))
    for result in [*report.failed, *report.skipped]:
        raise Wrong(f"{result.check.id}: {say(result.measured)}")
    if not report.passed:
        raise Wrong(say("no check could run"))
    return f"{len(report.passed)} checks of nmtcheck"


def judge_3(
    final_losses: Callable[[int, float, Sequence[int]], list[float]], *, draw: Random
) -> str:
    """The losses of `learn_to_find` at a rate of 0.1, for each seed."""
    for d_k in (4, 48):
        for divisor in (1.0, math.sqrt(d_k)):
            seeds = draw.sample(range(100), 2)
            expected = [loss_of_finding(d_k, divisor, seed) for seed in seeds]
            agree(final_losses, d_k, divisor, seeds, expected=expected, tolerance=0.01)
    return "8 runs"


def loss_of_finding(d_k: int, divisor: float, seed: int) -> float:
    """What `learn_to_find` of the notebook returns at a rate of 0.1 under SGD."""
    torch.manual_seed(seed)
    x, key, value = torch.randn(10, d_k), torch.randn(10, d_k), torch.eye(10)
    w_query = torch.randn(d_k, d_k) / math.sqrt(d_k)
    w_query.requires_grad_()
    optimizer = torch.optim.SGD([w_query], lr=0.1)
    for _ in range(300):
        weights = (x @ w_query @ key.T / divisor).softmax(dim=-1)  # (10, 10)
        loss = (weights @ value - value).square().sum(dim=-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def judge_4(slope: Callable[[Tensor, Tensor], Tensor], *, draw: Random) -> str:
    """The gradient of the mean cross-entropy between weights and right keys, to the scores."""
    options: Any = {"tolerance": 1e-5, "why": "the gradient of F.cross_entropy(scores, right)"}
    for _ in range(10):
        n_queries, n_keys = draw.randint(1, 6), draw.randint(2, 9)
        scores = (3 * torch.randn(n_queries, n_keys)).requires_grad_()
        right = torch.randint(n_keys, (n_queries,))
        (expected,) = torch.autograd.grad(F.cross_entropy(scores, right), scores)
        agree(slope, scores.detach(), right, expected=expected, **options)
    return "10 tables of scores"
