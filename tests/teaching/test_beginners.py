"""Beginners learn, epoch by epoch, each time the same, and touch nothing else."""

import pytest
import torch

from nmtcourse.teaching.beginners import early_models
from nmtcourse.teaching.course import load_toy
from nmtlib.data.corpora import load
from nmtlib.inference.search import greedy_search


@pytest.fixture(scope="module")
def translator():
    return load_toy("de-en")


@pytest.fixture(scope="module")
def examples(translator):
    pairs = load("toy-de-en").train[:600]
    return [translator.example(pair.source, pair.target) for pair in pairs]


@pytest.fixture(scope="module")
def models(translator, examples):
    return early_models(translator, examples, 3, seed=0)


def test_the_seed_decides_and_the_random_state_stays(translator, examples):
    torch.manual_seed(5)
    state = torch.get_rng_state()
    (other,) = early_models(translator, examples[:100], 1, seed=1)
    (same,) = early_models(translator, examples[:100], 1, seed=1)
    (third,) = early_models(translator, examples[:100], 1, seed=2)
    assert torch.equal(torch.get_rng_state(), state)
    weights = [model.output.weight for model in (other, same, third)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_the_shipped_model_is_left_alone(translator, models):
    assert sum(p.numel() for p in models[0].parameters()) < 300_000
    assert translator.model.config.d_model == 128
    batch = torch.tensor([[8, 35, 2]])
    assert greedy_search(models[0], batch) != []
