"""The judges of notebook 02."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import combinations
from random import Random

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcourse.teaching.exercises import Wrong, agree, call, require_equal
from nmtcourse.teaching.language import say
from nmtlib.model.embeddings import TokenEmbedding
from nmtlib.model.transformer import Transformer, TransformerConfig


def judge_1(times_as_large: Callable[[nn.Embedding], float], *, draw: Random) -> str:
    """How many times as large as positions are the vectors that an embedding gives."""
    for _ in range(6):
        d_model, deviation = draw.choice([32, 64, 128, 512]), draw.uniform(0.02, 1.5)
        for layer in (nn.Embedding(800, d_model), TokenEmbedding(800, d_model)):
            # Rows of different sizes, around a mean that is not 0: a deviation is not a size, and
            # a mean of sizes is not the size of all.
            rows = deviation * (torch.randn(800, d_model) + draw.choice([-0.7, 0.7]))
            rows *= torch.empty(800, 1).uniform_(0.2, 2)
            with torch.no_grad():
                layer.weight.copy_(rows)
                if isinstance(layer, TokenEmbedding):
                    layer.weight[0] = 0  # PAD
                    # What the layer does, not what its class says.
                    layer.scale *= draw.uniform(0.3, 3)
            read = layer(torch.arange(800)[None])
            size = read.square().mean().sqrt().item()
            why = "the size of what layer(ids) returns, by the size of the positions, √0.5"
            agree(times_as_large, layer, expected=size / 0.5**0.5, tolerance=0.01, why=why)
    return "12 layers"


def judge_2(tie: Callable[[Transformer], Transformer | None], *, draw: Random) -> str:
    """One tensor for the target embedding and the output of a model."""
    for _ in range(3):
        sizes = {"d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 1, "n_heads": 2}
        config = TransformerConfig(
            draw.randint(30, 40), draw.randint(30, 40), d_model=16, dropout=0.0, **sizes
        )
        model = Transformer(config)
        with torch.no_grad():
            model.output.weight.mul_(draw.uniform(0.5, 2))
        before, tensors = copy.deepcopy(model), len(list(model.parameters()))
        returned = call(tie, model)
        if isinstance(returned, Transformer) and returned is not model:
            raise Wrong(say("tie the model that is given, not another one"))
        embedding, output = model.target_embedding.weight, model.output.weight
        if embedding is not output:
            raise Wrong(
                say(
                    "model.output.weight is model.target_embedding.weight should be True, but they "
                    "are two tensors"
                )
            )
        ids = torch.tensor([[5, 6, 7]])
        if model.source_embedding.weight is embedding or not torch.equal(
            model.encode(ids), before.encode(ids)
        ):
            raise Wrong(say("the source embedding should stay as it was"))
        tables = (before.target_embedding.weight, before.output.weight)
        if not any(torch.allclose(embedding, table) for table in tables):
            raise Wrong(say("the tied table should be one of the two tables that were there"))
        read = embedding[ids] * before.target_embedding.scale
        if not torch.allclose(model.target_embedding(ids), read, atol=1e-6):
            raise Wrong(say("the target embedding has lost its factor"))
        require_equal("len(list(model.parameters()))", len(list(model.parameters())), tensors - 1)
        model(ids, ids).logsumexp(dim=-1).sum().backward()
        moved = embedding.grad is not None and bool((embedding.grad.abs().sum(dim=-1) > 0).all())
        if not moved:
            raise Wrong(say("some rows of the tied table get no gradient from the softmax"))
    return "3 models"


Nouns = Sequence[tuple[str, str]]
CountPlurals = Callable[[Sequence[str], Tensor, Nouns], int]


def judge_3(count_plurals: CountPlurals, *, draw: Random) -> str:
    """For how many ordered pairs of nouns plural - singular + another singular finds its plural."""
    why = "each two different nouns in both orders; the three words of the sum do not count"
    tried = 0
    for noise in (0.1, 0.3, 0.6):
        words, vectors, nouns = draw_nouns(12, 30, 16, noise, draw)
        expected = count_found(words, vectors, nouns)
        agree(count_plurals, words, vectors, nouns, expected=expected, why=why)
        tried += 1
    # Each of the three words has to be the nearest somewhere: in few dimensions each is.
    not_refuted = {some for size in range(3) for some in combinations(range(3), size)}
    while not_refuted:
        words, vectors, nouns = draw_nouns(6, 3, draw.choice((2, 3, 4)), 0.3, draw)
        expected = count_found(words, vectors, nouns)
        refuted = {
            some for some in not_refuted if count_found(words, vectors, nouns, some) != expected
        }
        if refuted:
            agree(count_plurals, words, vectors, nouns, expected=expected, why=why)
            tried += 1
        not_refuted -= refuted
    return f"{tried} tables of words"


def draw_nouns(
    n_nouns: int, n_others: int, size: int, noise: float, draw: Random
) -> tuple[list[str], Tensor, list[tuple[str, str]]]:
    """Words in any order, their vectors of length 1, and the nouns as (singular, plural)."""
    nouns = [(f"noun{i}", f"nouns{i}") for i in range(n_nouns)]
    words = [word for pair in nouns for word in pair] + [f"other{i}" for i in range(n_others)]
    table, end = torch.randn(len(words), size), 2 * n_nouns
    table[1:end:2] = table[0:end:2] + noise * torch.randn(n_nouns, size) + torch.randn(size)
    order = draw.sample(range(len(words)), len(words))
    return [words[i] for i in order], F.normalize(table[order], dim=-1), nouns


def count_found(
    words: Sequence[str], vectors: Tensor, nouns: Nouns, excluded: Sequence[int] = (0, 1, 2)
) -> int:
    """The number of ordered pairs of nouns for which the sum finds the right plural.

    Of the sum's words, a singular, its plural and another singular, those `excluded` do not count.
    """
    count = 0
    for a, a_plural in nouns:
        for b, b_plural in nouns:
            if a == b:
                continue
            rows = [words.index(word) for word in (a, a_plural, b)]
            cosines = vectors @ (vectors[rows[1]] - vectors[rows[0]] + vectors[rows[2]])
            cosines[[rows[i] for i in excluded]] = -torch.inf
            count += words[int(cosines.argmax())] == b_plural
    return count
