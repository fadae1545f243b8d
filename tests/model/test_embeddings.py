"""Embeddings are scaled; positions are distinct, added once, and a shift is a rotation."""

import math

import pytest
import torch
from torch.nn import functional as F

from nmtlib.model.embeddings import Positions, TokenEmbedding, sinusoidal_table


def test_lookup_is_one_hot_times_matrix_times_root_of_the_size():
    embedding = TokenEmbedding(7, 16)
    ids = torch.tensor([[3, 5, 0]])
    expected = F.one_hot(ids, 7).float() @ embedding.weight * math.sqrt(16)
    assert torch.allclose(embedding(ids), expected)


def test_the_pad_row_gets_no_gradient():
    embedding = TokenEmbedding(7, 4)
    embedding(torch.tensor([[3, 0, 0]])).sum().backward()
    assert not embedding.weight.grad[0].any() and embedding.weight.grad[3].any()


def test_an_id_outside_the_table_is_refused():
    for bad in (-1, 7):
        with pytest.raises(ValueError, match="this embedding has 7 rows"):
            TokenEmbedding(7, 4)(torch.tensor([[3, bad]]))


def test_every_value_follows_the_formula_of_the_paper():
    table = sinusoidal_table(50, 12)
    for position in (0, 1, 17, 49):
        for i in range(6):
            angle = position / 10000 ** (2 * i / 12)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_positions_are_added_once_and_can_start_later(kind):
    torch.manual_seed(0)
    positions = Positions(8, 10, kind)
    if kind == "learned":
        torch.nn.init.normal_(positions.table)
    x = torch.randn(2, 6, 8)
    assert torch.allclose(positions(x) - x, positions.table[:6].expand(2, 6, 8), atol=1e-6)
    assert torch.allclose(positions(x)[:, 4:], positions(x[:, 4:], start=4))


def test_the_fixed_table_follows_the_dtype_and_is_neither_trained_nor_saved():
    positions = Positions(8, 10).to(torch.float64)
    assert positions.table.dtype == torch.float64
    assert not list(positions.parameters()) and not positions.state_dict()


def test_impossible_positions_are_refused():
    with pytest.raises(ValueError, match="must be even, not 7"):
        sinusoidal_table(5, 7)
    with pytest.raises(ValueError, match="'sinusoidal' or 'learned'"):
        Positions(8, 10, "rotary")
    with pytest.raises(
        ValueError, match="a sentence of 11 tokens is longer than the position table of 10"
    ):
        Positions(8, 10)(torch.zeros(1, 2, 8), start=9)
