"""The losses of the recipes equal their formulas, and PAD has no part in them."""

import pytest
import torch
from torch.nn import functional as F

from nmtcourse.recipes.losses import disagreement, distance_to_teacher
from nmtlib.specials import PAD


def batch(seed=0, rows=4, length=5, vocab=11):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(
        rows, length, vocab, generator=generator, dtype=torch.float64, requires_grad=True
    )
    labels = torch.randint(1, vocab, (rows, length), generator=generator)
    labels[1, 3:] = PAD
    labels[3, 1:] = PAD
    return logits, labels


def straightforward_disagreement(first, second, labels):
    """Half of both KL divergences, by torch and its autograd."""
    logp, logq = (logits[labels != PAD].log_softmax(-1) for logits in (first, second))
    how = {"reduction": "sum", "log_target": True}
    return (F.kl_div(logp, logq, **how) + F.kl_div(logq, logp, **how)) / 2


def test_disagreement_equals_the_formula_in_value_and_gradients():
    (first, labels), (second, _) = batch(0), batch(1)
    both = disagreement, straightforward_disagreement
    ours, theirs = (compute(first, second, labels) for compute in both)
    assert ours > 0 and torch.allclose(ours, theirs, atol=1e-12)
    slopes = [torch.autograd.grad(3 * value, (first, second)) for value in (ours, theirs)]
    for found, expected in zip(*slopes, strict=True):
        assert torch.allclose(found, expected, atol=1e-12)


def test_the_distance_to_a_teacher_equals_the_formula_in_value_and_gradient():
    (student, labels), (teacher, _) = batch(0), batch(1)
    ours, real = distance_to_teacher(student, teacher, labels), labels != PAD
    q, logp = teacher[real].softmax(-1), student[real].log_softmax(-1)
    assert torch.allclose(ours, -(q * logp).sum(), atol=1e-12)
    gradient, nothing = torch.autograd.grad(ours, (student, teacher), allow_unused=True)
    difference = (student.softmax(-1) - teacher.softmax(-1)) * real[..., None]
    assert torch.allclose(gradient, difference, atol=1e-12) and nothing is None


def test_the_distance_to_a_teacher_is_counted_in_float32_at_least():
    (student, labels), (teacher, _) = batch(0), batch(1)
    rough = distance_to_teacher(student.bfloat16(), teacher.bfloat16(), labels)
    assert rough.dtype == torch.float32
    fine = distance_to_teacher(student.bfloat16().double(), teacher.bfloat16().double(), labels)
    assert torch.allclose(rough.double(), fine, rtol=1e-5)


@pytest.mark.parametrize("loss", [disagreement, distance_to_teacher])
def test_other_shapes_are_refused(loss):
    logits, labels = batch()
    for arguments in ((logits, logits[:, :-1], labels), (logits, logits, labels[:, :-1])):
        with pytest.raises(ValueError, match="do not match"):
            loss(*arguments)
