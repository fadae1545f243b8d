"""Your answers to homework 02; check them with: pytest test_02_embeddings.py"""


import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def lookup(ids: Tensor, table: Tensor) -> Tensor:
    """The rows (..., D) of a table (V, D) for ids (...), as a matrix multiplication."""
    # YOUR CODE HERE
    raise NotImplementedError()


class ScaledEmbedding(nn.Module):
    """Ids (B, S) -> vectors (B, S, D), scaled by the root of D; the row of PAD stays zero."""

    def __init__(self, vocab_size: int, d_model: int, pad: int = 0):
        super().__init__()
        # YOUR CODE HERE
        raise NotImplementedError()

    def forward(self, ids: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError()


class TiedTable(nn.Module):
    """One table (V, D) that embeds ids and computes logits."""

    def __init__(self, vocab_size: int, d_model: int):
        super().__init__()
        # YOUR CODE HERE
        raise NotImplementedError()

    def read(self, ids: Tensor) -> Tensor:
        """Ids (...) -> vectors (..., D), scaled by the root of D."""
        # YOUR CODE HERE
        raise NotImplementedError()

    def speak(self, x: Tensor) -> Tensor:
        """Vectors (..., D) -> logits (..., V)."""
        # YOUR CODE HERE
        raise NotImplementedError()


choice_02 = "?"  # replace the question mark by a letter
