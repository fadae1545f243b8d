"""The judges of notebook 08."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import torch
from torch import Tensor

from nmtcourse.teaching.exercises import Wrong, agree, require_equal
from nmtcourse.teaching.language import say
from nmtlib.data import PAD
from nmtlib.training import label_smoothed_loss, noam_rate

RATES = (0.0003, 0.0005, 0.001, 0.002, 0.004, 0.007, 0.01, 0.02, 0.03)
FACTORS = (2, 3, 4, 8)
SIZES = (16, 32, 64, 128, 256)
# Where eps counts, and where a division without it fails.
SMALL_GRADIENTS = ([0.0, 0.5, 0.0], [1e-9, -2e-9, 1e-9], [-1.0, 3e-9])


def judge_1(
    my_loss: Callable[[Tensor, Tensor, float], Tensor],
    my_rate: Callable[[int], float],
    *,
    draw: Random,
) -> str:
    """The smoothed loss of a batch, and the rate of Noam."""
    for _ in range(6):
        rows, length, words = draw.randint(1, 4), draw.randint(2, 6), draw.randint(5, 12)
        logits = torch.randn(rows, length, words)  # (B, T, V)
        labels = torch.randint(1, words, (rows, length))  # (B, T)
        labels[torch.rand(rows, length) < 0.2] = PAD
        labels[0, draw.randint(1, length - 1) :] = PAD
        labels[0, 0] = draw.randint(1, words - 1)
        smoothing = draw.choice([0.05, 0.1, 0.2, 0.3])
        for share in (smoothing, 0.0):
            expected = label_smoothed_loss(logits, labels, share)
            why = "each of V - 1 words has a share, PAD has none, and padding does not count"
            agree(my_loss, logits, labels, share, expected=expected.item(), why=why)
            require_gradient(my_loss, logits, labels, share)
    numbers = [1, 4000, *(draw.randint(2, 3999) for _ in range(4))]
    numbers += [draw.randint(4001, 100_000) for _ in range(4)]
    for n in sorted(numbers):
        # relative to so small a number
        agree(lambda n: my_rate(n) / noam_rate(n, 512, 4000), n, expected=1.0, why="of Noam's rate")
    return f"12 losses, {len(numbers)} rates"


def require_gradient(
    my_loss: Callable[[Tensor, Tensor, float], Tensor],
    logits: Tensor,
    labels: Tensor,
    smoothing: float,
) -> None:
    """Raise Wrong unless a model learns from the loss what it learns from ours."""
    gradients: list[Tensor] = []
    for loss in (label_smoothed_loss, my_loss):
        leaf = logits.clone().requires_grad_()
        value = loss(leaf * 1.0, labels.clone(), smoothing)  # not `call`: it copies
        if not (isinstance(value, Tensor) and value.requires_grad):
            raise Wrong(say("my_loss(logits, labels, smoothing) has no gradient for the logits"))
        gradients += torch.autograd.grad(value, leaf)
    require_equal("the gradient of my_loss(logits, labels, smoothing)", gradients[1], gradients[0])


def judge_2(
    share_closed: Callable[[dict[int, dict[float, float]], int, int, float], float], *, draw: Random
) -> str:
    """How much of a gap a higher rate closes, if the small batches have their best rate."""
    for turn in range(10):
        small, large = sorted(draw.sample(SIZES, 2))
        factor, best = draw.choice(FACTORS), draw.choice(RATES[1:])
        rates = {best, best * factor, *draw.sample(RATES, 5)}  # no even grid
        losses = {
            size: {rate: draw.uniform(1, 4) + (size == large) for rate in sorted(rates)}
            for size in SIZES
        }
        losses[small][best] = 0.9
        if turn % 2:  # the higher rate takes the large batches past the small ones
            losses[large][best * factor] = draw.uniform(0.2, 0.8)
        before = losses[large][best] - 0.9
        after = losses[large][best * factor] - 0.9
        hint = "compare with batches of the smaller size at their best rate"
        expected = (before - after) / before
        agree(share_closed, losses, small, large, factor, expected=expected, why=hint)
    return "10 tables of losses"


def judge_3(adam_values: Callable[[list[float], float], list[float]], *, draw: Random) -> str:
    """The values of a weight under Adam, from its gradients."""
    lists = [*SMALL_GRADIENTS]
    for _ in range(6):
        count = draw.randint(1, 12)
        lists.append([draw.uniform(-2, 2) * 10 ** draw.randint(-4, 2) for _ in range(count)])
    for gradients in lists:
        rate = draw.choice([0.001, 0.01, 0.1])
        weight = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        adam = torch.optim.Adam([weight], lr=rate, betas=(0.9, 0.98), eps=1e-9)
        expected = []
        for gradient in gradients:
            weight.grad = torch.tensor([gradient], dtype=torch.float64)
            adam.step()
            expected.append(weight.item())
        agree(adam_values, gradients, rate, expected=expected, tolerance=rate * 1e-4)
    return f"{len(lists)} lists of gradients"
