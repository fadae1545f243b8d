"""The loss of a batch, with a second pass (R-Drop) or without; sums do not depend on batching."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from nmtlib.data.batching import Batch, collate, make_example
from nmtlib.data.vocab import PAD
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.training.loss import distance_to_teacher, label_smoothed_loss
from nmtlib.training.measure import Sums, measure, measure_all, require_finite

CONFIG = TransformerConfig(
    15,
    15,
    d_model=16,
    n_heads=2,
    n_encoder_layers=1,
    n_decoder_layers=1,
    d_ff=32,
    dropout=0.0,
    norm="pre",
)
ROWS = [[4, 5, 6, 7, 8], [9, 10], [11, 12, 13], [4]]
EXAMPLES = [make_example(row, row[::-1]) for row in ROWS]


def make_model(dropout=0.0):
    torch.manual_seed(0)
    return Transformer(replace(CONFIG, dropout=dropout)).double().train()


def gradients(model, loss):
    return torch.autograd.grad(loss, list(model.parameters()))


def alike(first, second):
    return first.floats() == pytest.approx(second.floats(), abs=1e-10)


def test_the_sums_are_those_of_all_labels():
    model, batch = make_model(), collate(EXAMPLES)
    loss, sums = measure(model, batch, smoothing=0.2)
    logits = model(batch.source, batch.decoder_input)
    real = batch.labels != PAD
    assert sums.labels == real.sum() == sum(len(row) + 1 for row in ROWS)
    assert sums.correct == (logits.argmax(-1) == batch.labels)[real].sum()
    nll = F.cross_entropy(logits[real], batch.labels[real], reduction="sum")
    assert torch.allclose(sums.nll, nll)
    smoothed = label_smoothed_loss(logits, batch.labels, 0.2, reduction="sum")
    assert torch.allclose(loss, smoothed) and sums.loss == loss
    assert sums.loss_per_token == pytest.approx(float(smoothed.detach() / real.sum()))
    assert sums.perplexity == pytest.approx(float((nll.detach() / real.sum()).exp()))
    assert all(figure.dtype == torch.float64 and figure.dim() == 0 for figure in sums)


def test_without_r_drop_there_is_one_pass_and_nothing_else(monkeypatch):
    monkeypatch.setattr(
        "nmtlib.training.measure.disagreement", lambda *_: pytest.fail("a second pass")
    )
    model, batch, seen = make_model(0.3), collate(EXAMPLES), []
    model.register_forward_hook(lambda module, given, logits: seen.append(len(logits)))
    found = []
    for options in ({}, {"r_drop": 0.0}):
        torch.manual_seed(5)
        loss, sums = measure(model, batch, smoothing=0.1, **options)
        found.append([loss, *sums, *gradients(model, loss)])
    assert seen == [len(ROWS)] * 2 and all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_a_teacher_takes_its_share_of_the_loss_and_learns_nothing():
    model, teacher, batch = make_model(), make_model(0.3), collate(EXAMPLES)
    torch.nn.init.normal_(next(teacher.parameters()))
    torch.manual_seed(5)
    said = teacher(batch.source, batch.decoder_input)
    alone, sums = measure(model, batch, smoothing=0.2)
    torch.manual_seed(5)  # nothing is dropped in the model, so the teacher drops the same
    loss, taught_sums = measure(model, batch, smoothing=0.2, teacher=teacher, teacher_weight=0.3)
    distance = distance_to_teacher(model(batch.source, batch.decoder_input), said, batch.labels)
    assert torch.allclose(loss, 0.7 * alone + 0.3 * distance) and not torch.allclose(loss, alone)
    assert taught_sums.loss == loss and taught_sums[1:] == sums[1:]
    loss.backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_teacher_and_r_drop_go_together():
    model, teacher, batch = make_model(), make_model(), collate(EXAMPLES)
    torch.nn.init.normal_(next(teacher.parameters()))
    taught = {"smoothing": 0.1, "teacher": teacher, "teacher_weight": 0.3}
    loss, sums = measure(model, batch, r_drop=2.0, **taught)
    once, sums_once = measure(model, batch, **taught)  # no dropout: both passes are the same
    assert torch.allclose(loss, once) and alike(sums, sums_once)


def test_without_dropout_the_passes_agree_and_r_drop_changes_nothing():
    model, batch = make_model(), collate(EXAMPLES)
    once, sums = measure(model, batch, smoothing=0.1)
    twice, sums_twice = measure(model, batch, smoothing=0.1, r_drop=5.0)
    assert torch.allclose(once, twice, atol=1e-10) and alike(sums, sums_twice)
    for a, b in zip(gradients(model, once), gradients(model, twice), strict=True):
        assert torch.allclose(a, b, atol=1e-10)


def test_r_drop_is_half_the_loss_of_the_paper():
    model, batch, alpha = make_model(0.3), collate(EXAMPLES), 3.0
    torch.manual_seed(5)
    loss, sums = measure(model, batch, r_drop=alpha)
    torch.manual_seed(5)
    logits = model(torch.cat([batch.source] * 2), torch.cat([batch.decoder_input] * 2))
    real = batch.labels != PAD
    first, second = (half[real].log_softmax(-1) for half in logits.chunk(2))
    nll = -sum(
        half.gather(-1, batch.labels[real][:, None]).sum() for half in (first, second)
    )  # eq. 3
    kl = ((first.exp() - second.exp()) * (first - second)).sum() / 2  # eq. 2
    expected = (nll + alpha * kl) / 2  # half of eq. 4
    assert kl > 0.01 and torch.allclose(loss, expected, atol=1e-10)
    for a, b in zip(gradients(model, loss), gradients(model, expected), strict=True):
        assert torch.allclose(a, b, atol=1e-10)
    assert torch.allclose(sums.nll, nll / 2) and sums.labels == real.sum() and sums.loss == loss
    right = (logits.argmax(-1) == batch.labels.repeat(2, 1))[real.repeat(2, 1)]
    assert sums.correct == right.sum() / 2


def test_with_r_drop_too_the_sums_of_parts_are_those_of_the_whole(monkeypatch):
    # Dropout that depends on the sentence and the pass alone: each half of a batch loses other
    # features.
    def forward(model, source, target):
        first = torch.arange(len(source)) < len(source) // 2
        memory = model.encode(source) * torch.where(first, 1.0, 0.5)[:, None, None]
        return model.decode(target, memory, (source != PAD)[:, None, None])

    monkeypatch.setattr(Transformer, "forward", forward)
    model = make_model()
    whole, sums = measure(model, collate(EXAMPLES), smoothing=0.1, r_drop=2.0)
    parts = [
        measure(model, collate(EXAMPLES[i : i + 1]), smoothing=0.1, r_drop=2.0)
        for i in range(len(ROWS))
    ]
    assert torch.allclose(whole, sum(loss for loss, _ in parts), atol=1e-10)
    assert alike(sums, sum((found for _, found in parts), Sums()))
    assert not torch.allclose(whole, measure(model, collate(EXAMPLES), smoothing=0.1)[0])


def test_measuring_all_equals_one_large_batch_whatever_the_budget():
    model = make_model(0.3)
    expected = measure(model.eval(), Batch(*vars(collate(EXAMPLES)).values()))[1]
    for budget in (1, 7, 1000):
        assert alike(measure_all(model.train(), EXAMPLES, max_tokens=budget), expected)
        assert model.training


def test_a_model_is_measured_on_nothing_without_an_error():
    assert measure_all(make_model(), []) == Sums(0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("nll", [float("nan"), float("inf"), 800.0])
def test_a_loss_that_is_no_number_or_whose_perplexity_is_none_is_refused(nll):
    require_finite(make_model(), Sums(9.0, 9.0, 0.0, 1.0), when="update 3")
    with pytest.raises(FloatingPointError, match="by update 3; train again with a lower"):
        require_finite(make_model(), Sums(1.0, nll, 0.0, 1.0), when="update 3")


def test_a_weight_that_is_no_number_is_refused_before_a_loss_shows_it():
    model = make_model()
    with torch.no_grad():
        model.output.bias[3] = float("inf")
    with pytest.raises(FloatingPointError, match="lower learning_rate"):
        require_finite(model, Sums(1.0, 1.0, 0.0, 1.0), when="update 3")
