"""Your answers to homework 04; check them with: pytest test_04_attention.py"""


import math

import torch
from torch import Tensor


def stable_softmax(scores: Tensor) -> Tensor:
    """Weights over the last dimension of scores (..., N), however large the scores are."""
    # YOUR CODE HERE
    raise NotImplementedError()


def masked_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Weigh the values by how well each key matches the query; True in the mask = may attend."""
    # YOUR CODE HERE
    raise NotImplementedError()


def causal_self_attention(
    x: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor
) -> tuple[Tensor, Tensor]:
    """Vectors (B, T, d_k) and weights (B, T, T) of causal self-attention on x (B, T, D)."""
    # YOUR CODE HERE
    raise NotImplementedError()


choice_04 = "?"  # replace the question mark by a letter
