"""From token ids to padded batches of similar lengths, within a token budget, in seeded order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmtlib.specials import BOS, EOS, PAD


class Example(NamedTuple):
    """One pair as ids: source = tokens + EOS, target = BOS + tokens + EOS."""

    source: Sequence[int]
    target: Sequence[int]


NOTHING = Example([EOS], [BOS, PAD])  # one token to read and no label: its loss is zero


def make_example(source_ids: Sequence[int], target_ids: Sequence[int]) -> Example:
    """Add the special ids to a pair of token ids; nothing else adds them."""
    return Example([*source_ids, EOS], [BOS, *target_ids, EOS])


def fits(example: Example, max_length: int) -> bool:
    """Whether the encoder and the decoder read at most `max_length` tokens of an example."""
    return len(example.source) <= max_length and len(example.target) <= max_length + 1


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
        """What it must predict at each position, (B, T): the next token, PAD beyond EOS."""
        return self.target[:, 1:]

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device; from pinned memory the copy is asynchronous."""
        source, target = (ids.to(device, non_blocking=True) for ids in (self.source, self.target))
        return Batch(source, target)


def pad(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of ids of any lengths -> one tensor (B, longest), PAD at the right."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])


def collate(examples: Sequence[Example]) -> Batch:
    """Pad examples into one batch.  Raises ValueError for no examples."""
    if not examples:
        raise ValueError("a batch needs at least one example")
    return Batch(pad([e.source for e in examples]), pad([e.target for e in examples]))


def lengths_of(examples: Sequence[Example]) -> np.ndarray:
    """Source and target length of each example, (N, 2)."""
    lengths = [(len(e.source), len(e.target)) for e in examples]
    return np.array(lengths, dtype=np.int32).reshape(-1, 2)


def token_batches(
    examples: Sequence[Example], max_tokens: int, *, seed: int | None = None
) -> list[list[int]]:
    """Group example numbers so that sentences of similar length share a batch of limited size.

    A batch of n sentences costs n * the longest source or target in it, padding included, and that
    is at most `max_tokens`.  A seed shuffles sentences of equal lengths, and then the batches;
    without one, batches run from short to long.  Raises ValueError for a sentence that alone
    exceeds the budget.
    """
    plan = plan_batches(lengths_of(examples), max_tokens, seed=seed)
    return [numbers.tolist() for numbers in plan]


def plan_batches(
    lengths: np.ndarray, max_tokens: int, *, seed: int | None = None
) -> list[np.ndarray]:
    """`token_batches` from the lengths (N, 2) of source and target alone."""
    cost = lengths.max(axis=1)
    if (too_long := np.flatnonzero(cost > max_tokens)).size:
        number = too_long[0]
        raise ValueError(
            f"sentence {number} has {cost[number]} tokens, more than max_tokens = {max_tokens}; "
            f"raise max_tokens, or leave the sentence out (max_length)"
        )
    order, generator = np.arange(len(cost)), torch.Generator().manual_seed(seed or 0)
    if seed is not None:
        order = torch.randperm(len(cost), generator=generator).numpy()
    # The sort is stable: among equal lengths the random order stays.  The last key counts most.
    order = order[np.lexsort((lengths[order, 0], lengths[order, 1], cost[order]))]

    batches, start = [], 0
    while start < len(order):
        # Sorted by cost, the newest sentence is the longest of its batch: n cost n * the newest.
        # With costs 2 3 3 5 6 and max_tokens = 12 these are 2 6 9 20 30, so three are a batch.
        longest = cost[order[start : start + max_tokens]]
        size = int((np.arange(1, len(longest) + 1) * longest <= max_tokens).sum())
        batches.append(order[start : start + size])
        start += size
    if seed is not None:
        batches = [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]
    return batches


def padding_waste(batches: Iterable[Batch]) -> float:
    """The share of PAD, in [0, 1], among all positions of source and target in some batches."""
    ids = [side.flatten() for batch in batches for side in (batch.source, batch.target)]
    if not ids:
        raise ValueError("padding_waste needs at least one batch")
    return float((torch.cat(ids) == PAD).double().mean())


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch on the device; the copy to a GPU runs while the next operations are queued."""
    # A GPU fetches by itself only from memory that the system cannot move.
    if device.type == "cuda" and not batch.source.is_cuda:
        batch = Batch(batch.source.pin_memory(), batch.target.pin_memory())
    return batch.to(device)


class BatchLoader:
    """The batches of an epoch, of at most `max_tokens` tokens each.

    Where `count` processes train together, the one of number `rank` gets every `count`-th row of
    each, on its device.  A share without a sentence is `NOTHING`, since all processes wait for the
    gradients of each.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        max_tokens: int,
        device: torch.device,
        rank: int = 0,
        count: int = 1,
    ):
        self.examples, self.max_tokens = examples, max_tokens
        self.device, self.rank, self.count = device, rank, count
        self.lengths = lengths_of(examples)  # (N, 2)

    def plan(self, seed: int | None = None) -> list[np.ndarray]:
        """The row numbers of each batch of an epoch; see `plan_batches`."""
        return plan_batches(self.lengths, self.max_tokens, seed=seed)

    def labels(self, batches: Sequence[np.ndarray]) -> int:
        """How many labels some batches hold in all processes: all target tokens except BOS."""
        return int((self.lengths[np.concatenate(batches), 1] - 1).sum())

    def load(self, batches: Sequence[np.ndarray]) -> list[Batch]:
        """This process's share of some batches; a batch may have too few rows for a share."""
        mine = [rows[self.rank :: self.count] for rows in batches]
        shares = ([self.examples[i] for i in rows] for rows in mine)
        return [to_device(collate(share or [NOTHING]), self.device) for share in shares]
