"""Checks of masks: alone, and by the effect of hidden tokens on a whole model."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from nmtcheck.adapter import Adapter
from nmtcheck.measure.helpers import (
    TOLERANCE,
    another_word,
    close,
    distance,
    logits,
    padded_gradients,
    prepare,
)
from nmtcheck.registry import Finding, check


def future(adapter: Adapter, seed: int, training: bool) -> str:
    """Change the third of five target tokens, and compare the logits before it."""
    model, source, target = prepare(adapter, seed)
    model.train(training)
    changed = target.clone()
    changed[0, 2] = another_word(adapter, changed[0, 2])

    def run(ids: Tensor) -> Tensor:
        torch.manual_seed(seed)  # so that dropout, where it cannot be switched off, drops the same
        return logits(adapter, model, source, ids)[0]

    before, after = run(target), run(changed)
    leak = distance(after[:2], before[:2])
    if leak > TOLERANCE:
        first = distance(after[0], before[0]) > TOLERANCE
        text = f"token 2 was changed, and the logits of position {1 - first} move by {leak:.2g}"
        raise Finding(text)
    if distance(after[2:], before[2:]) < TOLERANCE:
        message = "a changed token does not affect later positions either"
        raise Finding(message, "The decoder does not read its input.")
    return f"a changed token moves nothing before it (within {leak:.0e})"


@check("masks.future_in_training", "make_model")
def future_in_training(adapter: Adapter, seed: int) -> str:
    """In train mode a future token does not affect earlier positions."""
    return future(adapter, seed, training=True)


@check("masks.future_in_evaluation", "make_model")
def future_in_evaluation(adapter: Adapter, seed: int) -> str:
    """In eval mode a future token does not affect earlier positions."""
    return future(adapter, seed, training=False)


def same_with_more_padding(adapter: Adapter, seed: int) -> float:
    """How far more padding in the source moves the logits of real tokens; a Finding if it does."""
    model, source, target = prepare(adapter, seed)
    real = target != adapter.pad
    longer = F.pad(source, (0, 3), value=adapter.pad)
    return close(
        logits(adapter, model, longer, target)[real],
        logits(adapter, model, source, target)[real],
        "three more PAD in the source move logits",
        "The padding mask of the source is missing in the encoder or in cross-attention.",
    )


@check("masks.more_padding", "make_model")
def more_padding(adapter: Adapter, seed: int) -> str:
    """More padding does not change the logits of real tokens."""
    off = same_with_more_padding(adapter, seed)
    model, source, target = prepare(adapter, seed)
    real, width = target != adapter.pad, target.size(1)
    plain = logits(adapter, model, source, target)[real]
    longer = F.pad(target, (0, 2), value=adapter.pad)
    wider = logits(adapter, model, source, longer)[:, :width][real]
    off = max(off, close(wider, plain, "two more PAD in the target move logits"))
    return f"PAD behind source and target moves logits by at most {off:.0e}"


@check("masks.padded_queries", "make_model")
def padded_queries(adapter: Adapter, seed: int) -> str:
    """Logits and gradients are finite where the target is padded."""
    model, _, target = prepare(adapter, seed)
    for training in (False, True):
        padded_gradients(adapter, model.train(training), seed)
    return f"finite at {int((target == adapter.pad).sum())} padded positions, in both modes"
