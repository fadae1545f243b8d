"""Your answers to homework 07; check them with: pytest test_07_model.py"""


import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from nmtlib.model import TransformerConfig


class Residual(nn.Module):
    """A sub-layer f with residual connection, norm ("pre" or "post") and dropout."""

    def __init__(self, d_model: int, dropout: float, norm: str):
        super().__init__()
        # YOUR CODE HERE
        raise NotImplementedError()

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        """x (B, S, D) -> (B, S, D)."""
        # YOUR CODE HERE
        raise NotImplementedError()


def count(config: TransformerConfig) -> int:
    """The number of trained parameters of a Transformer with this config."""
    # YOUR CODE HERE
    raise NotImplementedError()


from nmtlib.model.embeddings import Positions, TokenEmbedding   # (V, D); (D, max_length, kind)
from nmtlib.model.layers import DecoderLayer, EncoderLayer      # (config); see show_source
from nmtlib.model.masks import padding_mask, target_mask        # (ids) -> mask


class OwnTransformer(nn.Module):
    """The encoder-decoder Transformer: source (B, S), target (B, T) -> logits (B, T, V)."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        # YOUR CODE HERE
        raise NotImplementedError()

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError()


choice_07 = "?"  # replace the question mark by a letter
