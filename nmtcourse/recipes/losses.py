"""Losses of the recipes beside the labels: R-Drop and word-level distillation."""

from __future__ import annotations

import torch
from torch import Tensor

from nmtlib.specials import PAD


def disagreement(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    """The mean of the KL divergences of two predictions in both directions, as a sum in nats.

    Liang et al. 2021 (R-Drop), eq. 2.  Logits (..., V) twice, labels (...); PAD does not count.
    Raises ValueError for shapes that do not match.
    """
    logp, logq = _log_probabilities(first, second, labels)  # (..., V)
    # KL(p‖q) + KL(q‖p) = Σ (p - q) (ln p - ln q)
    divergence = ((logp.exp() - logq.exp()) * (logp - logq)).sum(-1) / 2  # (...)
    return divergence.masked_fill(labels == PAD, 0).sum()


def distance_to_teacher(logits: Tensor, teacher: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of a prediction against a teacher's, as a sum in nats.

    Kim and Rush 2016, 3.1 (word-level knowledge distillation).  Logits (..., V) twice, labels
    (...); PAD does not count, and no gradient reaches the teacher.  Raises ValueError for shapes
    that do not match.
    """
    logp, logq = _log_probabilities(logits, teacher.detach(), labels)  # (..., V)
    return -(logq.exp() * logp).sum(-1).masked_fill(labels == PAD, 0).sum()


def _log_probabilities(first: Tensor, second: Tensor, labels: Tensor) -> list[Tensor]:
    """Both predictions in float32 at least, whatever autocast made of the logits."""
    if first.shape != second.shape or first.shape[:-1] != labels.shape:
        raise ValueError(
            f"logits {tuple(first.shape)} and {tuple(second.shape)} and labels "
            f"{tuple(labels.shape)} do not match: expected (..., V) twice and (...)"
        )
    exact = torch.promote_types(first.dtype, torch.float32)
    return [logits.log_softmax(dim=-1, dtype=exact) for logits in (first, second)]
