"""The batches of an epoch: planned from the lengths, sharded over processes, padded, copied."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmtlib.data.batching import Batch, Example, collate, lengths_of, plan_batches
from nmtlib.training.distributed import Processes
from nmtlib.training.hardware import to_device


class BatchLoader:
    """Batches of at most `max_tokens` tokens; of each, a process gets its share of the rows.

    Examples that make their own batches, on the device, have a method `batch` of row numbers.
    """

    def __init__(self, examples: Sequence[Example], max_tokens: int, processes: Processes):
        self.examples, self.max_tokens, self.processes = examples, max_tokens, processes
        self.lengths = lengths_of(examples)  # (N, 2)
        self.collate = getattr(examples, "batch", lambda rows: collate([examples[i] for i in rows]))

    def plan(self, seed: int | None = None) -> list[np.ndarray]:
        """The row numbers of each batch of an epoch; see `plan_batches`."""
        return plan_batches(self.lengths, self.max_tokens, seed=seed)

    def labels(self, batches: Sequence[np.ndarray]) -> int:
        """How many labels some batches hold in all processes: all target tokens except BOS."""
        return int((self.lengths[np.concatenate(batches), 1] - 1).sum())

    def load(self, batches: Sequence[np.ndarray]) -> list[Batch]:
        """This process's share of some batches, on its device; a batch may have too few rows."""
        shares = [self.processes.shard(rows) for rows in batches]
        device = self.processes.device
        return [to_device(self.collate(rows), device) for rows in shares if len(rows)]
