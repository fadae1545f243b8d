"""The judges of notebook 03; exercise 2 is a question."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

import torch
from torch import Tensor, nn

from nmtcheck import ours, run_checks
from nmtcourse.teaching.course import load_toy
from nmtcourse.teaching.exercises import Wrong, agree, call
from nmtcourse.teaching.language import say
from nmtlib.data.batching import collate
from nmtlib.data.corpora import load_corpus
from nmtlib.data.corpus import Pair

CHECKS = ["positions.shift_is_rotation", "positions.follow_the_model"]


def judge_1(positions: Callable[[int, int], nn.Module], *, draw: Random) -> str:
    """A module that adds the position table to vectors (B, S, D), made of d_model, max_length."""
    for _ in range(3):
        d_model, length = 2 * draw.randint(4, 20), draw.randint(10, 60)
        module = call(positions, d_model, length)
        words = torch.randn(2, length, d_model)
        added = call(module, words)
        if not isinstance(added, Tensor) or added.shape != words.shape:
            raise Wrong(say("the module should return vectors of the shape (B, S, D) that it got"))
        sizes = (added - words).square().mean(dim=-1)  # (B, S): sin² + cos² = 1
        if not torch.allclose(sizes, torch.full_like(sizes, 0.5), atol=1e-4):
            raise Wrong(say("what is added should be pairs of a sine and a cosine of one angle"))
    report = run_checks(replace(ours(), positions=positions), only=CHECKS)
    for result in report.results:
        if result.verdict != "passed":
            raise Wrong(f"{result.check.id}: {say(result.measured)}")
    return "3 sizes, 2 checks"


FitReader = Callable[[Tensor, Tensor], Callable[[Tensor], Tensor]]


def judge_3(fit_reader: FitReader, *, draw: Random) -> str:
    """A linear map from word + position to the position, fitted on some sums, tested on others."""
    corpus = load_corpus("toy-de-en")
    table = load_toy("de-en").model.get_buffer("source_positions.table")
    turned = table @ torch.linalg.qr(torch.randn(128, 128)).Q
    for rows, scale in ((table, 1.0), (turned, -2.0)):
        reader = call(fit_reader, *sums_of(draw.sample(corpus.train, 500), rows, scale))
        if not callable(reader):
            raise Wrong(say("fit_reader should return a function from sums to positions"))
        sums, positions = sums_of(draw.sample(corpus.test, 300), rows, scale)
        found = call(reader, sums)
        if not isinstance(found, Tensor) or found.numel() != len(positions):
            raise Wrong(say("the function should return one position for each sum"))
        error = ((found.flatten() - positions).abs().mean() / abs(scale)).item()
        if not error < 1:
            raise Wrong(say(f"on other sentences it is {error:.1f} positions off, not under 1"))
    return f"{error:.2f} positions off on other sentences"


def sums_of(pairs: list[Pair], rows: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """The sums of words and positions (N, D) of some sentences, and the positions (N,), scaled."""
    translator = load_toy("de-en")
    sums, positions = [], []
    for pair in pairs:
        ids = collate([translator.example(pair.source, "")]).source
        sums.append(translator.model.source_embedding(ids)[0].detach() + rows[: ids.size(1)])
        positions.append(scale * torch.arange(ids.size(1)))
    return torch.cat(sums), torch.cat(positions)


def judge_4(rotate_halves: Callable[[Tensor, Tensor], Tensor], *, draw: Random) -> str:
    """Rotary positions in the half-and-half order of dimensions."""
    for shape in ((5, 8), (2, 9, 16), (2, 4, 12, 32)):
        vectors = torch.randn(shape, dtype=torch.float64)
        half = shape[-1] // 2
        base = draw.choice([100.0, 10_000.0])
        steps = torch.arange(half, dtype=torch.float64)
        waves = 2 * math.pi * base ** (steps / half)
        angles = torch.arange(shape[-2], dtype=torch.float64)[:, None] * (2 * math.pi / waves)
        x, y = vectors[..., :half], vectors[..., half:]
        turned = x * angles.cos() + y * angles.sin(), y * angles.cos() - x * angles.sin()
        expected = torch.cat(turned, dim=-1)
        agree(
            rotate_halves, vectors, waves, expected=expected, why="half-and-half, position 0 first"
        )
    return "3 shapes"
