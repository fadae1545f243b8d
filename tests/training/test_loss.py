"""The loss equals torch's where both are defined, and PAD has no part in it."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from nmtlib.data.batching import Batch, collate, make_example
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.specials import PAD
from nmtlib.training.loss import (
    Totals,
    compute_loss,
    label_smoothed_loss,
    losses,
    measure_all,
    perplexity,
    require_finite,
)

LAYERS = {"n_encoder_layers": 1, "n_decoder_layers": 1}
CONFIG = TransformerConfig(15, 15, d_model=16, n_heads=2, d_ff=32, dropout=0.0, **LAYERS)
ROWS = [[4, 5, 6, 7, 8], [9, 10], [11, 12, 13], [4]]
EXAMPLES = [make_example(row, row[::-1]) for row in ROWS]


def batch(seed=0, rows=4, length=5, vocab=11):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(
        rows, length, vocab, generator=generator, dtype=torch.float64, requires_grad=True
    )
    labels = torch.randint(1, vocab, (rows, length), generator=generator)
    labels[1, 3:] = PAD
    labels[3, 1:] = PAD
    return logits, labels


def reference(logits, labels, smoothing):
    """F.cross_entropy against the smoothed distribution, written as a table of probabilities."""
    words = logits.size(-1) - 1
    target = torch.full_like(logits, smoothing / words)
    target[..., PAD] = 0
    target.scatter_add_(-1, labels[..., None], torch.full_like(logits[..., :1], 1 - smoothing))
    real = labels != PAD
    return F.cross_entropy(logits[real], target[real], reduction="mean")


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_equals_cross_entropy_with_a_smoothed_target_in_value_and_gradient(smoothing):
    logits, labels = batch()
    ours = label_smoothed_loss(logits, labels, smoothing)
    (gradient,) = torch.autograd.grad(ours, logits)
    theirs = reference(logits, labels, smoothing)
    (expected,) = torch.autograd.grad(theirs, logits)
    assert torch.allclose(ours, theirs, atol=1e-12)
    assert torch.allclose(gradient, expected, atol=1e-12)


def test_without_smoothing_equals_cross_entropy_with_ignore_index():
    logits, labels = batch()
    theirs = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)
    assert torch.allclose(label_smoothed_loss(logits, labels, 0.0), theirs, atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradient_agrees_with_finite_differences(smoothing):
    logits, labels = batch(vocab=6)
    assert torch.autograd.gradcheck(lambda x: label_smoothed_loss(x, labels, smoothing), logits)


def test_pad_positions_get_no_gradient_and_do_not_change_the_loss():
    logits, labels = batch()
    (gradient,) = torch.autograd.grad(label_smoothed_loss(logits, labels), logits)
    assert (gradient[labels == PAD] == 0).all() and (gradient[labels != PAD] != 0).any()
    changed = logits.detach().clone()
    changed[labels == PAD] = 1e3
    assert label_smoothed_loss(changed, labels) == label_smoothed_loss(logits, labels)


def test_smoothing_gives_pad_no_mass_so_an_impossible_pad_costs_nothing():
    logits, labels = batch()
    impossible = logits.detach().clone()
    impossible[..., PAD] = -1e9
    assert label_smoothed_loss(impossible, labels, 0.1) < 1e3


def test_sum_adds_up_over_any_split_into_batches():
    logits, labels = batch()
    whole = label_smoothed_loss(logits, labels, reduction="sum")
    parts = sum(
        label_smoothed_loss(logits[i : i + 1], labels[i : i + 1], reduction="sum") for i in range(4)
    )
    assert torch.allclose(whole, parts, atol=1e-12)


def test_nll_is_not_smoothed_and_perplexity_is_its_exponential():
    logits, labels = batch()
    _, nll, _ = losses(logits, labels, 0.3)
    real = labels != PAD
    assert torch.allclose(
        nll, F.cross_entropy(logits[real], labels[real], reduction="sum"), atol=1e-12
    )
    assert perplexity(math.log(7) * 3, 3) == pytest.approx(7)


def test_correct_labels_are_counted_without_pad():
    logits = torch.eye(4)[[1, 2, PAD, 3]]  # says 1, 2, PAD, 3
    assert losses(logits, torch.tensor([1, 3, PAD, 3]), 0.1)[2] == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_are_summed_in_float32(dtype):
    logits, labels = batch(rows=4, length=5, vocab=1000)
    half = logits.detach().to(dtype)
    assert torch.allclose(
        label_smoothed_loss(half, labels).double(), reference(half.double(), labels, 0.1), atol=1e-5
    )


def test_impossible_options_are_refused():
    for name, value in (("label_smoothing", 1.0), ("label_smoothing", -0.1), ("reduction", "none")):
        with pytest.raises(ValueError, match=name):
            label_smoothed_loss(*batch(), **{name: value})


def test_shapes_and_a_mean_over_nothing_are_refused():
    logits, labels = batch()
    with pytest.raises(ValueError, match="do not match"):
        label_smoothed_loss(logits, labels[:, :-1])
    with pytest.raises(ValueError, match="every label is PAD"):
        label_smoothed_loss(logits, torch.full_like(labels, PAD))


def make_model(dropout=0.0):
    torch.manual_seed(0)
    return Transformer(replace(CONFIG, dropout=dropout)).double().train()


def alike(first, second):
    return first.floats() == pytest.approx(second.floats(), abs=1e-10)


def test_the_totals_are_those_of_all_labels():
    model, batch = make_model(), collate(EXAMPLES)
    loss, totals = compute_loss(model, batch, label_smoothing=0.2)
    logits = model(batch.source, batch.decoder_input)
    real = batch.labels != PAD
    assert totals.labels == real.sum() == sum(len(row) + 1 for row in ROWS)
    assert totals.correct == (logits.argmax(-1) == batch.labels)[real].sum()
    nll = F.cross_entropy(logits[real], batch.labels[real], reduction="sum")
    assert torch.allclose(totals.nll, nll)
    smoothed = label_smoothed_loss(logits, batch.labels, 0.2, reduction="sum")
    assert torch.allclose(loss, smoothed) and totals.loss == loss
    assert totals.loss_per_token == pytest.approx(float(smoothed.detach() / real.sum()))
    assert totals.perplexity == pytest.approx(float((nll.detach() / real.sum()).exp()))
    assert all(figure.dtype == torch.float64 and figure.dim() == 0 for figure in totals)


def test_measuring_all_equals_one_large_batch_whatever_the_budget():
    model = make_model(0.3)
    expected = compute_loss(model.eval(), Batch(*vars(collate(EXAMPLES)).values()))[1]
    for budget in (1, 7, 1000):
        assert alike(measure_all(model.train(), EXAMPLES, max_tokens=budget), expected)
        assert model.training


def test_a_model_is_measured_on_nothing_without_an_error():
    assert measure_all(make_model(), []) == Totals(0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("nll", [float("nan"), float("inf"), 800.0])
def test_a_loss_that_is_no_number_or_whose_perplexity_is_none_is_refused(nll):
    require_finite(make_model(), Totals(9.0, 9.0, 0.0, 1.0), when="update 3")
    with pytest.raises(FloatingPointError, match="by update 3; train again with a lower"):
        require_finite(make_model(), Totals(1.0, nll, 0.0, 1.0), when="update 3")


def test_a_weight_that_is_no_number_is_refused_before_a_loss_shows_it():
    model = make_model()
    with torch.no_grad():
        model.output.bias[3] = float("inf")
    with pytest.raises(FloatingPointError, match="lower learning_rate"):
        require_finite(model, Totals(1.0, 1.0, 0.0, 1.0), when="update 3")
