"""Your answers to homework 11; check them with: pytest test_11_evaluation.py"""


import math
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor


def alignment_error_rate(
    found: list[set[tuple[int, int]]], gold: list[set[tuple[int, int]]]
) -> float:
    """The alignment error rate: 0 is perfect, 1 has no link right."""
    # YOUR CODE HERE
    raise NotImplementedError()


def bleu(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    """Corpus BLEU (0 to 100) of lists of tokens."""
    # YOUR CODE HERE
    raise NotImplementedError()


def bootstrap(
    one: Tensor,
    other: Tensor,
    score: Callable[[Tensor], float],
    times: int,
    generator: torch.Generator,
) -> Tensor:
    """Differences (times,) between two systems on sampled test sets."""
    # YOUR CODE HERE
    raise NotImplementedError()


choice_11 = "?"  # replace the question mark by a letter
