"""Your answers to homework 08; check them with: pytest test_08_loss.py"""


import math

import torch
from torch import Tensor, nn

from nmtlib.data.batching import Batch


def rate(step: int, d_model: int, warmup: int) -> float:
    """The learning rate of update number `step`, counted from 1."""
    # YOUR CODE HERE
    raise NotImplementedError()


def smoothed_loss(logits: Tensor, labels: Tensor, smoothing: float = 0.1) -> Tensor:
    """Cross-entropy (nats) against the smoothed target: mean over the labels that are not PAD."""
    # YOUR CODE HERE
    raise NotImplementedError()


from nmtlib.training.loss import label_smoothed_loss


def wrong_gradients(model: nn.Module, batches: list[Batch], smoothing: float) -> float:
    """Not what it claims to be."""
    total = 0.0
    for batch in batches:
        logits = model(batch.source, batch.decoder_input)
        loss = label_smoothed_loss(logits, batch.labels, smoothing)
        loss.backward()
        total += float(loss)
    return total / len(batches)


def gradients(model: nn.Module, batches: list[Batch], smoothing: float) -> float:
    """Leave the gradients of the mean smoothed loss in the model; return the mean NLL."""
    # YOUR CODE HERE
    raise NotImplementedError()


choice_08 = "?"  # replace the question mark by a letter
