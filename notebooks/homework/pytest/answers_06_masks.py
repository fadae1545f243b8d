"""Your answers to homework 06; check them with: pytest test_06_masks.py"""


import math

import torch
from torch import Tensor, nn


def three_masks(source: Tensor, target: Tensor, pad: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """The masks of the encoder, of the decoder's self-attention and of cross-attention."""
    # YOUR CODE HERE
    raise NotImplementedError()


def leaks(logits, source: Tensor, target: Tensor, vocabulary: int) -> list[int]:
    """The distances at which logits depend on later target tokens, sorted."""
    # YOUR CODE HERE
    raise NotImplementedError()


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Weights (..., S), 0 where the mask is False; a fully masked row gives zeros."""
    # YOUR CODE HERE
    raise NotImplementedError()


choice_06 = "?"  # replace the question mark by a letter
