"""The judge of notebook 14c."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import torch
from torch import nn

from nmtcourse.teaching.exercises import Wrong, agree
from nmtcourse.teaching.language import say


def judge_1(count_parameters: Callable[[nn.Module], int], *, draw: Random) -> str:
    """The numbers of a module, each parameter once."""
    for _ in range(10):
        for model in draw_models(draw):
            expected = sum(weight.numel() for weight in model.parameters())
            trained = [weight.requires_grad for weight in model.parameters()]
            hint = "a parent has those of its parts; a shared one counts once, a frozen one too"
            agree(count_parameters, model, expected=expected, tolerance=0.0, why=hint)
            if trained != [weight.requires_grad for weight in model.parameters()]:
                raise Wrong(say("count_parameters changes which parameters are trained"))
    return "70 models"


def draw_models(draw: Random) -> list[nn.Module]:
    """Layers inside layers, a single layer, layers with buffers, in half precision, on `meta`."""
    size = draw.randint(2, 6)
    twice, tied = nn.Linear(size, size), nn.Linear(size, size, bias=False)
    tied.weight = twice.weight
    frozen = nn.Linear(size, draw.randint(2, 6)).requires_grad_(False)
    inner = nn.Sequential(twice, nn.ReLU(), twice, nn.LayerNorm(size))
    nested = nn.Sequential(nn.Sequential(inner, tied), frozen)
    embedding, output = nn.Embedding(7, size), nn.Linear(size, 7, bias=False)
    output.weight = embedding.weight  # a table of two children
    shared = nn.ModuleDict({"embedding": embedding, "output": output})
    norms = nn.Sequential(nn.BatchNorm1d(size), nn.Conv1d(size, 3, 5), nn.BatchNorm1d(3))
    alike = nn.Sequential(nn.LayerNorm(size), nn.LayerNorm(size))
    with torch.device("meta"):
        empty = nn.Sequential(nn.Linear(size, 3), nn.Linear(3, 2))
    return [nested, nn.Linear(size, 1), shared, norms, alike, nn.Linear(size, 2).half(), empty]
