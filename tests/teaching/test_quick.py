"""A quick model is the same for the same seed, learns, and leaves the reader's random numbers."""

import pytest
import torch

from nmtcourse.teaching.quick import quick_toy
from nmtlib.data import corpora
from nmtlib.training import measure_all


@pytest.mark.slow
def test_it_learns_and_repeats():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again, other, longer = (
        quick_toy(seed=seed, updates=updates) for seed, updates in ((0, 2), (0, 2), (1, 2), (0, 60))
    )
    assert torch.equal(before, torch.random.get_rng_state()), "the reader's random numbers changed"
    weights = [dict(q.model.named_parameters()) for q in (first, again, other)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not all(torch.equal(weights[0][name], weights[2][name]) for name in weights[0])
    assert not longer.model.training
    pairs = corpora.load("toy-de-en").validation[:100]
    examples = [longer.example(pair.source, pair.target) for pair in pairs]
    losses = [measure_all(q.model, examples).nll_per_token for q in (first, longer)]
    assert losses[1] < losses[0] - 1
