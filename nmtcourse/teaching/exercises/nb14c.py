"""The judge of notebook 14c."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from torch import nn

from nmtcourse.teaching.exercises import agree


def judge_1(count_parameters: Callable[[nn.Module], int], *, draw: Random) -> str:
    """The numbers of a module, each parameter once."""
    for _ in range(10):
        model = draw_model(draw)
        expected = sum(weight.numel() for weight in model.parameters())
        hint = "a parent has those of its parts; a shared one counts once, a frozen one too"
        agree(count_parameters, model, expected=expected, tolerance=0.0, why=hint)
    return "10 models"


def draw_model(draw: Random) -> nn.Module:
    """Layers inside layers: one is used twice, two share a weight, one is frozen."""
    size = draw.randint(2, 6)
    twice, tied = nn.Linear(size, size), nn.Linear(size, size, bias=False)
    tied.weight = twice.weight
    frozen = nn.Linear(size, draw.randint(2, 6)).requires_grad_(False)
    inner = nn.Sequential(twice, nn.ReLU(), twice, nn.LayerNorm(size))
    return nn.Sequential(nn.Sequential(inner, tied), frozen)
