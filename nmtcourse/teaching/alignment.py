"""Which source word does a target word come from?  Links found and links known, and how they agree.

A link is (source position, target position), both counted from 0 between white space, as in
`Pair.alignment`.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import torch
from torch import Tensor

from nmtlib.data.batching import collate
from nmtlib.data.corpus import Pair
from nmtlib.inference.translator import Translator
from nmtlib.model.attention import record_attention

Links = AbstractSet[tuple[int, int]]
READ = {"output": 0, "input": 1}  # how many rows below its own the row of a word stands


def alignment_error_rate(
    predicted: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links] | None = None
) -> float:
    """How far links differ from gold links, over all sentences: 0 is perfect, 1 has none right.

    Found links A should hold all sure links S and no other than the possible ones P, of which the
    sure are a part: AER = 1 - (|A and S| + |A and P|) / (|A| + |S|).  `possible` is `sure` unless
    given, and AER is then 1 - F1.  Raises ValueError where the numbers of sentences differ or no
    link is there.  Source: Och and Ney 2003, "A Systematic Comparison of Various Statistical
    Alignment Models".

    >>> alignment_error_rate([{(0, 0), (1, 1)}], [{(0, 0), (2, 1)}])
    0.5
    """
    possible = sure if possible is None else possible
    if not len(predicted) == len(sure) == len(possible):
        counts = f"{len(predicted)} sentences found, {len(sure)} sure, {len(possible)} possible"
        raise ValueError(f"expected links for the same sentences, not {counts}")
    total = sum(map(len, predicted)) + sum(map(len, sure))
    if not total:
        raise ValueError("alignment error rate is undefined without links")
    agree = sum(
        len(a & s) + len(a & (s | p)) for a, s, p in zip(predicted, sure, possible, strict=True)
    )
    return 1 - agree / total


def cross_attention(translator: Translator, pairs: Sequence[Pair]) -> list[Tensor]:
    """The weights of every cross-attention head while the model says each target of `pairs`.

    One tensor (layers, H, T, S) for each pair: T counts EOS, S too.  Row t *reads* the word t - 1
    and *says* the word t.  Raises ValueError where tokens are not the words between spaces.
    """
    attention = []
    for pair in pairs:
        batch = collate([translator.example(pair.source, pair.target)])
        words = (len(pair.source.split()), len(pair.target.split()))
        if (batch.source.size(1) - 1, batch.labels.size(1) - 1) != words:
            raise ValueError(f"links are between words, and here tokens are not: {pair.source!r}")
        with torch.no_grad(), record_attention(translator.model) as maps:
            translator.model(batch.source.to(translator.device), batch.decoder_input)
        layers = range(len(translator.model.decoder))
        weights = [maps[f"decoder.{layer}.cross_attention"][0][0] for layer in layers]
        attention.append(torch.stack(weights))  # (layers, H, T, S)
    return attention


def links(weights: Tensor, read: str = "output") -> set[tuple[int, int]]:
    """For each target word the source word with the most weight; none where that is EOS.

    `weights` (T, S) is one head, EOS last on both sides.  A word is "output" by its own row, and
    "input" to the row below.

    >>> sorted(links(torch.tensor([[0.1, 0.9, 0.0], [0.8, 0.1, 0.1], [0.0, 0.0, 1.0]])))
    [(0, 1), (1, 0)]
    """
    below, (T, S) = READ[read], weights.shape
    best = weights[below : below + T - 1].argmax(dim=-1).tolist()  # (T - 1,)
    return {(source, word) for word, source in enumerate(best) if source < S - 1}


def diagonal(pair: Pair) -> set[tuple[int, int]]:
    """Every target word linked with the source word that stands as far along its sentence."""
    S, T = len(pair.source.split()), len(pair.target.split())
    return {(round(t * (S - 1) / max(T - 1, 1)), t) for t in range(T)}
