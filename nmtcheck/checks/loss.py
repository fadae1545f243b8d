"""Checks of the loss: what counts, what it is divided by, and what smoothing does."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from nmtcheck.adapter import Adapter
from nmtcheck.measure import helpers
from nmtcheck.measure.helpers import TOLERANCE, close, tensor
from nmtcheck.registry import Finding, check

WORDS = 11  # size of the vocabulary


def scored(adapter: Adapter) -> tuple[Tensor, Tensor]:
    """Logits (4, 5, 11), and labels of which seven are PAD."""
    labels = torch.randint(adapter.first_word, WORDS, (4, 5))
    labels[1, 3:] = adapter.pad
    labels[3] = adapter.pad
    return 2 * torch.randn(4, 5, WORDS), labels


@functools.lru_cache(maxsize=16)
def speaks_log(adapter: Adapter) -> bool:
    """Whether the model ends in log_softmax, so that its loss expects log-probabilities."""
    if not adapter.has("make_model"):
        return False
    try:
        with torch.random.fork_rng(devices=[]):
            table = helpers.logits(adapter, *helpers.prepare(adapter, 0))
    except Exception:  # the checks of the model tell
        return False
    return float(table.exp().sum(-1).sub(1).abs().max()) < TOLERANCE


def measure(adapter: Adapter, logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """The loss, found to be one finite number."""
    logits = logits.log_softmax(-1) if speaks_log(adapter) else logits
    return tensor(adapter.loss(logits, labels, smoothing), "the loss").reshape(())


@check("loss.pad_ignored", "loss")
def pad_ignored(adapter: Adapter, seed: int) -> str:
    """Logits at positions whose label is PAD do not affect the loss."""
    logits, labels = scored(adapter)
    padded = labels == adapter.pad
    for smoothing in (0.0, 0.1):
        before = measure(adapter, logits, labels, smoothing)
        changed = torch.where(padded[..., None], torch.randn_like(logits) * 9, logits)
        after = measure(adapter, changed.requires_grad_(), labels, smoothing)
        close(after, before, f"other logits at PAD change the loss: {before:.3f} to {after:.3f}")
        (gradient,) = torch.autograd.grad(after, changed)
        if gradient[padded].any():
            raise Finding("logits at PAD get a gradient")
    return "different logits at PAD change neither loss nor gradient"


@check("loss.batching", "loss")
def batching(adapter: Adapter, seed: int) -> str:
    """The loss does not depend on how sentences are batched."""
    logits, labels = (x[:3] for x in scored(adapter))
    whole = measure(adapter, logits, labels, 0.1)
    twice = measure(adapter, logits.repeat(2, 1, 1), labels.repeat(2, 1), 0.1)
    message = f"the same batch twice over has the loss {twice:.3f}, once {whole:.3f}"
    if abs(float(twice / whole) - 2) < 1e-3:
        raise Finding(message, "The sum over tokens is never divided by their number.")
    close(twice, whole, message)
    counts = [int((row != adapter.pad).sum()) for row in labels]
    parts = [measure(adapter, logits[i : i + 1], labels[i : i + 1], 0.1) for i in range(3)]
    mean = sum(n * part for n, part in zip(counts, parts, strict=True)) / sum(counts)
    off = close(whole, mean, "the loss of a batch is not the mean over the tokens of its sentences")
    return f"one batch, three batches and a batch doubled agree within {off:.0e}"


@check("loss.smoothing_pad", "loss", "pad_unsmoothed")
def smoothing_pad(adapter: Adapter, seed: int) -> str:
    """Label smoothing gives PAD no probability."""
    logits = torch.randn(1, 1, WORDS, requires_grad=True)
    loss = measure(adapter, logits, torch.tensor([[adapter.first_word]]), 0.2)
    # The gradient of the cross-entropy of p = softmax(logits) is p - q, which gives q away.
    q = (logits.softmax(-1) - torch.autograd.grad(loss, logits)[0]).detach()[0, 0]
    share = float(q[adapter.pad])
    if share > TOLERANCE:
        raise Finding(f"with smoothing 0.2 PAD gets the probability {share:.4f}")
    if float(q.max()) > 1 - TOLERANCE:
        raise NotImplementedError("the loss does not smooth")
    logits, labels = scored(adapter)
    # A model that has learned never to predict PAD must not be penalised for it.
    logits[..., adapter.pad] = -1e6
    found = measure(adapter, logits, labels, 0.2)
    if found > 1000:
        raise Finding(f"a model that never predicts PAD has the loss {found:.0f}")
    return "PAD gets no probability, and never predicting it costs nothing"
