"""Your answers to homework 05; check them with: pytest test_05_multi_head.py"""


import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtlib.model import MultiHeadAttention


def wrong_split(x: Tensor, n_heads: int) -> Tensor:
    """Not what it claims to be."""
    return x.reshape(x.size(0), n_heads, x.size(1), -1)


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """Split vectors (B, S, D) into heads (B, H, S, d_k) of adjacent numbers."""
    # YOUR CODE HERE
    raise NotImplementedError()


def multi_head_attention(
    query: Tensor,
    memory: Tensor,
    weights: dict[str, Tensor],
    n_heads: int,
    mask: Tensor | None = None,
) -> Tensor:
    """Attend from query (B, T, D) to memory (B, S, D) with several heads -> (B, T, D)."""

    # YOUR CODE HERE
    raise NotImplementedError()


def take_over(module: nn.MultiheadAttention) -> MultiHeadAttention:
    """The same attention as a module of nmtlib, with copied weights."""
    # YOUR CODE HERE
    raise NotImplementedError()


choice_05 = "?"  # replace the question mark by a letter
