"""Your answers to homework 09; check them with: pytest test_09_training.py"""


import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


class EarlyStopping:
    """Says after each epoch whether the last `patience` epochs brought nothing better."""

    def __init__(self, patience: int):
        self.patience, self.best = patience, None
        # YOUR CODE HERE
        raise NotImplementedError()

    def update(self, loss: float) -> bool:
        """Take in the loss of the next epoch; True if the training should stop."""
        # YOUR CODE HERE
        raise NotImplementedError()


def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: list,
    loss_sum: Callable[[nn.Module, Any], tuple[Tensor, int]],
    max_norm: float,
) -> float:
    """One clipped update from all batches; returns the norm of the gradient before clipping."""
    # YOUR CODE HERE
    raise NotImplementedError()


class Checkpoint:
    """All that a training needs to go on, in one file."""

    @staticmethod
    def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
        """Write the state of a training after `step` steps."""
        # YOUR CODE HERE
        raise NotImplementedError()

    @staticmethod
    def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
        """Put a saved state into model, optimizer and torch's generator; returns the step."""
        # YOUR CODE HERE
        raise NotImplementedError()


choice_09 = "?"  # write a letter in place of the question mark
