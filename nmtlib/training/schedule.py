"""Learning rates as functions of the update, which counts from 1 so that no first rate is zero."""

from __future__ import annotations

import math
from collections.abc import Callable

from nmtlib.errors import require
from nmtlib.settings import TrainingSettings


def make_schedule(settings: TrainingSettings, d_model: int, updates: int) -> Callable[[int], float]:
    """The learning rate as a function of the update, in a run of so many updates."""
    peak, warmup = settings.learning_rate, settings.warmup
    return {
        "noam": lambda step: noam_rate(step, d_model, warmup, peak),
        "inverse-sqrt": lambda step: inverse_sqrt_rate(step, peak, warmup),
        "cosine": lambda step: cosine_rate(step, peak, min(warmup, updates), updates),
        "constant": lambda step: peak,
    }[settings.schedule]


def noam_rate(step: int, d_model: int, warmup: int, factor: float = 1.0) -> float:
    """Linear rise, then decay with the square root of the step.  Vaswani et al. 2017, eq. 3."""
    _check(step, warmup)
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def inverse_sqrt_rate(step: int, peak: float, warmup: int) -> float:
    """The same curve, named by its peak (reached at step `warmup`) and not by the model's size."""
    _check(step, warmup)
    return peak * min(step / warmup, (warmup / step) ** 0.5)


def cosine_rate(step: int, peak: float, warmup: int, total: int) -> float:
    """Linear rise, then half a cosine to zero after step `total`.  Loshchilov and Hutter 2017."""
    _check(step, warmup)
    require(total >= warmup, "total", f"at least the warm-up of {warmup} updates", total)
    if step <= warmup:
        return peak * step / warmup
    progress = min((step - warmup) / (total + 1 - warmup), 1.0)
    return peak * 0.5 * (1 + math.cos(math.pi * progress))


def _check(step: int, warmup: int) -> None:
    require(step >= 1, "step", "at least 1 (updates count from 1, or a rate would be zero)", step)
    require(warmup >= 1, "warmup", "a number of updates, at least 1", warmup)
