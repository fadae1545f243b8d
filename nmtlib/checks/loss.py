"""Checks of the loss: what counts, what it is divided by, and what smoothing does."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from nmtlib.checks.adapter import Adapter
from nmtlib.checks.helpers import TOLERANCE, close, tensor
from nmtlib.checks.registry import Finding, check

NOTEBOOK = "08_label_smoothing_and_noam"
WORDS = 11  # size of the vocabulary


def scored(adapter: Adapter) -> tuple[Tensor, Tensor]:
    """Logits (4, 5, 11), and labels of which seven are PAD."""
    labels = torch.randint(adapter.first_word, WORDS, (4, 5))
    labels[1, 3:] = adapter.pad
    labels[3] = adapter.pad
    return 2 * torch.randn(4, 5, WORDS), labels


def measure(adapter: Adapter, logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """The loss, found to be one finite number."""
    return tensor(adapter.loss(logits, labels, smoothing), "the loss").reshape(())


@check(
    "loss.cross_entropy",
    cause="Another axis, another mean, or a softmax too many before the loss.",
    notebook=NOTEBOOK,
    needs=("loss",),
)
def cross_entropy(adapter: Adapter, seed: int) -> str:
    """Without smoothing the loss is the mean cross-entropy of the labels that are not PAD."""
    logits, labels = scored(adapter)
    found = measure(adapter, logits, labels)
    expected = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=adapter.pad)
    count, places = int((labels != adapter.pad).sum()), labels.numel()
    for factor, cause in (
        (count, "The sum over tokens is never divided by their number."),
        (count / places, "The sum is divided by all places, PAD included."),
        (count / len(labels), "The sum is divided by the number of sentences."),
    ):
        if abs(float(found / (expected * factor)) - 1) < 1e-4:
            raise Finding(f"the loss is {found:.3f}, expected {expected:.3f}", cause)
    off = close(found, expected, f"the loss is {found:.3f}, expected {expected:.3f}")
    return f"{found:.3f} nats, as F.cross_entropy (within {off:.0e})"


@check(
    "loss.pad_ignored",
    cause="PAD is counted as a word: without ignore_index, a model that says PAD looks good.",
    notebook=NOTEBOOK,
    needs=("loss",),
)
def pad_ignored(adapter: Adapter, seed: int) -> str:
    """What is said where the label is PAD has no part in the loss."""
    logits, labels = scored(adapter)
    for smoothing in (0.0, 0.1):
        before = measure(adapter, logits, labels, smoothing)
        changed = torch.where(
            (labels == adapter.pad)[..., None], torch.randn_like(logits) * 9, logits
        )
        after = measure(adapter, changed.requires_grad_(), labels, smoothing)
        close(
            after, before, f"other logits at PAD change the loss from {before:.3f} to {after:.3f}"
        )
        (gradient,) = torch.autograd.grad(after, changed)
        if gradient[labels == adapter.pad].any():
            raise Finding("logits at PAD get a gradient")
    return "other logits at PAD change neither loss nor gradient"


@check(
    "loss.batching",
    cause="The mean is taken for each sentence or batch first: weigh by tokens, sum first and "
    "divide once.",
    notebook=NOTEBOOK,
    needs=("loss",),
)
def batching(adapter: Adapter, seed: int) -> str:
    """The loss does not depend on how sentences are put into batches."""
    logits, labels = scored(adapter)
    logits, labels = logits[:3], labels[:3]
    whole = measure(adapter, logits, labels, 0.1)
    twice = measure(adapter, logits.repeat(2, 1, 1), labels.repeat(2, 1), 0.1)
    close(
        twice,
        whole,
        f"the same batch twice over has the loss {twice:.3f}, once {whole:.3f}",
        "The sum over tokens is never divided by their number.",
    )
    counts = [int((row != adapter.pad).sum()) for row in labels]
    parts = [measure(adapter, logits[i : i + 1], labels[i : i + 1], 0.1) for i in range(3)]
    mean = sum(n * part for n, part in zip(counts, parts, strict=True)) / sum(counts)
    off = close(whole, mean, "the loss of a batch is not the mean over the tokens of its sentences")
    return f"one batch, three batches and a batch doubled agree within {off:.0e}"


@check(
    "loss.finite",
    cause="log(softmax(x)) in two steps: use log_softmax, or cross-entropy, which does.",
    notebook=NOTEBOOK,
    needs=("loss",),
)
def finite(adapter: Adapter, seed: int) -> str:
    """The loss and its gradient are numbers, however sure the model is."""
    logits, labels = scored(adapter)
    for smoothing in (0.0, 0.1):
        sure = (logits * 1000).requires_grad_()
        (gradient,) = torch.autograd.grad(measure(adapter, sure, labels, smoothing), sure)
        tensor(gradient, "the gradient of the loss")
    return "finite for logits up to thousands, with and without smoothing"


def smoothed_target(adapter: Adapter, label: int, smoothing: float) -> Tensor:
    """The distribution (V,) that the loss compares with; the gradient of cross-entropy is p - q,
    which gives q away.
    """
    logits = torch.randn(1, 1, WORDS, requires_grad=True)
    (gradient,) = torch.autograd.grad(
        measure(adapter, logits, torch.tensor([[label]]), smoothing), logits
    )
    return (logits.softmax(-1) - gradient).detach()[0, 0]


@check(
    "loss.smoothing",
    cause="The shares do not add up: spread smoothing over the number of classes that receive it.",
    notebook=NOTEBOOK,
    needs=("loss",),
)
def smoothing_target(adapter: Adapter, seed: int) -> str:
    """The smoothed target is a distribution that favours the label and treats other words alike."""
    label, q = adapter.first_word, smoothed_target(adapter, adapter.first_word, 0.2)
    others = torch.tensor([q[i] for i in range(adapter.first_word, WORDS) if i != label])
    if abs(float(q.sum()) - 1) > TOLERANCE or q.min() < -TOLERANCE:
        raise Finding(
            f"the smoothed target sums to {q.sum():.3f}, its lowest entry is {q.min():.3f}"
        )
    # Some spread it over all V classes, the label included; others over V - 1 or V - 2.
    if (
        not 0.8 - TOLERANCE < q[label] < 0.8 + 0.2 / 4
        or float(others.max() - others.min()) > TOLERANCE
    ):
        raise Finding(
            f"with smoothing 0.2 the label gets {q[label]:.3f}, other words {others.min():.3f} to "
            f"{others.max():.3f}"
        )
    return f"with smoothing 0.2 the label gets {q[label]:.3f}, each other word {others.mean():.4f}"


@check(
    "loss.smoothing_pad",
    cause="Smoothing is spread over all classes; set the column of PAD to zero.",
    notebook=NOTEBOOK,
    needs=("loss", "pad_unsmoothed"),
)
def smoothing_pad(adapter: Adapter, seed: int) -> str:
    """Label smoothing gives PAD nothing."""
    share = float(smoothed_target(adapter, adapter.first_word, 0.2)[adapter.pad])
    if share > TOLERANCE:
        raise Finding(f"with smoothing 0.2 PAD gets the probability {share:.4f}")
    logits, labels = scored(adapter)
    logits[
        ..., adapter.pad
    ] = -1e6  # a model that has learned never to say PAD must not be punished for it
    found = measure(adapter, logits, labels, 0.2)
    if found > 1000:
        raise Finding(f"a model that never says PAD has the loss {found:.0f}")
    return "PAD gets nothing, and never saying it costs nothing"
