"""The judges of notebook 04."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nmtcourse.teaching.exercises import Wrong, agree, call, require_equal, show
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
        if number % 4 == 3:  # powers of such scores overflow, or are all 0
            query = [1000 * number for number in query]
        q, k, v = (torch.tensor(data, dtype=torch.float64) for data in (query, keys, values))
        expected = ((k @ q / math.sqrt(d_k)).softmax(dim=0) @ v).tolist()
        why = "the weights are the softmax of query · key / √d_k"
        agree(look_up_by_hand, query, keys, values, expected=expected, why=why)
    return "20 queries"


def judge_2(mine: Callable[..., tuple[Tensor, Tensor]], *, draw: Random) -> str:
    """Masked attention and its weights, for inputs of two, three and four dimensions."""
    for batch in [(), (2,), (2, 3)] * 3:
        # Five sizes that all differ: a scale or a transpose that is right by chance fails.
        n_queries, n_keys, d_k, d_v = draw.sample(range(4, 20), 4)
        query = torch.randn(*batch, n_queries, d_k)
        key, value = torch.randn(*batch, n_keys, d_k), torch.randn(*batch, n_keys, d_v)
        mask = torch.rand(n_queries, n_keys) < 0.6
        mask[:, 0] = True  # each query has a key
        mask[:, -1] = False
        for masked in (None, mask):
            require_attention(mine, query, key, value, masked)
        key[..., -1, :] *= 50.0  # the hidden key matches some queries better than any other
        require_attention(mine, query, key, value, mask)
    return "27 inputs"


def require_attention(
    mine: Callable[..., Any], query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> None:
    """Raise Wrong unless attention returns the right result and the right weights."""
    shapes = [tuple(tensor.shape) for tensor in (query, key, value)]
    what = f"mine(query {shapes[0]}, key {shapes[1]}, value {shapes[2]}, {show(mask)}, 0.0)"
    try:
        given = mine(query.clone(), key.clone(), value.clone(), mask, 0.0)
    except Exception as error:
        raise Wrong(say(f"{what} raises {type(error).__name__}: {error}")) from error
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise Wrong(say(f"{what} should return the result and the weights, two tensors"))
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (..., T, S)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)
    for name, verb, tensor, expected in (
        ("the weights", "differ", given[1], weights),
        ("the result", "differs", given[0], weights @ value),
    ):
        if not isinstance(tensor, Tensor) or tensor.shape != expected.shape:
            wanted = f"a tensor of the shape {tuple(expected.shape)}"
            raise Wrong(say(f"{what}: {name} should be {wanted}, but it is {show(tensor)}"))
        deviation = (tensor - expected).abs().max().item()
        if not deviation < 1e-4:  # also for nan
            raise Wrong(say(f"{what}: {name} {verb} by {deviation:.2g} from equation 1"))
    if mask is not None and given[1].masked_select(~mask).any():
        raise Wrong(say(f"{what}: a masked key has a weight that is not 0"))


def judge_3(
    final_losses: Callable[[int, float, Sequence[int]], list[float]], *, draw: Random
) -> str:
    """The losses of `learn_to_find` at a rate of 0.1, for each seed."""
    for d_k in (4, 48):
        for divisor in (1.0, math.sqrt(d_k)):
            seeds = draw.sample(range(100), 2)
            expected = [loss_of_finding(d_k, divisor, seed) for seed in seeds]
            given = call(final_losses, d_k, divisor, seeds)
            if isinstance(given, Tensor):
                given = given.tolist()
            what = f"final_losses({d_k}, {divisor:.4g}, {seeds})"
            require_equal(what, given, expected, tolerance=0.01)
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
