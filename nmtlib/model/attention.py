"""Attention masks; scaled dot-product and multi-head attention, in full and as one fused call.

A mask is a bool tensor that broadcasts to (B, H, T, S); True means *may attend*.  Training needs
all three.  Decoding needs no causal mask: the cache of a step holds only the tokens generated so
far, so there is no future to hide (`attend_to_past` in `layers.py`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtlib.errors import require
from nmtlib.model.embeddings import dropout

Mask = Tensor | None  # None: every query may attend to every key
Start = int | None  # the position of the first query among the keys; None: they share no positions


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


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask = None,
    *,
    dropout_p: float = 0.0,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Weigh the values by how well each key matches the query.  Vaswani et al. 2017, eq. 1.

    query (..., T, d_k), key (..., S, d_k), value (..., S, d_k) -> (..., T, d_k); `mask` is bool,
    broadcasts to (..., T, S), and True means *may attend*.  A query without any key gets zeros.
    With `return_weights` also returns the weights (..., T, S).  There are two paths to one result:
    the formula, and torch's own function, whose fused kernels never hold the weights.
    """
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"a mask is a bool tensor (True = may attend), not {mask.dtype}")
    # Backward through the fused kernel is several times slower on a CPU than through the formula.
    trains_on_cpu = query.device.type == "cpu" and torch.is_grad_enabled() and query.requires_grad
    if not return_weights and not trains_on_cpu:
        return F.scaled_dot_product_attention(query, key, value, mask, dropout_p)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (..., T, S)
    if mask is not None:
        # The lowest number of the type, not -inf: a row of nothing but -inf would become NaN.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)  # (..., T, S)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)  # changes only rows that may attend to nothing
    result = dropout(weights, dropout_p) @ value  # (..., T, d_k)
    return (result, weights) if return_weights else result


class MultiHeadAttention(nn.Module):
    """H attentions in parallel, each d_k = D/H dimensions wide.  Vaswani et al. 2017, 3.2.2.

    query (B, T, D), key and value (B, S, D), mask broadcasting to (B, H, T, S) -> (B, T, D).
    `dropout` applies to the attention weights while training.  `record_attention` collects the
    weights (B, H, T, S).
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0):
        super().__init__()
        whole = n_heads >= 1 and d_model % n_heads == 0
        require(whole, "d_model", f"a multiple of n_heads ({n_heads})", d_model)
        self.n_heads = n_heads
        self.dropout = dropout
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask = None) -> Tensor:
        # Only a sentence that attends to itself has queries and keys at common positions.
        start = 0 if key is query else None
        return self.attend(query, *self.project(key, value), mask, start)  # (B, T, D)

    def project(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values of all heads, (B, H, S, d_k) each: what a decoder caches."""
        return self.split(self.key(key)), self.split(self.value(value))

    def attend(
        self, query: Tensor, keys: Tensor, values: Tensor, mask: Mask = None, start: Start = None
    ) -> Tensor:
        """Attend from query (B, T, D) to projected keys and values (B, H, S, d_k) -> (B, T, D)."""
        queries = self.split(self.query(query))  # (B, H, T, d_k)
        heads = self.weighted_values(queries, keys, values, mask, start)  # (B, H, T, d_k)
        return self.output(heads.transpose(1, 2).flatten(2))  # (B, T, D)

    def weighted_values(
        self, query: Tensor, keys: Tensor, values: Tensor, mask: Mask, start: Start = None
    ) -> Tensor:
        """The output of all heads, (B, H, T, d_k); weights are computed only to be recorded.

        `start` is the position of the first query among the keys, for subclasses that use it: 0
        where a sentence attends to itself, the number of tokens before where decoding adds one, and
        None for the memory, whose positions are those of another sentence.
        """
        dropout_p = self.dropout if self.training else 0.0
        records = records_of(self) if RECORDS else []
        output = scaled_dot_product_attention(
            query, keys, values, mask, dropout_p=dropout_p, return_weights=bool(records)
        )
        if isinstance(output, Tensor):  # nobody records the weights
            return output
        heads, weights = output  # (B, H, T, d_k), (B, H, T, S)
        weights = weights.detach()
        for record in records:
            record.append(weights)
        return heads

    def split(self, x: Tensor) -> Tensor:
        """Split the last dimension into heads: (B, S, D) -> (B, H, S, d_k)."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)


AttentionClass = type[MultiHeadAttention]


@dataclass(eq=False)
class Recording:
    """What a block of `record_attention` collects for each module, in the thread it runs in."""

    thread: int
    maps: dict[nn.Module, list[Tensor]]


# The blocks that run now.  A ContextVar would also keep threads apart, but torch.compile and
# torch.export cannot read one; a list that is empty costs them nothing.
RECORDS: list[Recording] = []


def records_of(module: nn.Module) -> list[list[Tensor]]:
    """Where the blocks of this thread collect the weights of a module."""
    here = threading.get_ident()
    mine = [recording.maps for recording in tuple(RECORDS) if recording.thread == here]
    return [maps[module] for maps in mine if module in maps]


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Collect the attention weights of every `MultiHeadAttention` in `model` during the block.

    Yields a dictionary: name of the attention module (such as 'decoder.0.cross_attention') -> one
    tensor (B, H, T, S) for each run of the module in this thread, before dropout.  Blocks may be
    nested.

    >>> attention = MultiHeadAttention(d_model=8, n_heads=2)
    >>> x = torch.randn(1, 3, 8)
    >>> with record_attention(attention) as maps:
    ...     _ = attention(x, x, x)
    >>> [weights.shape for weights in maps['']]
    [torch.Size([1, 2, 3, 3])]
    """
    attentions = {name: m for name, m in model.named_modules() if isinstance(m, MultiHeadAttention)}
    if not attentions:
        raise ValueError(f"{type(model).__name__} holds no MultiHeadAttention to record")
    maps: dict[str, list[Tensor]] = {name: [] for name in attentions}
    found: dict[nn.Module, list[Tensor]] = {m: maps[name] for name, m in attentions.items()}
    RECORDS.append(recording := Recording(threading.get_ident(), found))
    try:
        yield maps
    finally:
        RECORDS.remove(recording)
