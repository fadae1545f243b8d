"""Your answers to homework 01; check them with: pytest test_01_text.py"""


from collections import Counter

import torch


class Vocabulary:
    """Words and their ids; 0 to 3 are <PAD>, <BOS>, <EOS>, <UNK>."""

    def __init__(self, sentences: list[list[str]], min_count: int = 1):
        # YOUR CODE HERE
        raise NotImplementedError()

    def encode(self, words: list[str]) -> list[int]:
        """Words -> ids."""
        # YOUR CODE HERE
        raise NotImplementedError()

    def decode(self, ids: list[int]) -> list[str]:
        """Ids -> words, without PAD, BOS and EOS."""
        # YOUR CODE HERE
        raise NotImplementedError()


def learn_merges(words: dict[str, int], merges: int) -> list[tuple[str, str]]:
    """The first pairs that byte-pair encoding merges, in order."""
    # YOUR CODE HERE
    raise NotImplementedError()


def plan(lengths: list[int], budget: int, seed: int) -> list[list[int]]:
    """Batches of sentence indices within a budget of padded positions, in seeded order."""
    # YOUR CODE HERE
    raise NotImplementedError()


choice_01 = "?"  # replace the question mark by a letter
