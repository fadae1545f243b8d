"""Learning rates as functions of the update number, which counts from 1 so that no first step is
zero.
"""

from __future__ import annotations

import math


def noam_rate(step: int, d_model: int, warmup: int, factor: float = 1.0) -> float:
    """Linear rise, then decay with the square root of the step.  Vaswani et al. 2017, eq. 3."""
    _check(step, warmup)
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def inverse_sqrt_rate(step: int, peak: float, warmup: int) -> float:
    """The same curve, named by its peak (reached at step `warmup`) and not by the model's size."""
    _check(step, warmup)
    return peak * min(step / warmup, (warmup / step) ** 0.5)


def cosine_rate(step: int, peak: float, warmup: int, total: int) -> float:
    """Linear rise to `peak`, then half a cosine down to zero after step `total`.  Loshchilov and
    Hutter 2017.
    """
    _check(step, warmup)
    if total < warmup:
        raise ValueError(
            f"a cosine schedule needs more updates than its warm-up: total {total}, warmup {warmup}"
        )
    if step <= warmup:
        return peak * step / warmup
    progress = min((step - warmup) / (total + 1 - warmup), 1.0)
    return peak * 0.5 * (1 + math.cos(math.pi * progress))


def _check(step: int, warmup: int) -> None:
    if step < 1:
        raise ValueError(
            f"updates count from 1, not {step}: a rate for step 0 would be zero or undefined"
        )
    if warmup < 1:
        raise ValueError(f"warmup is a number of updates of at least 1, not {warmup}")
