"""A cause is proved by a repair, or it is a guess.

With a repair of one thing the failing check passes, and a sound model computes what it did before.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter, Sizes
from nmtcheck.measure.helpers import TOLERANCE, distance, logits, prepare
from nmtcheck.registry import Finding

Measure = Callable[[Adapter, int], object]
Repair = Callable[[Adapter], Adapter]


class Sound(nn.Module):
    """torch's Transformer with masks and learned positions."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        d, n, heads = sizes.d_model, sizes.n_layers, sizes.n_heads
        rows = sizes.source_vocab_size, sizes.target_vocab_size, sizes.max_length
        self.tables = nn.ModuleList(nn.Embedding(size, d) for size in rows)
        with warnings.catch_warnings(action="ignore"):  # about a fast path that is not taken
            self.inner = nn.Transformer(
                d, heads, n, n, sizes.d_ff, 0.0, batch_first=True, norm_first=True
            )
        self.last = nn.Linear(d, sizes.target_vocab_size)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        own, other = (
            table(ids) + self.tables[2](torch.arange(ids.size(1), device=ids.device))
            for table, ids in zip(self.tables, (source, target), strict=False)
        )
        future = torch.ones(2 * [target.size(1)], device=target.device).triu(1).bool()
        pad = source == 0
        return self.last(self.inner(own, other, None, future, None, pad, None, pad))


SOUND = Adapter(name="a sound model", make_model=Sound, pad=0, bos=1, eos=2)


def is_harmless(repair: Repair) -> bool:
    """Whether a sound model has the same logits with the repair."""
    plain, repaired = (logits(a, *prepare(a, 0)) for a in (SOUND, repair(SOUND)))
    return distance(repaired, plain) < TOLERANCE


def prove_cause(
    adapter: Adapter, seed: int, found: Finding, repair: Repair, measure: Measure, what: str
) -> Finding:
    """The finding, its cause proved where `measure` passes with the repair, which is harmless."""
    with contextlib.suppress(Exception):  # a repair may break a pass in any way
        measure(repair(adapter), seed)
        if found.fits and is_harmless(repair):
            found.fits, found.proved = f"{found.fits} With {what}, the check passes.", True
            found.repair = repair
    return found
