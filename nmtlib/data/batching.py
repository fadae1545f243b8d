"""From token ids to padded batches: of similar lengths, within a token budget, in a seeded order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from nmtlib.data.vocab import BOS, EOS, PAD


class Example(NamedTuple):
    """One pair as ids: source = tokens + EOS, target = BOS + tokens + EOS."""

    source: Sequence[int]
    target: Sequence[int]


def make_example(source_ids: Sequence[int], target_ids: Sequence[int]) -> Example:
    """Add the special ids to a pair of token ids, in the one place where it is done."""
    return Example([*source_ids, EOS], [BOS, *target_ids, EOS])


@dataclass(frozen=True)
class Batch:
    """Padded ids: source (B, S) and target (B, T + 1), from BOS to EOS."""

    source: Tensor
    target: Tensor

    @property
    def decoder_input(self) -> Tensor:
        """What the decoder reads, (B, T): all but the last position."""
        return self.target[:, :-1]

    @property
    def labels(self) -> Tensor:
        """What it must say at each of these positions, (B, T): the next token, PAD beyond EOS."""
        return self.target[:, 1:]

    def rows(self, first: int, step: int) -> Batch:
        """Every `step`-th pair from `first` on: the share of one of `step` processes."""
        return Batch(self.source[first::step], self.target[first::step])

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device; from pinned memory the copy runs beside the computation."""
        return Batch(self.source.to(device, non_blocking=True), self.target.to(device, non_blocking=True))


def pad(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of ids of any lengths -> one tensor (B, longest), PAD at the right."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])


def collate(examples: Sequence[Example]) -> Batch:
    """Pad examples into one batch.  Raises ValueError for no examples."""
    if not examples:
        raise ValueError("a batch needs at least one example")
    return Batch(pad([e.source for e in examples]), pad([e.target for e in examples]))


def token_batches(examples: Sequence[Example], max_tokens: int, *, seed: int | None = None) -> list[list[int]]:
    """Group example numbers so that sentences of similar length share a batch of limited size.

    A batch of n sentences costs n * the longest source or target in it, padding included, and that is at
    most `max_tokens`.  With a seed, sentences of equal lengths and then the batches are shuffled, the
    same way for the same seed; without, batches run from short to long.
    Raises ValueError for a sentence that alone exceeds the budget.
    """
    cost = [max(len(example.source), len(example.target)) for example in examples]
    for number, length in enumerate(cost):
        if length > max_tokens:
            raise ValueError(f"sentence {number} has {length} tokens, more than max_tokens = {max_tokens}; "
                             f"raise max_tokens, or leave the sentence out (max_length)")  # fmt: skip
    generator = torch.Generator().manual_seed(seed or 0)
    order = range(len(examples)) if seed is None else torch.randperm(len(examples), generator=generator).tolist()
    # The sort is stable: among equal lengths the random order stays.
    order = sorted(order, key=lambda i: (cost[i], len(examples[i].target), len(examples[i].source)))

    batches: list[list[int]] = []
    for i in order:
        # Sorted by cost, so the newest sentence is the longest of its batch.
        if not batches or (len(batches[-1]) + 1) * cost[i] > max_tokens:
            batches.append([])
        batches[-1].append(i)
    if seed is None:
        return batches
    return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]


def padding_waste(batches: Iterable[Batch]) -> float:
    """Share of the positions of some batches that hold PAD, source and target together, in [0, 1]."""
    padded = total = 0
    for batch in batches:
        for ids in (batch.source, batch.target):
            padded += int((ids == PAD).sum())
            total += ids.numel()
    if not total:
        raise ValueError("padding_waste needs at least one batch")
    return padded / total
