"""What trained attention looks at, over many sentences, and what is lost where a word is hidden."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from nmtcourse.teaching.explorer import KINDS, attention_maps
from nmtlib.data.corpus import Pair
from nmtlib.inference.translator import Translator
from nmtlib.model.attention import MultiHeadAttention
from nmtlib.model.transformer import Transformer


def gold_table(pair: Pair) -> Tensor:
    """The gold alignment of a pair as 0 and 1, (T, S); the last row and column belong to EOS.

    >>> gold_table(Pair("das Buch", "the book", alignment=((0, 0), (1, 1)))).int()
    tensor([[1, 0, 0],
            [0, 1, 0],
            [0, 0, 0]], dtype=torch.int32)
    """
    table = torch.zeros(len(pair.target.split()) + 1, len(pair.source.split()) + 1)
    for source, target in pair.alignment:
        table[target, source] = 1.0
    return table


def habits(translator: Translator, pairs: Sequence[Pair]) -> dict[str, Tensor]:
    """Where each head looks on average: for each of `KINDS` a table (layers * heads, 4).

    Column 0 is the number of words looked at, exp(entropy).  The others are mean weights: on the
    word itself, the one before and the one after; for "cross" on the gold words and on EOS, and
    there are three columns.  Each sentence counts the same.
    """
    every: dict[str, list[Tensor]] = {kind: [] for kind in KINDS}
    for pair in pairs:
        for kind, layers in attention_maps(translator, pair.source, pair.target).maps.items():
            weights = torch.cat(layers)  # (layers * heads, T, S)
            measures = [torch.special.entr(weights).sum(dim=-1).exp().mean(dim=-1)]
            if kind == "cross":
                gold = gold_table(pair)  # (T, S)
                on_gold = (weights * gold).sum(dim=-1)[:, gold.any(dim=-1)]
                measures += [on_gold.mean(dim=-1), weights[..., -1].mean(dim=-1)]
            else:
                places = (weights.diagonal(offset, -2, -1) for offset in (0, -1, 1))
                measures += [offsets.mean(dim=-1) for offsets in places]
            every[kind].append(torch.stack(measures, dim=-1))
    return {kind: torch.stack(shares).mean(dim=0) for kind, shares in every.items()}


def attentions(model: Transformer) -> dict[str, MultiHeadAttention]:
    """Every attention of a model by its name, such as "cross, layer 0"."""
    maps: dict[str, Any] = {}
    for layer, part in enumerate(model.encoder):
        maps[f"encoder self, layer {layer}"] = part.self_attention
    for layer, part in enumerate(model.decoder):
        maps[f"decoder self, layer {layer}"] = part.self_attention
    for layer, part in enumerate(model.decoder):
        maps[f"cross, layer {layer}"] = part.cross_attention
    return maps


@contextmanager
def switched_off(attention: MultiHeadAttention, heads: Iterable[int]) -> Iterator[None]:
    """Zero these heads' columns in the output weight while the block lasts: they add nothing."""
    size = attention.output.in_features // attention.n_heads  # d_k
    weight = attention.output.weight.detach()  # (D, D), the live weight, without gradient
    original = weight.clone()
    for head in heads:
        weight[:, head * size : (head + 1) * size] = 0.0
    try:
        yield
    finally:
        weight.copy_(original)
