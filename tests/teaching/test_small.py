"""The small trainings of notebooks 03 and 07 repeat, and measure what they say."""

import pytest
import torch

from nmtcourse.teaching import load_toy, places, small
from nmtlib import load_corpus
from nmtlib.data import PAD, collate
from nmtlib.model import sinusoidal_table


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


def test_shapes_come_in_the_order_of_the_run_and_leave_no_hook(translator, examples):
    model, batch = small.new_model(translator, d_model=16), collate(examples[:2])
    found = small.shapes(model, ["output", "encoder.0"], batch.source, batch.decoder_input)
    assert list(found) == ["encoder.0", "output"]
    assert found["encoder.0"] == (*batch.source.shape, 16)
    assert not any(module._forward_hooks for module in model.modules())


def test_accuracy_is_that_of_the_model_and_moves_with_the_source(translator, examples):
    batch, model = collate(examples), translator.model
    with torch.no_grad():
        said = model(batch.source, batch.decoder_input).argmax(dim=-1)
    real = batch.labels != PAD
    expected = (said == batch.labels)[real].float().mean()
    assert places.accuracy(model, batch) == pytest.approx(float(expected))
    assert places.accuracy(model, batch, start=20) < places.accuracy(model, batch)


def test_the_word_before_can_be_learned_with_places_and_repeats():
    table = sinusoidal_table(6, 32)
    one, again = (places.learn_word_before(table, seed=3, updates=120) for _ in range(2))
    assert one == again and one[-1] > 0.9
    without = places.learn_word_before(torch.zeros(6, 32), seed=3, updates=120)
    assert without[-1] < 0.5
