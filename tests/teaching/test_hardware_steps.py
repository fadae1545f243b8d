"""The model, batches and formulas of notebook 12."""

import pytest
import torch

from nmtcourse.teaching import hardware_steps as steps
from nmtcourse.teaching import load_toy
from nmtcourse.teaching.hardware_lab import ledger
from nmtlib.training.loss import losses


def test_a_new_model_is_always_the_same_and_has_its_moments():
    (one, optimizer), (other, _) = steps.new_model(), steps.new_model(checkpointing=True)
    for p, q in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q) and p.grad is None
        assert optimizer.state[p]["exp_avg"].shape == p.shape
    assert other.checkpoint_activations and not one.checkpoint_activations


@pytest.mark.slow
def test_operations_of_an_epoch_are_those_that_torch_counts():
    batches = [steps.random_batch(2, 5), steps.random_batch(1, 9)]
    for checkpointing in (False, True):
        model, _ = steps.new_model(checkpointing=checkpointing)

        def epoch(model=model):
            for b in batches:
                losses(model(b.source, b.decoder_input), b.labels, 0.1)[0].backward()

        assert steps.epoch_flops(batches, checkpointing) == ledger(epoch).flops


def test_two_steps_give_back_the_constants_that_made_them():
    counts = {1: (500, 10**8), 4: (510, 10**9), 64: (560, 10**10)}
    seconds = {n: 5e-5 * started + 2e-11 * flops for n, (started, flops) in counts.items()}
    assert steps.two_constants(counts, seconds) == pytest.approx((5e-5, 2e-11))
    assert min(steps.two_constants(counts, {1: 1e-9, 64: 1.0})) == 0  # a noisy clock


def test_decoding_with_and_without_a_cache_gives_the_same_words():
    translator = load_toy("de-en")
    source = torch.tensor([translator.source.encode("ein Hund")])
    ways = [steps.decode(translator.model, source, cached, words=4) for cached in (True, False)]
    assert torch.equal(*ways) and ways[0].shape == (1, 5)
