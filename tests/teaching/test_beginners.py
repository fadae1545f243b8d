"""Beginners learn, epoch by epoch, each time the same, and touch nothing else."""

import pytest
import torch

from nmtcourse.teaching.beginners import early_models
from nmtcourse.teaching.course import load_toy
from nmtlib.data import PAD, collate
from nmtlib.data.corpora import load
from nmtlib.inference.search import greedy_search
from nmtlib.training.loss import losses


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


def test_they_learn_from_epoch_to_epoch(models, examples):
    batch = collate(examples[:100])
    with torch.no_grad():
        logits = [model(batch.source, batch.decoder_input) for model in models]
    nll = [float(losses(scores, batch.labels, 0.0)[1]) for scores in logits]
    assert nll == sorted(nll, reverse=True)
    assert nll[-1] / int(batch.labels.ne(PAD).sum()) < 5


def test_a_copy_is_not_changed_by_the_epochs_after_it(models, translator, examples):
    (first,) = early_models(translator, examples, 1, seed=0)
    for one, other in zip(first.parameters(), models[0].parameters(), strict=True):
        assert torch.equal(one, other)
    assert not any(model.training for model in models)


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


def test_no_epoch_is_refused(translator, examples):
    with pytest.raises(ValueError, match="epochs must be 1 or more"):
        early_models(translator, examples, 0, seed=0)
