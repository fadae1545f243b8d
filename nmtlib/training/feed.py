"""What a training reads: the batches of an epoch, planned, shared out, gathered on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.nn import functional as F

from nmtlib.data.batching import Batch, Example, batch_of, lengths_of, plan_batches
from nmtlib.extras.packed import PackedExamples
from nmtlib.sections import TrainingSettings
from nmtlib.specials import BOS, EOS, PAD
from nmtlib.training.distributed import Processes

SEEDS = 2**64  # torch takes seeds below this
WIDTHS = 8  # where shapes are to be few, each width is a multiple of it


class Feed:
    """The batches of an epoch, from examples that lie on the device of the training.

    Examples that are read from disk (they have `lengths`) stay there, and their batches are padded
    by Python.  A compiled training gets few shapes: widths up to `longest` are rounded up to
    multiples of `WIDTHS`, and each width has one number of rows.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        settings: TrainingSettings,
        processes: Processes,
        longest: int,
    ):
        on_disk = hasattr(examples, "lengths")
        self.examples = examples if on_disk else PackedExamples(examples, processes.device)
        self.lengths = lengths_of(self.examples)  # (N, 2)
        self.processes, self.max_tokens, self.longest = processes, settings.max_tokens, longest
        self.few_shapes = settings.compile != "no"

    def plan(self, seed: int | None = None) -> list[np.ndarray]:
        """The numbers of the examples in each batch of an epoch; see `plan_batches`."""
        if not self.few_shapes:
            return plan_batches(self.lengths, self.max_tokens, seed=seed)
        # What is too long stays so, and what fits shall not become too long.
        rounded = np.minimum(_rounded(self.lengths), self.max_tokens)
        return plan_batches(np.maximum(rounded, self.lengths), self.max_tokens, seed=seed)

    def labels(self, numbers: Sequence[np.ndarray]) -> int:
        """How many tokens some batches teach: all of the targets but BOS."""
        return int((self.lengths[np.concatenate(numbers), 1] - 1).sum())

    def shares(self, numbers: Sequence[np.ndarray]) -> list[Batch]:
        """This process's rows of some batches; of examples on disk only these are read."""
        mine = [self.processes.share(batch) for batch in numbers]
        # A batch may have fewer rows than there are processes.
        batches = [batch_of(self.examples, rows) for rows in mine if len(rows)]
        return [self.reshaped(batch) for batch in batches] if self.few_shapes else batches

    def reshaped(self, batch: Batch) -> Batch:
        """The same, filled up to the next of the few shapes."""
        width = _rounded(max(batch.source.size(1), batch.target.size(1)))
        width = min(width, self.longest, self.max_tokens)
        return filled(batch, -(-(self.max_tokens // width) // self.processes.count), width)


def _rounded(lengths: Any) -> Any:
    return -(-lengths // WIDTHS) * WIDTHS


def filled(batch: Batch, rows: int, width: int) -> Batch:
    """A batch filled up to (rows, width), on the target side (rows, width + 1): the same loss.

    The new rows read one token and have no label, so that no query is without a key.
    """
    B, S = batch.source.shape
    T = batch.target.size(1)
    source = F.pad(batch.source, (0, width - S, 0, rows - B), value=PAD)  # (rows, width)
    target = F.pad(batch.target, (0, width + 1 - T, 0, rows - B), value=PAD)  # (rows, width + 1)
    source[B:, 0], target[B:, 0] = EOS, BOS
    return Batch(source, target)
