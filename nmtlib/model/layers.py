"""The blocks of a Transformer: feed-forward, residual connection, encoder layer, decoder layer."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from nmtlib.model.attention import MultiHeadAttention
from nmtlib.model.cache import LayerCache
from nmtlib.model.dropout import Dropout


class FeedForward(nn.Module):
    """Two linear maps with a ReLU between, at each position alone.  Vaswani et al. 2017, eq. 2.

    (B, T, D) -> (B, T, D), through d_ff dimensions.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff)
        self.contract = nn.Linear(d_ff, d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(self.dropout(F.relu(self.expand(x))))  # (B, T, D)


class Residual(nn.Module):
    """Add a sub-layer's output to its input, and normalise.

    Post-norm, as in Vaswani et al. 2017, 3.1: norm(x + dropout(sublayer(x))).
    Pre-norm, as in Xiong et al. 2020: x + dropout(sublayer(norm(x))), which trains without warm-up.
    """

    def __init__(self, d_model: int, dropout: float, norm: str):
        super().__init__()
        self.pre_norm = norm == "pre"
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre_norm:
            return x + self.dropout(sublayer(self.norm(x)))  # (B, T, D)
        return self.norm(x + self.dropout(sublayer(x)))  # (B, T, D)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each with its residual connection: (B, S, D) -> (B, S, D)."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        dropout: float,
        attention_dropout: float,
        norm: str,
    ):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads, attention_dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.residuals = nn.ModuleList(Residual(d_model, dropout, norm) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.residuals[0](x, lambda x: self.self_attention(x, x, x, mask))  # (B, S, D)
        return self.residuals[1](x, self.feed_forward)  # (B, S, D)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder's memory, feed-forward: (B, T, D) -> (B, T,
    D).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        dropout: float,
        attention_dropout: float,
        norm: str,
    ):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads, attention_dropout)
        self.cross_attention = MultiHeadAttention(d_model, n_heads, attention_dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.residuals = nn.ModuleList(Residual(d_model, dropout, norm) for _ in range(3))

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None, memory_mask: Tensor | None
    ) -> Tensor:
        """x (B, T, D) and memory (B, S, D); masks broadcast to (B, H, T, T) and (B, H, T, S)."""
        x = self.residuals[0](x, lambda x: self.self_attention(x, x, x, mask))  # (B, T, D)
        x = self.residuals[1](
            x, lambda x: self.cross_attention(x, memory, memory, memory_mask)
        )  # (B, T, D)
        return self.residuals[2](x, self.feed_forward)  # (B, T, D)

    def start(self, memory: Tensor) -> LayerCache:
        """What step-by-step decoding needs of this layer before the first token; memory is (B, S,
        D).
        """
        return LayerCache(*self.cross_attention.project(memory, memory))

    def step(self, x: Tensor, cache: LayerCache, memory_mask: Tensor | None) -> Tensor:
        """The layer's output for one new position of N hypotheses: (N, 1, D) -> (N, 1, D); `cache`
        grows by it.
        """
        x = self.residuals[0](x, lambda x: self.attend_to_past(x, cache))  # (N, 1, D)
        x = self.residuals[1](
            x, lambda x: self.attend_to_memory(x, cache, memory_mask)
        )  # (N, 1, D)
        return self.residuals[2](x, self.feed_forward)  # (N, 1, D)

    def attend_to_past(self, x: Tensor, cache: LayerCache) -> Tensor:
        """Self-attention of the newest position; the cache holds no future, so no mask is needed."""
        cache.append(*self.self_attention.project(x, x))
        return self.self_attention.attend(x, cache.keys, cache.values)  # (N, 1, D)

    def attend_to_memory(self, x: Tensor, cache: LayerCache, memory_mask: Tensor | None) -> Tensor:
        """Cross-attention; the N/B hypotheses of one sentence are N/B queries to the one memory
        they share.
        """
        keys, values = cache.memory_keys, cache.memory_values  # (B, H, S, K) each
        queries = x.view(len(keys), -1, x.size(-1))  # (B, N/B, D)
        return self.cross_attention.attend(queries, keys, values, memory_mask).view_as(x)
