"""The small trainings of notebooks 03 and 07 repeat, and measure what they say."""

import pytest
import torch

from nmtcourse.teaching import load_toy, small
from nmtlib import load_corpus
from nmtlib.data import PAD, collate


@pytest.fixture(scope="module")
def translator():
    return load_toy("de-en")


@pytest.fixture(scope="module")
def examples(translator):
    pairs = load_corpus("toy-de-en").train[:40]
    return [translator.example(pair.source, pair.target) for pair in pairs]


def trained(translator, examples, seed):
    model = small.new_model(translator, seed=seed, d_model=16, d_ff=16)
    return small.train(model, examples, rate=3e-3, updates=12, max_tokens=128, seed=seed), model


def test_a_training_repeats_bit_for_bit_and_learns(translator, examples):
    (one, model), (again, _) = (trained(translator, examples, 1) for _ in range(2))
    assert one == again and one != trained(translator, examples, 2)[0]
    assert one[-1] < one[0] and not model.training


def test_the_loss_is_the_mean_over_target_tokens(translator, examples):
    model, batch = small.new_model(translator, d_model=16, d_ff=16), collate(examples[:5])
    logits = model(batch.source, batch.decoder_input)
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD
    )
    assert torch.isclose(small.loss_of(model, batch), expected)
