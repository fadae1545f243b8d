"""Your answers to homework 09; check them with: pytest test_09_training.py"""


import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


class EarlyStopping:
    """Tell after each epoch whether the last `patience` epochs brought no improvement."""

    def __init__(self, patience: int):
        self.patience, self.best = patience, None
        # YOUR CODE HERE
        raise NotImplementedError()

    def update(self, loss: float) -> bool:
        """Record the loss of the next epoch; return True if training should stop."""
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
    """Everything a run needs to resume, in one file."""

    @staticmethod
    def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
        """Write the state of a run after `step` steps."""
        # YOUR CODE HERE
        raise NotImplementedError()

    @staticmethod
    def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
        """Restore a saved state into model, optimizer and torch's generator; returns the step."""
        # YOUR CODE HERE
        raise NotImplementedError()


choice_09 = "?"  # replace the question mark by a letter
