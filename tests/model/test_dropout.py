"""Dropout with cheap random numbers has the same law as torch's."""

import pytest
import torch

from nmtlib.model.embeddings import Dropout, dropout
from nmtlib.model.layers import Residual


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_the_share_of_zeros_and_the_mean_are_right(p):
    torch.manual_seed(0)
    out = dropout(torch.ones(400, 1003), p)
    assert abs((out == 0).float().mean() - p) < 0.004
    assert abs(out.mean() - 1) < 0.004
    assert len(out.unique()) == 2


def test_neighbours_are_dropped_independently():
    torch.manual_seed(0)
    kept = (dropout(torch.ones(100_000), 0.5) > 0).double()
    for lag in range(1, 17):  # eight values come from one random number
        assert abs(torch.corrcoef(torch.stack([kept[:-lag], kept[lag:]]))[0, 1]) < 0.02


def test_the_same_seed_gives_the_same_mask_and_the_gradient_passes_only_what_was_kept():
    x = torch.ones(7, 9, requires_grad=True)
    torch.manual_seed(3)
    out = dropout(x, 0.4)
    torch.manual_seed(3)
    assert torch.equal(out, dropout(x, 0.4))
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())


def test_nothing_happens_in_evaluation_or_with_probability_zero():
    x = torch.randn(5, 5)
    assert Dropout(0.5).eval()(x) is x and dropout(x, 0.0) is x
    assert Dropout(0.5).train()(torch.ones(1000)).eq(0).any()


def test_dropout_acts_on_the_sublayer_and_never_on_the_residual():
    x = torch.ones(50, 8)
    out = Residual(8, 0.5, "pre").train()(x, torch.ones_like)
    assert set(out.unique().tolist()) == {1.0, 3.0}
