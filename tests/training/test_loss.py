"""The loss equals torch's where both are defined, and PAD has no part in it."""

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
    measure_all,
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


def test_a_loss_or_a_weight_that_is_no_number_is_refused():
    model = make_model()
    require_finite(model, Totals(9.0, 9.0, 0.0, 1.0), when="update 3")
    for nll in (float("nan"), float("inf"), 800.0):  # the last overflows as a perplexity
        with pytest.raises(FloatingPointError, match="by update 3; train again with a lower"):
            require_finite(model, Totals(1.0, nll, 0.0, 1.0), when="update 3")
    with torch.no_grad():
        model.output.bias[3] = float("inf")
    with pytest.raises(FloatingPointError, match="lower learning_rate"):
        require_finite(model, Totals(1.0, 1.0, 0.0, 1.0), when="update 3")
