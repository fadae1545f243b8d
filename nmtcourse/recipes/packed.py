"""A corpus as flat rows of ids on a device: a batch is gathered there, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain

import numpy as np
import torch
from torch import Tensor

from nmtlib.data.batching import Batch, Example, lengths_of
from nmtlib.specials import PAD


class PackedExamples(Sequence[Example]):
    """Examples of which all ids of a side stand in one row, with the places where each begins.

    Their batches are those of `collate`, made by a few operations however many tokens they hold,
    and without a copy to the device but that of the numbers.  `lengths` is (N, 2).
    """

    def __init__(self, examples: Sequence[Example], device: torch.device | str = "cpu"):
        self.lengths, self.device = lengths_of(examples), torch.device(device)
        self.sides = []
        for side, lengths in enumerate(self.lengths.T.tolist()):
            # PAD at the end, so that the last rows of a wide batch do not read beyond it.
            ids = chain(chain.from_iterable(e[side] for e in examples), [PAD] * max(lengths))
            flat = torch.from_numpy(np.fromiter(ids, np.int32)).to(self.device)
            starts = torch.tensor([0, *accumulate(lengths)], device=self.device)
            self.sides.append((flat, starts))

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, number: int) -> Example:
        if not 0 <= number < len(self):
            raise IndexError(number)
        found = self.batch([number])
        return Example(found.source[0].tolist(), found.target[0].tolist())

    def batch(self, numbers: Sequence[int] | np.ndarray) -> Batch:
        """The examples of some numbers, padded to the longest of them."""
        rows = torch.as_tensor(numbers)  # (B,)
        if self.device.type == "cuda":  # from memory of its own the copy does not wait
            rows = rows.pin_memory()
        rows = rows.to(self.device, non_blocking=True)
        source, target = self.lengths[numbers].max(axis=0).tolist()
        return Batch(self._gather(0, rows, source), self._gather(1, rows, target))

    def _gather(self, side: int, rows: Tensor, width: int) -> Tensor:
        flat, starts = self.sides[side]
        places = starts[rows, None] + torch.arange(width, device=self.device)  # (B, width)
        return flat[places].long().masked_fill_(places >= starts[rows + 1, None], PAD)
