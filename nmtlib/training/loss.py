"""The training loss, and what is reported with it: negative log-likelihood and accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from nmtlib.data.batching import Batch, Example, collate, lengths_of, token_batches
from nmtlib.errors import require, require_one_of
from nmtlib.model.transformer import Transformer
from nmtlib.settings import TrainingSettings
from nmtlib.specials import PAD
from nmtlib.training.parallel import gather_tensor


class Totals(NamedTuple):
    """Sums over labels: loss (smoothed) and NLL in nats, correct predictions, labels.

    Sums and not means: those of several batches, micro-batches or processes can be added, whatever
    their sizes, and only then divided.  Each is a float or a float64 tensor without dimensions.

    >>> total = Totals(loss=5.0, nll=4.0, correct=1.0, labels=2.0) + Totals(1.0, 0.0, 2.0, 2.0)
    >>> total.nll_per_token, total.accuracy
    (1.0, 0.75)
    """

    loss: Tensor | float = 0.0
    nll: Tensor | float = 0.0
    correct: Tensor | float = 0.0
    labels: Tensor | float = 0.0

    def __add__(self, other: Totals) -> Totals:  # type: ignore[override]
        return Totals(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def floats(self) -> Totals:
        """The same as floats; on a GPU this is one synchronisation."""
        tensors = [torch.as_tensor(figure, dtype=torch.float64) for figure in self]
        return Totals(*torch.stack(tensors).tolist())

    @property
    def loss_per_token(self) -> float:
        """The mean of the smoothed loss, in nats."""
        return float(self.loss / self.labels)

    @property
    def nll_per_token(self) -> float:
        """The mean negative log-likelihood, in nats."""
        return float(self.nll / self.labels)

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-likelihood; infinite where that is too large."""
        return perplexity(float(self.nll), float(self.labels))

    @property
    def accuracy(self) -> float:
        """The share of labels that the model ranks first."""
        return float(self.correct / self.labels)


# What a `Trainer` minimises: the loss of a batch as a sum, to be differentiated, and its totals.
Loss = Callable[[Transformer, Batch, TrainingSettings], tuple[Tensor, Totals]]


def perplexity(nll_sum: float, tokens: float) -> float:
    """exp of the mean *unsmoothed* negative log-likelihood (nats) of `tokens` tokens."""
    return float(torch.tensor(nll_sum / tokens, dtype=torch.float64).exp())


def losses(
    logits: Tensor, labels: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Smoothed loss, negative log-likelihood (nats) and the number of correct predictions.

    logits (..., V), labels (...) -> three sums over the non-PAD labels.  The target gives
    1 - label_smoothing to the label and spreads the rest evenly over the V - 1 words, never over
    PAD.  Szegedy et al. 2016, 7; Vaswani et al. 2017, 5.4.
    """
    if logits.shape[:-1] != labels.shape:
        raise ValueError(
            f"logits {tuple(logits.shape)} and labels {tuple(labels.shape)} do not match: "
            f"expected (..., V) and (...)"
        )
    exact = torch.promote_types(logits.dtype, torch.float32)
    logp = logits.log_softmax(dim=-1, dtype=exact)  # (..., V)
    nll = -logp.gather(-1, labels[..., None])[..., 0]  # (...)
    loss = nll
    if label_smoothing:
        even = -logp[..., PAD + 1 :].sum(dim=-1) / (logits.size(-1) - 1)  # (...)
        loss = (1 - label_smoothing) * nll + label_smoothing * even
    correct = logits.argmax(dim=-1) == labels
    # PAD is set to 0, not indexed away: a GPU would have to wait for the number that is left.
    pad = labels == PAD
    loss, nll, correct = (each.masked_fill(pad, 0).sum() for each in (loss, nll, correct))
    return loss, nll.detach(), correct


def label_smoothed_loss(
    logits: Tensor, labels: Tensor, label_smoothing: float = 0.1, *, reduction: str = "mean"
) -> Tensor:
    """The first of `losses` as a scalar in nats, a 'mean' over the non-PAD labels or their 'sum'.

    Raises ValueError for label_smoothing outside [0, 1), shapes that do not match, labels that are
    no ids, or a mean over nothing.
    """
    share = label_smoothing
    require(0 <= share < 1, "label_smoothing", "a probability in [0, 1)", share)
    require_one_of("reduction", ("mean", "sum"), reduction)
    if labels.device.type == "cpu" and labels.numel():
        low, high = (int(end) for end in labels.aminmax())
        if low < 0 or high >= logits.size(-1):
            raise ValueError(
                f"labels are in {low}..{high}, but there are logits for ids from 0 to "
                f"{logits.size(-1) - 1}; what is not to be learnt is PAD ({PAD}), not -100"
            )
    loss, *_ = losses(logits, labels, label_smoothing)
    if reduction == "sum":
        return loss
    count = (labels != PAD).sum()
    if not count:
        raise ValueError("every label is PAD: the mean over no tokens is not defined")
    return loss / count


def compute_loss(
    model: Transformer, batch: Batch, label_smoothing: float = 0.0
) -> tuple[Tensor, Totals]:
    """The summed loss of a batch, to be differentiated, and its totals, to be read."""
    logits = model(batch.source, batch.decoder_input)  # (B, T, V)
    loss, nll, correct = losses(logits, batch.labels, label_smoothing)
    labels = (batch.labels != PAD).sum()
    return loss, Totals(*(each.detach().double() for each in (loss, nll, correct, labels)))


def smoothed_loss(
    model: Transformer, batch: Batch, settings: TrainingSettings
) -> tuple[Tensor, Totals]:
    """The loss that a `Trainer` minimises unless it is given another one."""
    return compute_loss(model, batch, settings.label_smoothing)


@torch.no_grad()
def measure_all(
    model: Transformer,
    examples: Sequence[Example],
    *,
    precision: torch.dtype = torch.float32,
    max_tokens: int = 4096,
) -> Totals:
    """The totals (floats) over all examples, in evaluation mode."""
    device, was_training = next(model.parameters()).device, model.training
    longest = int(lengths_of(examples).max(initial=0))
    totals = Totals()
    model.eval()
    for rows in token_batches(examples, max(max_tokens, longest)):
        batch = collate([examples[row] for row in rows]).to(device)
        with autocast(device, precision):
            totals += compute_loss(model, batch)[1]
    model.train(was_training)
    return totals.floats()


def autocast(device: torch.device, precision: torch.dtype) -> torch.autocast:
    """A context in which large matrix multiplications have this precision."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == torch.bfloat16)


def require_finite(model: Transformer, *sums: Totals, when: str) -> None:
    """Raise FloatingPointError where a sum, a perplexity or a weight is not a finite number."""
    figures = [figure for totals in sums for figure in (*totals, totals.perplexity)]
    # A step can spoil the weights before a loss shows it, and what is saved must be sound.
    verdicts = [parameter.isfinite().all() for parameter in model.parameters()]
    # Where weights are sharded, a verdict is about the parts of all processes.
    sound = torch.stack([gather_tensor(verdict) for verdict in verdicts]).all()
    if not (sound and all(map(math.isfinite, figures))):
        raise FloatingPointError(
            f"the loss became {sums[-1].loss_per_token:.4g} by {when}; train again with a lower "
            f"learning_rate or a longer warmup.  What was saved before is sound"
        )
