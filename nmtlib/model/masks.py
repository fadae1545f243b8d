"""Attention masks: bool tensors that broadcast to (B, H, T, S); True means *may attend*.

Training needs all three.  Decoding needs no causal mask: the cache of a step holds only the tokens
generated so far, so there is no future to hide (`attend_to_past` in `layers.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor

Mask = Tensor | None  # None: every query may attend to every key


def padding_mask(ids: Tensor, pad: int = 0) -> Tensor:
    """Which keys of a padded batch are real tokens: ids (B, S) -> (B, 1, 1, S), False at `pad`."""
    return (ids != pad)[:, None, None, :]  # (B, 1, 1, S)


def causal_mask(length: int, *, device: torch.device | str | None = None) -> Tensor:
    """Each position may attend to itself and all before it: (1, 1, length, length).

    Vaswani et al. 2017, 3.2.3.

    >>> causal_mask(3)[0, 0].int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    full = torch.ones(length, length, dtype=torch.bool, device=device)
    return full.tril()[None, None]  # (1, 1, T, T)


def target_mask(ids: Tensor, pad: int = 0) -> Tensor:
    """Causal and padding mask of a padded target batch in one: `ids` (B, T) -> (B, 1, T, T)."""
    return padding_mask(ids, pad) & causal_mask(ids.size(1), device=ids.device)  # (B, 1, T, T)
