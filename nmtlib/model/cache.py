"""What step-by-step decoding remembers, so that each step computes one position and not all of
them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class LayerCache:
    """Projected keys and values of one decoder layer.

    Those of the memory (B, H, S, K) are computed once; those of the tokens read so far (N, H, t, K)
    grow by one position a step.  N is B times the number of hypotheses of each sentence.
    """

    memory_keys: Tensor
    memory_values: Tensor
    keys: Tensor | None = None
    values: Tensor | None = None

    def append(self, keys: Tensor, values: Tensor) -> None:
        """Add the newest position, (N, H, 1, K) each."""
        self.keys = (
            keys if self.keys is None else torch.cat([self.keys, keys], dim=2)
        )  # (N, H, t, K)
        self.values = values if self.values is None else torch.cat([self.values, values], dim=2)


@dataclass
class DecoderState:
    """The state of decoding after `length` tokens: one cache a layer, and the mask of the memory
    (B, 1, 1, S).
    """

    layers: list[LayerCache]
    memory_mask: Tensor
    length: int = 0

    def select_hypotheses(self, rows: Tensor) -> None:
        """Keep the hypotheses `rows` (N',), in that order; a row may be named twice.

        A beam search calls this whenever its hypotheses change places: a cache that stays in the
        old order continues one hypothesis with the past of another.
        """
        for layer in self.layers:
            if layer.keys is not None:
                layer.keys = layer.keys.index_select(
                    0, rows
                )  # several times faster than keys[rows]
                layer.values = layer.values.index_select(0, rows)

    def select_sentences(self, rows: Tensor) -> None:
        """Keep the sentences `rows` (B',), in that order.  Their hypotheses are selected
        separately.
        """
        self.memory_mask = self.memory_mask[rows]
        for layer in self.layers:
            layer.memory_keys = layer.memory_keys.index_select(0, rows)
            layer.memory_values = layer.memory_values.index_select(0, rows)
