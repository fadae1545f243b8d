"""Your answers to homework 12; check them with: pytest test_12_memory.py"""


import math
from collections.abc import Callable

import torch
from torch import Tensor, nn


def training_bytes(model: nn.Module) -> int:
    """Bytes of parameters, gradients, Adam's moments and buffers."""
    # YOUR CODE HERE
    raise NotImplementedError()


def ring_all_reduce(
    vectors: list[Tensor], exchange: Callable[[list[Tensor]], list[Tensor]]
) -> list[Tensor]:
    """The sum of all vectors on each device; data moves only through `exchange`."""

    # YOUR CODE HERE
    raise NotImplementedError()


def fitting_batches(
    lengths: Tensor, cost: Callable[[int, int, int], float], capacity: float
) -> list[list[int]]:
    """Few batches that cost at most `capacity` each and contain every sentence once."""
    # YOUR CODE HERE
    raise NotImplementedError()


choice_12 = "?"  # replace the question mark by a letter
