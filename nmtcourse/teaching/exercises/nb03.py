"""The judges of notebook 03; exercise 2 is a question."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from nmtcourse.teaching.course import load_toy
from nmtcourse.teaching.exercises import Wrong, agree, call, equal
from nmtcourse.teaching.language import say
from nmtlib.data.batching import collate
from nmtlib.data.corpora import load_corpus
from nmtlib.data.corpus import Pair
from nmtlib.model import sinusoidal_table


def judge_1(positions: Callable[[int, int], nn.Module], *, draw: Random) -> str:
    """A module that adds the position table to vectors (B, S, D), made of d_model, max_length."""
    for _ in range(3):
        d_model, length = 2 * draw.randint(4, 20), draw.randint(12, 60)
        table = sinusoidal_table(length, d_model)
        module = call(positions, d_model, length)
        # A whole table, and a shorter sentence in a batch of another size.
        for words in (torch.randn(2, length, d_model), torch.randn(3, length // 2, d_model)):
            added = call(module, words)
            if not isinstance(added, Tensor) or added.shape != words.shape:
                message = "the module should return vectors of the shape (B, S, D) that it got"
                raise Wrong(say(message))
            require_rows(added.detach() - words, table[: words.size(1)])
            require_inputs_kept(module, words)
        require_refusal(module, torch.zeros(1, length + 1, d_model))
        if any(parameter.requires_grad for parameter in module.parameters()):
            raise Wrong(say("the table is computed, so no optimizer should train it"))
    require_refusal(call(positions, 8, 1), torch.zeros(1, 2, 8))  # one row fits any sentence
    for dtype in (torch.bfloat16, torch.float64):
        module = call(positions, 16, 60).to(dtype)
        found = call(module, torch.zeros(1, 4, 16, dtype=dtype)).dtype
        if found != dtype:
            raise Wrong(say(f"after .to({dtype}) the module returns {found}"))
    return "4 sizes"


def require_rows(added: Tensor, rows: Tensor) -> None:
    """Raise Wrong, naming the first number, unless rows (S, D) were added to each sentence."""
    # Rounding in float32 is below 2e-5; a table that was rounded to float16 is 2e-4 off.
    wrong = ((added - rows).abs() > 5e-5).nonzero()
    if len(wrong):
        sentence, position, dimension = wrong[0].tolist()
        given, expected = added[sentence, position, dimension], rows[position, dimension]
        raise Wrong(
            say(
                f"at position {position}, dimension {dimension} of sentence {sentence} the module "
                f"adds {given:.4f}, not {expected:.4f}"
            )
        )


def require_inputs_kept(answer: Callable[..., Any], *inputs: Tensor) -> None:
    """Raise Wrong where an answer changes a tensor that it is given."""
    copies = [tensor.clone() for tensor in inputs]
    answer(*copies)
    if not all(torch.equal(*pair) for pair in zip(copies, inputs, strict=True)):
        raise Wrong(say("the tensor that it was given is another one afterwards"))


def require_refusal(module: nn.Module, words: Tensor) -> None:
    """Raise Wrong where a sentence that is longer than the table raises no error."""
    try:
        module(words)
    except Exception:  # of any kind
        return
    raise Wrong(say("a sentence of max_length + 1 tokens should raise an error"))


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
        if not isinstance(found, Tensor) or found.shape != positions.shape:
            raise Wrong(say("the function should return one position for each sum, a tensor (N,)"))
        error = ((found - positions).abs().mean() / abs(scale)).item()
        if not error < 1:
            raise Wrong(say(f"on other sentences it is {error:.1f} positions off, not under 1"))
        alone = call(reader, sums[:1])
        if not equal(alone, found[:1], 0.01 * abs(scale)):
            raise Wrong(say("a sum that is read alone has another position than among others"))
        require_linear(reader, sums)
    return f"{error:.2f} positions off on other sentences"


def require_linear(reader: Callable[[Tensor], Tensor], sums: Tensor) -> None:
    """Raise Wrong unless ten times a step changes what is read ten times as much."""
    start, to = sums[torch.randperm(len(sums))[:300]].chunk(2)
    step = 10 * (reader(to) - reader(start))
    moved = reader(start + 10 * (to - start)) - reader(start)
    # A reader that rounds to whole positions is off by a tenth of a step, a nearest neighbour by 1.
    if not (moved - step).abs().mean() < 0.3 * step.abs().mean():
        raise Wrong(say("the map is not linear: ten times the step reads another distance"))


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
    for shape, dtype in (
        ((5, 8), torch.float64),
        ((2, 9, 16), torch.float64),
        ((2, 4, 12, 32), torch.float32),
    ):
        vectors = torch.randn(shape, dtype=dtype)
        half = shape[-1] // 2
        base = draw.choice([100.0, 10_000.0])
        steps = torch.arange(half, dtype=torch.float64)
        waves = 2 * math.pi * base ** (steps / half)
        angles = torch.arange(shape[-2], dtype=torch.float64)[:, None] * (2 * math.pi / waves)
        x, y = vectors[..., :half], vectors[..., half:]
        turned = x * angles.cos() + y * angles.sin(), y * angles.cos() - x * angles.sin()
        expected = torch.cat(turned, dim=-1).to(dtype)
        agree(
            rotate_halves, vectors, waves, expected=expected, why="half-and-half, position 0 first"
        )
        rotated = call(rotate_halves, vectors, waves)
        if rotated.dtype != dtype:
            raise Wrong(say(f"vectors of {dtype} come back as {rotated.dtype}"))
        require_inputs_kept(rotate_halves, vectors, waves)
    return "3 shapes"
