"""The two broad parts of an adapter, an epoch and a translation, and which parts they replace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter, IdPair
from nmtcheck.connect.standins import Batch, Loader, Vocabulary
from nmtcheck.measure.helpers import pad, source_rows
from nmtcheck.registry import Finding

DERIVED = {"greedy": "translate"}  # narrow part -> the broad one of which it is made


def completed(adapter: Adapter) -> Adapter:
    """The adapter, with a greedy search made of its translation where it has no other."""
    if adapter.translate is None or adapter.greedy is not None:
        return adapter
    return replace(adapter, greedy=searcher(adapter))


def batches_of(adapter: Adapter, pairs: list[IdPair], size: int = 2) -> list[Batch]:
    """Pairs of word ids as padded batches of `size` pairs, with whole targets."""
    loader = Loader()
    for first in range(0, len(pairs), size):
        sources, targets = zip(*pairs[first : first + size], strict=True)
        whole = pad([[adapter.bos, *words, adapter.eos] for words in targets], adapter.pad)
        loader.append(Batch(source_rows(adapter, sources), whole))
    loader.dataset, loader.batch_size = pairs, size
    return loader


def validated(adapter: Adapter, model: nn.Module, pairs: list[IdPair]) -> float:
    """What validation reports of these pairs: the perplexity, or the loss of an epoch."""
    if adapter.validate is not None:
        return float(adapter.validate(model, pairs))
    with torch.set_grad_enabled(torch.is_grad_enabled()):  # some switch it off and not on again
        return float(adapter.epoch(model, batches_of(adapter, pairs), False))


def trained(
    adapter: Adapter, model: nn.Module, train: list[IdPair], others: list[IdPair], epochs: int
) -> nn.Module:
    """Train for some epochs, each followed by a validation; the model that is kept."""
    if adapter.fit is not None:
        return adapter.fit(model, train, others, epochs)[0]
    for _ in range(epochs):
        adapter.epoch(model, batches_of(adapter, train), True)
        validated(replace(adapter, validate=None), model, others)
    return model


def searcher(adapter: Adapter) -> Callable[[nn.Module, Tensor, int], list[list[int]]]:
    """`greedy` by means of a translation of one sentence after the other."""
    specials = {adapter.pad, adapter.bos, adapter.eos}
    words = Vocabulary(100, pad=adapter.pad, bos=adapter.bos, eos=adapter.eos)

    def greedy(model: nn.Module, source: Tensor, longest: int) -> list[list[int]]:
        rows = [[i for i in row if i not in specials] for row in source.tolist()]
        said = [adapter.translate(model, [words.itos[i] for i in row], longest) for row in rows]
        return [ids_of(words, each, adapter) for each in said]

    return greedy


def ids_of(words: Vocabulary, said: Any, adapter: Adapter) -> list[int]:
    """The ids of a translation, without a BOS before it and an EOS behind it."""
    listed = said.split() if isinstance(said, str) else list(said)
    listed = [int(w) if isinstance(w, str) and w.isdigit() else w for w in listed]
    if unknown := [w for w in listed if isinstance(w, str) and w not in words.names]:
        cause = "It returns words of nmtcheck.connect.standins.Vocabulary: a list or a string."
        raise Finding(f"translate says {unknown[0]!r}, which no vocabulary holds", cause)
    ids = [words.names[w] if isinstance(w, str) else int(w) for w in listed]
    ids = ids[1:] if ids[:1] == [adapter.bos] else ids
    return ids[:-1] if ids[-1:] == [adapter.eos] else ids
