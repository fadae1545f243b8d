"""What trained attention looks at, over many sentences, and what is lost where a word is hidden."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from nmtcourse.teaching.explorer import KINDS, attention_maps
from nmtlib.data.batching import collate
from nmtlib.data.corpus import Pair
from nmtlib.inference.translator import Translator
from nmtlib.model.attention import MultiHeadAttention, padding_mask
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


def gold_hits(translator: Translator, pairs: Sequence[Pair]) -> dict[str, float]:
    """How often a target word attends most to a gold word: each decoder layer, and two baselines.

    Layers count by the mean of their heads.  "diagonal" looks as far into the source as the word is
    into the target; "guess" is a source word at random.  Words without a gold word do not count.
    """
    hits: dict[str, float] = {}
    total = 0
    for pair in pairs:
        gold = gold_table(pair)  # (T, S)
        aligned = gold.any(dim=-1)  # (T,)
        last_row, last_column = gold.size(0) - 1, gold.size(1) - 1
        layers = attention_maps(translator, pair.source, pair.target).maps["cross"]
        positions = {
            f"layer {i}": heads.mean(dim=0).argmax(dim=-1) for i, heads in enumerate(layers)
        }
        steps = torch.arange(last_row + 1)
        positions["diagonal"] = (steps * last_column / last_row).round().long()  # (T,)
        for name, columns in positions.items():
            right = gold.gather(-1, columns[:, None])[aligned]  # (words, 1)
            hits[name] = hits.get(name, 0.0) + float(right.sum())
        hits["guess"] = hits.get("guess", 0.0) + float(gold[aligned].mean(dim=-1).sum())
        total += int(aligned.sum())
    return {name: count / total for name, count in hits.items()}


@torch.no_grad()
def typical_products(translator: Translator, pairs: Sequence[Pair]) -> list[float]:
    """Standard deviation of query @ key in each encoder layer, before the division by sqrt(d_k)."""
    model: Any = translator.model  # layers of a ModuleList, to mypy, have the type of any attribute
    examples = [translator.example(p.source, p.target) for p in pairs]
    source = collate(examples).source  # (B, S)
    mask = padding_mask(source)  # (B, 1, 1, S)
    x, scores = model.source_positions(model.source_embedding(source)), []  # (B, S, D)
    for layer in model.encoder:
        attention, normed = layer.self_attention, layer.residuals[0].norm(x)
        query = attention.split(attention.query(normed))  # (B, H, S, d_k)
        key = attention.split(attention.key(normed))  # (B, H, S, d_k)
        products = query @ key.transpose(-2, -1)  # (B, H, S, S)
        scores.append(products.masked_select(mask & mask.transpose(-2, -1)).std().item())
        x = layer(x, mask)
    return scores


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


@torch.no_grad()
def hide_each(
    translator: Translator, pair: Pair, *, everywhere: bool = False
) -> tuple[Tensor, Tensor]:
    """How far each right target word's probability falls when one source word is hidden: (T, S).

    Hidden is the word's column in all cross-attention; `everywhere` hides it from the encoder too.
    The second result holds the ids of the words that the model would then rather say, (T, S).
    """
    model, batch = translator.model, collate([translator.example(pair.source, pair.target)])
    size = batch.source.size(1)  # S
    hide_one = ~torch.eye(size, dtype=torch.bool)  # (S, S): row s hides word s
    masks = torch.cat([torch.ones_like(hide_one[:1]), hide_one])  # (1 + S, S): first none
    masks = masks[:, None, None, :]  # (1 + S, 1, 1, S): the same for all heads and queries
    source = batch.source.expand(size + 1, -1)  # (1 + S, S)
    memory = model.encode(source, masks if everywhere else None)  # (1 + S, S, D)
    prefixes = batch.decoder_input.expand(size + 1, -1)  # (1 + S, T)
    logits = model.decode(prefixes, memory, masks)  # (1 + S, T, V)
    right = batch.labels.expand(size + 1, -1)[..., None]  # (1 + S, T, 1): the right words
    belief = logits.softmax(dim=-1).gather(-1, right).squeeze(-1)  # (1 + S, T)
    return (belief[0] - belief[1:]).T, logits[1:].argmax(dim=-1).T


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
