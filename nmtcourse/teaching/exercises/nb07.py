"""The judges of notebook 07."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from nmtcourse.teaching.course import load_toy
from nmtcourse.teaching.exercises import Wrong, agree, call, require_equal, show
from nmtcourse.teaching.language import say
from nmtlib.data.batching import collate
from nmtlib.data.corpora import load_corpus
from nmtlib.model.transformer import Transformer
from nmtlib.training.loss import label_smoothed_loss


def judge_1(units: Callable[[Tensor], Tensor], *, draw: Random) -> str:
    """Four hidden units for words made of the meanings person, time, action, past."""
    words = torch.tensor([*product((0.0, 2.0), (0.0, 2.0), (0.0, 2.0), (0.0, 1.0))])  # (16, D)
    words = words[draw.sample(range(16), 16)]
    given = call(units, words)
    if not isinstance(given, Tensor) or given.shape != (16, 4):
        raise Wrong(say(f"units returns {show(given)}, not a tensor of shape (words, 4)"))
    person, time, action, past = (words > 0).T
    wanted = torch.stack([person, time & past, action & past, person & past], dim=-1)
    names = ("person", "time & past", "action & past", "person & past")
    for column, name in enumerate(names):
        for row, word in enumerate(words.tolist()):
            if column and name != "person & past" and sum(map(bool, word)) > 2:
                continue  # these units of section 2 were made for words of two meanings
            fires = bool(given[row, column] > 0)
            if fires and not wanted[row, column]:
                raise Wrong(say(f"the unit {name} should not fire for the word {word}"))
            if wanted[row, column] and not fires:
                raise Wrong(say(f"the unit {name} should fire for the word {word}"))
    return "16 words"


def judge_2(
    my_dropout: Callable[[Tensor, float, bool], Tensor],
    my_sublayer: Callable[[Tensor, Any, nn.Module, float, bool], Tensor],
    *,
    draw: Random,
) -> str:
    """Dropout, and a pre-norm sub-layer that drops out what it adds and nothing else."""
    p = draw.choice((0.2, 0.4, 0.6))
    x = torch.randn(2, 50_000) + 3
    dropped = call(my_dropout, x, p, True)
    agree(my_dropout, x, p, False, expected=x)
    require_dropped("my_dropout(x, p, True)", dropped, x, p)
    if torch.equal(dropped, call(my_dropout, x, p, True)):
        raise Wrong(say("my_dropout drops the same numbers at each call"))
    norm, branch = nn.LayerNorm(64), nn.Linear(64, 64)
    nn.init.normal_(norm.weight)
    path = torch.randn(1, 4000, 64)
    with torch.no_grad():
        added = branch(norm(path))
        what = f"my_sublayer(x, sublayer, norm, {p}, False)"
        outside = call(my_sublayer, path, branch, norm, p, False)
        require_equal(what, outside, path + added, why="x + sublayer(norm(x))")
        in_training = call(lambda: my_sublayer(path, branch, norm, p, True)) - path
    require_dropped("what my_sublayer adds in training", in_training, added, p)
    return f"p = {p}"


def require_dropped(what: str, given: Any, whole: Tensor, p: float) -> None:
    """Raise Wrong unless a share p of the numbers is zero and the others are 1/(1-p) times."""
    if not isinstance(given, Tensor) or given.shape != whole.shape:
        raise Wrong(say(f"{what} has another shape than what went in"))
    zero = given.abs() < 1e-6
    require_equal(say(f"the share of zeros in {what}"), zero.float().mean().item(), p, 0.02)
    kept = whole[~zero] / (1 - p)
    if not torch.allclose(given[~zero], kept, atol=1e-4):
        raise Wrong(say(f"{what}: the other numbers are not multiplied by 1 / (1 - p)"))


def judge_3(new_model: Callable[[bool, bool], Transformer], *, draw: Random) -> str:
    """Untrained models with large embeddings, tied ones, both, or neither."""
    translator, pairs = load_toy("de-en"), draw.sample(load_corpus("toy-de-en").validation, 40)
    batch = collate([translator.example(p.source, p.target) for p in pairs])
    level = math.log(len(translator.target.vocab))
    losses = {}
    for large, tied in product((False, True), repeat=2):
        model, what = call(new_model, large, tied), f"new_model({large}, {tied})"
        if not isinstance(model, Transformer):
            raise Wrong(say(f"{what} returns {model!r}, not a Transformer"))
        model = model.eval()
        table = model.target_embedding.weight
        is_tied = model.output.weight is table
        require_equal(f"{what}: output.weight is target_embedding.weight", is_tied, tied)
        spread = table.std().item()
        if large and not 0.8 < spread < 1.2:
            raise Wrong(say(f"{what}: the embeddings should have variance 1, not {spread**2:.2g}"))
        if not large and 0.8 < spread < 1.2:
            raise Wrong(say(f"{what}: the embeddings should not have variance 1"))
        with torch.no_grad():
            logits = model(batch.source, batch.decoder_input)
        losses[large, tied] = label_smoothed_loss(logits, batch.labels, 0.0).item()
        if losses[large, tied] < level - 0.5:
            raise Wrong(say(f"{what} was trained: its loss is {losses[large, tied]:.1f}"))
    return f"losses {', '.join(f'{loss:.1f}' for loss in losses.values())}, ln V = {level:.1f}"


def judge_4(make: Callable[[int, int, int, float], nn.Module], *, draw: Random) -> str:
    """An encoder layer with its norms inside the branches, after the sub-layers."""
    size, n_heads = draw.choice(((16, 2), (24, 4), (32, 4)))
    layer = call(make, size, n_heads, 2 * size, 0.0)
    parts = ("attention", "feed_forward", "norms")
    if missing := [part for part in parts if not hasattr(layer, part)]:
        raise Wrong(say(f"the layer has no {', '.join(missing)}; EncoderLayer has"))
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.3)
    x, mask = torch.randn(2, 5, size), torch.rand(2, 1, 5, 5) < 0.7
    mask |= torch.eye(5, dtype=torch.bool)
    with torch.no_grad():
        first = x + layer.norms[0](layer.attention(x, x, mask))
        expected = first + layer.norms[1](layer.feed_forward(first))
        given = call(layer.eval(), x, mask)
        require_equal("layer(x, mask)", given, expected, why="x + norm(sublayer(x)), twice")
        for norm in layer.norms:
            nn.init.zeros_(norm.weight)
            nn.init.zeros_(norm.bias)
        agree(layer, x, mask, expected=x, why="with gains of 0 nothing is added")
    return f"d_model = {size}"
