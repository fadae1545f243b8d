"""Run an adapter's loop on pairs of word ids: train it, and validate with it."""

from __future__ import annotations

import torch
from torch import nn

from nmtcheck.adapter import Adapter, IdPair
from nmtcheck.connect.standins import Batch, Loader
from nmtcheck.measure.helpers import pad, source_rows


def batches_of(adapter: Adapter, pairs: list[IdPair], size: int = 2) -> list[Batch]:
    """Pairs of word ids as padded batches of `size` pairs, with whole targets."""
    loader = Loader()
    for first in range(0, len(pairs), size):
        sources, targets = zip(*pairs[first : first + size], strict=True)
        whole = pad([[adapter.bos, *words, adapter.eos] for words in targets], adapter.pad)
        loader.append(Batch(source_rows(adapter, sources), whole))
    loader.dataset, loader.batch_size = pairs, size
    return loader


def validate(adapter: Adapter, model: nn.Module, pairs: list[IdPair]) -> float:
    """The loss that an epoch without training reports of these pairs."""
    with torch.set_grad_enabled(torch.is_grad_enabled()):  # some switch it off and not on again
        return float(adapter.epoch(model, batches_of(adapter, pairs), False))


def train(
    adapter: Adapter, model: nn.Module, pairs: list[IdPair], others: list[IdPair], epochs: int
) -> None:
    """Train for some epochs, each followed by a validation on the other pairs."""
    for _ in range(epochs):
        adapter.epoch(model, batches_of(adapter, pairs), True)
        validate(adapter, model, others)
