"""Losses of the recipes: R-Drop and word-level distillation, written by hand.

Value and gradient are computed together, some rows at a time: autograd would find the same, but
through several tables of the size of the logits, which are the largest tensors of a training step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nmtlib.specials import PAD

ROWS_AT_ONCE = 256  # positions whose probabilities a CPU holds at a time: they stay in its cache
NUMBERS_AT_ONCE = 2**27  # probabilities that a GPU holds at a time: it waits for kernel launches


def rows_at_once(device: str, vocab_size: int) -> int:
    """How many positions a loss processes at a time on a device, 'cpu' or another."""
    return ROWS_AT_ONCE if device == "cpu" else max(ROWS_AT_ONCE, NUMBERS_AT_ONCE // vocab_size)


def _blocks(logits: Tensor) -> list[slice]:
    """The rows of logits (N, V) in turns."""
    size = rows_at_once(logits.device.type, logits.size(-1))
    return [slice(first, first + size) for first in range(0, len(logits), size)]


def losses_in_blocks(
    logits: Tensor, labels: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The same three sums as `nmtlib.training.loss.losses`."""
    return _SmoothedCrossEntropy.apply(logits.flatten(0, -2), labels.flatten(), label_smoothing)


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Cross-entropy of the prediction p against the smoothed target q, whose gradient is p - q."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, ...]:
        dtype = torch.promote_types(logits.dtype, torch.float32)
        real = labels != PAD  # (N,)
        even = smoothing / (logits.size(-1) - 1)  # what q gives to each class but PAD
        gradient = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        loss, nll = torch.zeros(2, dtype=dtype, device=logits.device).unbind()
        correct = torch.zeros((), dtype=torch.long, device=logits.device)
        for rows in _blocks(logits):
            logp = logits[rows].log_softmax(dim=-1, dtype=dtype)  # (rows, V)
            label, pad = labels[rows, None], ~real[rows]  # (rows, 1) and (rows,)
            # PAD is set to 0, not indexed away: a GPU would wait to count what is left.
            nll = nll - logp.gather(-1, label)[:, 0].masked_fill(pad, 0).sum()
            correct = correct + (logp.argmax(dim=-1) == labels[rows]).masked_fill(pad, 0).sum()
            if smoothing:
                loss = loss + even * (logp[:, PAD] - logp.sum(dim=-1)).masked_fill(pad, 0).sum()
            if gradient is not None:
                difference = logp.exp_().sub_(even)  # p - q, but for PAD and the label
                difference[:, PAD] += even
                difference.scatter_add_(-1, label, difference.new_full(label.shape, smoothing - 1))
                gradient[rows] = difference.mul_(real[rows, None])
        ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(nll, correct)
        return loss + (1 - smoothing) * nll, nll, correct

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor, None, None]:
        (difference,) = ctx.saved_tensors
        return difference * gradient.to(difference.dtype), None, None


def disagreement(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    """How far apart two predictions are: the mean of their KL divergences in both directions.

    Liang et al. 2021 (R-Drop), eq. 2.  Logits (..., V) twice, labels (...) -> the sum over non-PAD
    labels, in nats.  Raises ValueError for shapes that do not match.
    """
    _require_alike(first, second, labels)
    real = (labels != PAD).flatten()
    return _SymmetricDivergence.apply(first.flatten(0, -2), second.flatten(0, -2), real)


class _SymmetricDivergence(torch.autograd.Function):
    """½ KL(p‖q) + ½ KL(q‖p), made together with its gradients, some rows at a time.

    The gradient for the logits of p is ½ [p (ln p - ln q - KL(p‖q)) + p - q].
    """

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, real: Tensor) -> Tensor:
        dtype = torch.promote_types(first.dtype, torch.float32)
        total = torch.zeros((), dtype=dtype, device=first.device)
        learns = any(ctx.needs_input_grad)
        gradients = [torch.empty_like(first), torch.empty_like(second)] if learns else []
        for rows in _blocks(first):
            logp = first[rows].log_softmax(dim=-1, dtype=dtype)  # (rows, V)
            logq = second[rows].log_softmax(dim=-1, dtype=dtype)
            p, q, ratio = logp.exp(), logq.exp(), logp - logq
            kl_pq = (p * ratio).sum(-1, keepdim=True)  # (rows, 1)
            kl_qp = -(q * ratio).sum(-1, keepdim=True)
            half = real[rows, None] / 2  # 0 at PAD
            total += (half * (kl_pq + kl_qp)).sum()
            if gradients:
                gradients[0][rows] = half * (p * (ratio - kl_pq) + p - q)
                gradients[1][rows] = half * (q * (-ratio - kl_qp) + q - p)
        ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        first, second = (found * gradient.to(found.dtype) for found in ctx.saved_tensors)
        return first, second, None


def distance_to_teacher(logits: Tensor, teacher: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of a prediction against what a teacher says in place of each label.

    Kim and Rush 2016, 3.1 (word-level knowledge distillation).  Logits (..., V) twice, labels (...)
    -> the sum over non-PAD labels, in nats; no gradient reaches the teacher.  Raises ValueError for
    shapes that do not match.
    """
    _require_alike(logits, teacher, labels)
    real = (labels != PAD).flatten()
    return _CrossEntropyToTeacher.apply(logits.flatten(0, -2), teacher.flatten(0, -2), real)


class _CrossEntropyToTeacher(torch.autograd.Function):
    """-Σ q ln p of prediction p and teacher q, with its gradient p - q, some rows at a time."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, teacher: Tensor, real: Tensor) -> Tensor:
        dtype = torch.promote_types(logits.dtype, torch.float32)
        total = torch.zeros((), dtype=dtype, device=logits.device)
        gradient = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        for rows in _blocks(logits):
            logp = logits[rows].log_softmax(dim=-1, dtype=dtype)  # (rows, V)
            q = teacher[rows].softmax(dim=-1, dtype=dtype) * real[rows, None]  # 0 at PAD
            total -= (q * logp).sum()
            if gradient is not None:
                gradient[rows] = logp.exp_().mul_(real[rows, None]).sub_(q)
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (difference,) = ctx.saved_tensors
        return difference * gradient.to(difference.dtype), None, None


def _require_alike(first: Tensor, second: Tensor, labels: Tensor) -> None:
    """Raise ValueError where two predictions are not of the same labels."""
    if first.shape != second.shape or first.shape[:-1] != labels.shape:
        raise ValueError(
            f"logits {tuple(first.shape)} and {tuple(second.shape)} and labels "
            f"{tuple(labels.shape)} do not match: expected (..., V) twice and (...)"
        )
