"""Positions are what is added to the embeddings: a table, or waves made in each pass."""

import pytest
import torch
from torch import nn

from nmtcheck import Adapter, run_checks
from nmtcheck.checks.positions import OFF, made_of_waves, rotates


def exponents(column, size):
    return -2 * (column // 2) / size


def waves(count, size, exponent=exponents, base=1e4, first=0):
    column, place = torch.arange(size).double(), torch.arange(first, first + count).double()
    angle = place[:, None] * base ** exponent(column, size)
    return torch.where(column % 2 == 0, angle.sin(), angle.cos())


def halves(count, size):
    table = waves(count, size)
    return torch.cat([table[:, ::2], table[:, 1::2]], 1)


SOUND = {
    "interleaved": waves,
    "halves": halves,
    "from two on": lambda count, size: waves(count, size, first=2),
    "base 100": lambda count, size: waves(count, size, base=100.0),
}


@pytest.mark.parametrize("size", [16, 64, 512])
@pytest.mark.parametrize("kind", SOUND)
def test_usual_waves_rotate(kind, size):
    table = SOUND[kind](36, size)
    assert made_of_waves(table) and rotates(table.float()) < OFF


@pytest.mark.parametrize("size", [16, 64, 512])
def test_a_sine_without_its_cosine_does_not(size):
    assert rotates(waves(36, size, lambda column, size: -2 * column / size)) > 0.1
    assert rotates(waves(36, size)[:, ::2]) > 0.1
    assert not made_of_waves(torch.randn(36, size).double()), "other tables are not judged"


class Model(nn.Module):
    """A model without attention that adds waves in each pass, whether stored or not."""

    def __init__(self, sizes, exponent, learned=False):
        super().__init__()
        self.words, self.out = nn.Embedding(13, sizes.d_model), nn.Linear(sizes.d_model, 13)
        self.exponent, self.size = exponent, sizes.d_model
        self.places = nn.Embedding(50, sizes.d_model) if learned else None

    def embed(self, ids):
        if self.places is not None:
            return self.words(ids) * 4 + self.places(torch.arange(ids.size(1)))
        return self.words(ids) * 4 + waves(ids.size(1), self.size, self.exponent).float()

    def forward(self, source, target):
        return self.out(self.embed(target) + self.embed(source).mean(1, keepdim=True))


@pytest.mark.parametrize(
    ("exponent", "said"),
    [
        (exponents, ""),
        (lambda column, size: -2 * column / size, "no linear map takes each position p to p + 7"),
        (lambda column, size: -(column // 2), "columns of the positions differ along a sentence"),
        (lambda column, size: 0 * column - 0.25, "have one speed"),
    ],
)
def test_waves_that_no_module_stores_are_judged(exponent, said):
    adapter = Adapter(make_model=lambda s: Model(s, exponent), pad=0, bos=1, eos=2)
    (result,) = run_checks(adapter, only="positions.table").results
    assert result.verdict == ("failed" if said else "passed"), result.measured
    assert said in result.measured


def test_learned_positions_are_not():
    adapter = Adapter(make_model=lambda s: Model(s, exponents, True), pad=0, bos=1, eos=2)
    (result,) = run_checks(adapter, only="positions.table").results
    assert result.verdict == "skipped" and "no fixed positions" in result.measured
