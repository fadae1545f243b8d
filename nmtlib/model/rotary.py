"""Rotary positions: self-attention turns queries and keys; nothing is added to the words."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmtlib.errors import require
from nmtlib.model.attention import Mask, MultiHeadAttention, Start
from nmtlib.model.embeddings import sinusoidal_table


def rotate(vectors: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
    """Turn each pair of dimensions (2i, 2i+1) by an angle: (..., S, d_k) -> same.

    sine and cosine are (S, d_k/2).  As complex numbers, a pair x + iy becomes
    (x + iy) * (cosine - i sine).
    """
    x, y = vectors[..., 0::2], vectors[..., 1::2]  # (..., S, d_k/2) each
    turned = x * cosine + y * sine, y * cosine - x * sine
    return torch.stack(turned, dim=-1).flatten(-2)  # (..., S, d_k)


class RotaryAttention(MultiHeadAttention):
    """Self-attention whose scores see how far apart two words are.  Su et al. 2021, RoFormer, 3.2.

    A query at position m and a key at position n are turned by m and n times the speeds of the
    sinusoidal table (eq. 15, 34).  Two turns in one dot product leave their difference (eq. 16):

        (R_m q) . (R_n k) = q . (R_{n-m} k)

    The sense of turning is that of the table, whose row p + 1 is its row p turned once more; it is
    the other way round in eq. 34, which is the same with the two dimensions of each pair exchanged.
    """

    sine: Tensor  # (max_length, d_k/2)
    cosine: Tensor

    def __init__(
        self, d_model: int, n_heads: int, dropout: float = 0.0, max_length: int = 256
    ) -> None:
        super().__init__(d_model, n_heads, dropout)
        table = sinusoidal_table(max_length, d_model // n_heads)  # (max_length, d_k)
        # Buffers, because they follow .to(device); not in the checkpoint, as they can be computed.
        self.register_buffer("sine", table[:, 0::2].clone(), persistent=False)
        self.register_buffer("cosine", table[:, 1::2].clone(), persistent=False)

    def weighted_values(
        self, query: Tensor, keys: Tensor, values: Tensor, mask: Mask, start: Start = None
    ) -> Tensor:
        """As in `MultiHeadAttention`, after turning what shares positions.

        The keys are those of positions 0, 1, ... and the first query is at `start`: while decoding
        the cache holds `start` keys of earlier words, not turned, and that of this one.  In the
        attention to the memory (`start` None) the two sentences share no positions.
        """
        if start is not None:
            query, keys = self.turn(query, start), self.turn(keys, 0)
        return super().weighted_values(query, keys, values, mask, start)

    def turn(self, vectors: Tensor, start: int) -> Tensor:
        """Vectors (B, H, S, d_k), of which the first is at position `start`, turned."""
        here = slice(start, start + vectors.size(2))
        sine, cosine = self.sine[here], self.cosine[here]  # (S, d_k/2) each
        return rotate(vectors, sine.to(vectors.dtype), cosine.to(vectors.dtype))


class RotaryPositions(nn.Module):
    """In the place of `Positions`: adds nothing, since `RotaryAttention` does all the work.

    embedded (B, S, D) -> the same.  Raises ValueError beyond `max_length`, as `Positions` does.
    """

    def __init__(self, max_length: int):
        super().__init__()
        self.max_length = max_length

    def forward(self, embedded: Tensor, start: int = 0) -> Tensor:
        end = start + embedded.size(1)
        expected = f"at most max_length ({self.max_length}); split it, or train with a larger one"
        require(end <= self.max_length, "the tokens of a sentence", expected, end)
        return embedded
