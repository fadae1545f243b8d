"""The model, batches and formulas of notebook 12."""

import pytest
import torch

from nmtcourse.teaching import hardware_steps as steps
from nmtcourse.teaching import load_toy
from nmtcourse.teaching.cost import training_flops, training_memory
from nmtcourse.teaching.hardware_lab import ledger
from nmtlib.data.batching import Batch, padding_waste
from nmtlib.model.layers import FeedForward
from nmtlib.specials import PAD
from nmtlib.training.loss import losses


def test_a_new_model_is_always_the_same_and_has_its_moments():
    (one, optimizer), (other, _) = steps.new_model(), steps.new_model(checkpointing=True)
    for p, q in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q) and p.grad is None
        assert optimizer.state[p]["exp_avg"].shape == p.shape
    assert other.checkpoint_activations and not one.checkpoint_activations


def test_random_batches_hold_no_padding_and_repeat():
    batch = steps.random_batch(3, 5)
    assert steps.shape_of(batch) == (3, 5, 5) and steps.positions(batch) == 2 * 15
    assert padding_waste([batch]) == 0 and torch.equal(
        batch.target, steps.random_batch(3, 5).target
    )


def test_padding_adds_nothing_but_padding():
    batch = steps.random_batch(2, 4)
    wide = steps.pad_to(batch, 9)
    assert steps.shape_of(wide) == (2, 9, 8)
    assert torch.equal(wide.source[:, :4], batch.source) and (wide.source[:, 4:] == PAD).all()
    assert torch.equal(wide.target[:, :5], batch.target) and (wide.target[:, 5:] == PAD).all()


def test_the_memory_of_a_batch_is_that_of_its_sizes():
    batch = Batch(torch.ones(2, 7, dtype=torch.long), torch.ones(2, 6, dtype=torch.long))
    expected = training_memory(steps.CONFIG, 2, 7, 5, precision=torch.bfloat16, checkpointing=True)
    assert steps.memory_by_formula(batch, torch.bfloat16, True) == expected


@pytest.mark.parametrize("checkpointing", [False, True])
def test_operations_of_an_epoch_are_those_that_torch_counts(checkpointing):
    batches = [steps.random_batch(2, 5), steps.random_batch(1, 9)]
    model, _ = steps.new_model(checkpointing=checkpointing)

    def epoch():
        for b in batches:
            losses(model(b.source, b.decoder_input), b.labels, 0.1)[0].backward()

    assert steps.epoch_flops(batches, checkpointing) == ledger(epoch).flops


def test_two_steps_give_back_the_constants_that_made_them():
    counts = {1: (500, 10**8), 4: (510, 10**9), 64: (560, 10**10)}
    seconds = {n: 5e-5 * started + 2e-11 * flops for n, (started, flops) in counts.items()}
    assert steps.two_constants(counts, seconds) == pytest.approx((5e-5, 2e-11))
    assert min(steps.two_constants(counts, {1: 1e-9, 64: 1.0})) == 0  # a noisy clock


def test_a_device_waits_for_starts_or_for_arithmetic():
    known = {"started": 1000, "rate": 1e12, "launch": 1e-5}
    small, large = (steps.calculated_seconds(steps.CONFIG, n, **known) for n in (64, 2**20))
    assert small == 1e-2
    assert large == training_flops(steps.CONFIG, 2**15, 32, 32) / 1e12 > small
    assert steps.knee([64, 128, 256], [1.0, 1.0, 1.5]) == 256
    assert steps.knee([64, 128], [1.0, 1.0]) is None


def test_only_a_product_of_many_positions_computes_much_with_each_byte():
    runs = steps.roofline_runs(values=2**16)
    assert max(runs, key=lambda name: runs[name].intensity) == "linear map, 1,024 positions"
    assert all(run.intensity <= 1 for name, run in runs.items() if "1,024" not in name)
    for name, run in runs.items():
        book = ledger(run.work)
        assert book.started >= 1
        if "linear" in name:
            assert book.flops == run.flops


def test_a_feed_forward_block_keeps_its_input_and_its_hidden_vectors():
    kept = steps.kept_for_backward(FeedForward(4, 16), torch.randn(2, 3, 4))
    assert sum(size for _, size in kept) == 4 * 2 * 3 * (4 + 16)


def test_decoding_with_and_without_a_cache_gives_the_same_words():
    translator = load_toy("de-en")
    source = torch.tensor([translator.source.encode("ein Hund")])
    ways = [steps.decode(translator.model, source, cached, words=4) for cached in (True, False)]
    assert torch.equal(*ways) and ways[0].shape == (1, 5)


def test_loading_word_by_word_searches_a_list_for_each_word():
    translator = load_toy("de-en")
    word, other = translator.source.vocab.tokens[5], translator.target.vocab.tokens[5]
    texts = [(f"{word} {word}", other)]
    assert ledger(lambda: steps.load_word_by_word(texts, translator)).searches == 3


def test_the_sweep_measures_what_it_draws():
    panels = steps.sweep(lambda batches, config: len(batches[0].source) * steps.MIB)
    assert [panel["measured"][1] for panel in panels.values()] == [
        [16] * 4,
        [4, 16, 32, 64],
        [16] * 4,
    ]
    assert all(min(panel["formula"][1]) > min(panel["floor"][1]) for panel in panels.values())


def test_the_knee_of_a_model_moves_with_its_launches():
    few, many = (steps.knee_of(steps.CONFIG, n, rate=1e12, launch=1e-5) for n in (100, 1000))
    assert few < many and steps.knee_of(steps.CONFIG, 100, rate=1e18, launch=1) is None
