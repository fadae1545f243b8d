"""Your answers to homework 03; check them with: pytest test_03_positions.py"""


import math

import torch
from torch import Tensor, nn


def position_table(length: int, d_model: int) -> Tensor:
    """Sines and cosines of the positions 0 to length - 1, as a table (length, D)."""
    # YOUR CODE HERE
    raise NotImplementedError()


def rotation(k: int, d_model: int) -> Tensor:
    """The matrix (D, D) that turns the vector of each position p into that of position p + k."""
    # YOUR CODE HERE
    raise NotImplementedError()


from nmtlib.model.embeddings import sinusoidal_table


class Positions(nn.Module):
    """Add its position vector to each word (B, S, D); `start` is the number of earlier words."""

    def __init__(self, d_model: int, max_length: int, kind: str = "sinusoidal"):
        super().__init__()
        # YOUR CODE HERE
        raise NotImplementedError()

    def forward(self, embedded: Tensor, start: int = 0) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError()


choice_03 = "?"  # replace the question mark by a letter
