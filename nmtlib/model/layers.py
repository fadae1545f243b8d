"""The blocks of a Transformer, and the cache that a decoder layer fills step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtlib.model.attention import AttentionClass, Mask, MultiHeadAttention
from nmtlib.model.config import TransformerConfig
from nmtlib.model.embeddings import Dropout
from nmtlib.model.rotary import RotaryAttention


class FeedForward(nn.Module):
    """Two linear maps with a ReLU between, at each position.  Vaswani et al. 2017, eq. 2.

    (B, T, D) -> (B, T, D), through d_ff dimensions.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff)
        self.fc2 = nn.Linear(d_ff, d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.dropout(F.relu(self.fc1(x))))  # (B, T, D)


class Residual(nn.Module):
    """Add a sub-layer's output to its input, and normalise.  The form is that of Rush 2018.

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


def make_self_attention(config: TransformerConfig, attention: AttentionClass) -> MultiHeadAttention:
    """The attention of a sentence to itself: the only one that rotary positions turn.

    Raises ValueError for an `attention` of one's own that turns where the configuration does not
    ask for it, or the other way round: a copy that is made of the configuration would differ.
    """
    c, rotary = config, config.positions == "rotary"
    if rotary and attention is MultiHeadAttention:
        attention = RotaryAttention
    if rotary != issubclass(attention, RotaryAttention):
        derived = "derived" if rotary else "not derived"
        raise ValueError(
            f"positions={c.positions!r} needs an attention that is {derived} from RotaryAttention, "
            f"unlike {attention.__name__}"
        )
    if issubclass(attention, RotaryAttention):
        return attention(c.d_model, c.n_heads, c.attention_dropout, c.max_length)
    return attention(c.d_model, c.n_heads, c.attention_dropout)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each in its residual connection: (B, S, D) -> same."""

    def __init__(self, config: TransformerConfig, attention: AttentionClass = MultiHeadAttention):
        super().__init__()
        c = config
        self.self_attention = make_self_attention(c, attention)
        self.feed_forward = FeedForward(c.d_model, c.d_ff, c.dropout)
        self.residuals = nn.ModuleList(Residual(c.d_model, c.dropout, c.norm) for _ in range(2))

    def forward(self, x: Tensor, mask: Mask = None) -> Tensor:
        x = self.residuals[0](x, lambda x: self.self_attention(x, x, x, mask))
        return self.residuals[1](x, self.feed_forward)  # (B, S, D)


@dataclass
class LayerCache:
    """The keys and values of one decoder layer, computed once.

    Those of the memory, (B, H, S, d_k), never change; those of the t tokens so far, (N, H, t, d_k),
    grow by one position a step.  N is B times the hypotheses of each sentence.
    """

    memory_keys: Tensor
    memory_values: Tensor
    keys: Tensor | None = None
    values: Tensor | None = None

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add the newest position, (N, H, 1, d_k) each; returns all keys and values so far."""
        if self.keys is not None and self.values is not None:
            keys = torch.cat([self.keys, keys], dim=2)  # (N, H, t, d_k)
            values = torch.cat([self.values, values], dim=2)  # (N, H, t, d_k)
        self.keys, self.values = keys, values
        return keys, values


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the memory, feed-forward: (B, T, D) -> (B, T, D)."""

    def __init__(self, config: TransformerConfig, attention: AttentionClass = MultiHeadAttention):
        super().__init__()
        c = config
        self.self_attention = make_self_attention(c, attention)
        self.cross_attention = attention(c.d_model, c.n_heads, c.attention_dropout)
        self.feed_forward = FeedForward(c.d_model, c.d_ff, c.dropout)
        self.residuals = nn.ModuleList(Residual(c.d_model, c.dropout, c.norm) for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor, mask: Mask, memory_mask: Mask) -> Tensor:
        """x (B, T, D) and memory (B, S, D); masks broadcast to (B, H, T, T) and (B, H, T, S)."""
        x = self.residuals[0](x, lambda x: self.self_attention(x, x, x, mask))
        x = self.residuals[1](x, lambda x: self.cross_attention(x, memory, memory, memory_mask))
        return self.residuals[2](x, self.feed_forward)  # (B, T, D)

    def start(self, memory: Tensor) -> LayerCache:
        """The cache before the first token; memory is (B, S, D)."""
        return LayerCache(*self.cross_attention.project(memory, memory))

    def step(self, x: Tensor, cache: LayerCache, memory_mask: Mask) -> Tensor:
        """One new position of N hypotheses: (N, 1, D) -> (N, 1, D); `cache` grows by it."""
        x = self.residuals[0](x, lambda x: self.attend_to_past(x, cache))
        x = self.residuals[1](x, lambda x: self.attend_to_memory(x, cache, memory_mask))
        return self.residuals[2](x, self.feed_forward)  # (N, 1, D)

    def attend_to_past(self, x: Tensor, cache: LayerCache) -> Tensor:
        """Self-attention of the newest position to itself and all before."""
        keys, values = cache.append(*self.self_attention.project(x, x))  # (N, H, t, d_k) each
        return self.self_attention.attend(x, keys, values, start=keys.size(2) - 1)  # (N, 1, D)

    def attend_to_memory(self, x: Tensor, cache: LayerCache, memory_mask: Mask) -> Tensor:
        """Cross-attention: the N/B hypotheses of a sentence are N/B queries to its one memory."""
        keys, values = cache.memory_keys, cache.memory_values  # (B, H, S, d_k) each
        queries = x.view(len(keys), -1, x.size(-1))  # (B, N/B, D)
        return self.cross_attention.attend(queries, keys, values, memory_mask).view_as(x)


@dataclass
class DecoderState:
    """Decoding after `length` tokens: one cache a layer, and the memory's mask (B, 1, 1, S)."""

    layers: list[LayerCache]
    memory_mask: Tensor
    length: int = 0

    def reorder(self, rows: Tensor) -> None:
        """Keep the hypotheses `rows` (N',), in that order; a row may be named twice.

        A beam search calls this at every step: a cache that stays in the old order continues one
        hypothesis with the past of another.
        """
        for layer in self.layers:
            if layer.keys is not None and layer.values is not None:
                # index_select is several times faster than keys[rows].
                layer.keys = layer.keys.index_select(0, rows)  # (N', H, t, d_k)
                layer.values = layer.values.index_select(0, rows)  # (N', H, t, d_k)

    def select_sentences(self, rows: Tensor) -> None:
        """Keep the sentences `rows` (B',), in that order; select their hypotheses separately."""
        self.memory_mask = self.memory_mask[rows]  # (B', 1, 1, S)
        for layer in self.layers:
            layer.memory_keys = layer.memory_keys.index_select(0, rows)  # (B', H, S, d_k)
            layer.memory_values = layer.memory_values.index_select(0, rows)  # (B', H, S, d_k)
