"""The task for heads: a head finds one word, and nothing is found where nothing is fetched."""

import torch
from torch import nn

from nmtcourse.teaching.reading import learn_to_read
from nmtlib.model import MultiHeadAttention


class Nothing(nn.Module):
    def forward(self, query, key, value):
        return torch.zeros_like(query)


def test_one_head_finds_the_word_before():
    history = learn_to_read(lambda d_model: MultiHeadAttention(d_model, 1), [-1])
    assert len(history) == 15 and history[0] < 0.3 and history[-1] > 0.99


def test_without_attention_no_word_is_found():
    assert learn_to_read(lambda d_model: Nothing(), [1], steps=100)[-1] < 0.1
