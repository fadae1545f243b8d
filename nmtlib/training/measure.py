"""Loss, negative log-likelihood and accuracy of a model on given translations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from nmtlib.data.batching import Batch, Example, batch_of, lengths_of, token_batches
from nmtlib.model.transformer import Transformer
from nmtlib.specials import PAD
from nmtlib.training.loss import disagreement, distance_to_teacher, losses, perplexity


class Sums(NamedTuple):
    """Sums over labels: loss (smoothed) and NLL in nats, labels guessed right, labels.

    Sums and not means: those of several batches, micro-batches or processes can be added, whatever
    their sizes, and only then divided.  Each is a float or a float64 tensor without dimensions.

    >>> total = Sums(loss=5.0, nll=4.0, correct=1.0, labels=2.0) + Sums(1.0, 0.0, 2.0, 2.0)
    >>> total.nll_per_token, total.accuracy
    (1.0, 0.75)
    """

    loss: Tensor | float = 0.0
    nll: Tensor | float = 0.0
    correct: Tensor | float = 0.0
    labels: Tensor | float = 0.0

    def __add__(self, other: Sums) -> Sums:  # type: ignore[override]
        return Sums(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def floats(self) -> Sums:
        """The same as floats; to read them from a GPU is to wait, once, until its work is done."""
        tensors = [torch.as_tensor(figure, dtype=torch.float64) for figure in self]
        return Sums(*torch.stack(tensors).tolist())

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
        """The share of labels that are the model's first guess."""
        return float(self.correct / self.labels)


def measure(
    model: Transformer,
    batch: Batch,
    *,
    precision: torch.dtype = torch.float32,
    smoothing: float = 0.0,
    r_drop: float = 0.0,
    teacher: Transformer | None = None,
    teacher_weight: float = 0.5,
) -> tuple[Tensor, Sums]:
    """The summed loss of a batch, to be differentiated, and its sums, to be read.

    With `r_drop`, the weight alpha of Liang et al. 2021, the batch passes twice, each time with
    other dropout, and what drives the two predictions apart is punished.  The loss is half of
    theirs (eq. 4), so that alpha changes nothing else: the mean of both cross-entropies + alpha / 2
    of the `disagreement`.  The sums are means of both, too.  A `teacher` takes the share
    `teacher_weight` of the cross-entropy for the `distance_to_teacher`.
    """
    if r_drop:
        batch = Batch(torch.cat([batch.source] * 2), torch.cat([batch.target] * 2))
    half = precision == torch.bfloat16
    with torch.autocast(batch.source.device.type, torch.bfloat16, enabled=half):
        logits = model(batch.source, batch.decoder_input)  # (B, T, V)
        with torch.no_grad():
            said = teacher(batch.source, batch.decoder_input) if teacher else None
    loss, nll, correct = losses(logits, batch.labels, smoothing)
    labels = (batch.labels != PAD).sum()
    if said is not None:
        taught = distance_to_teacher(logits, said, batch.labels)
        loss = (1 - teacher_weight) * loss + teacher_weight * taught
    if r_drop:
        first, second = logits.chunk(2)
        loss = loss / 2 + r_drop / 2 * disagreement(first, second, batch.labels.chunk(2)[0])
        nll, correct, labels = nll / 2, correct / 2, labels / 2
    return loss, Sums(*(figure.detach().double() for figure in (loss, nll, correct, labels)))


@torch.no_grad()
def measure_all(
    model: Transformer,
    examples: Sequence[Example],
    *,
    precision: torch.dtype = torch.float32,
    max_tokens: int = 4096,
) -> Sums:
    """The sums (floats) over all examples, in evaluation mode."""
    device, was_training = next(model.parameters()).device, model.training
    longest = int(lengths_of(examples).max(initial=0))
    sums = Sums()
    model.eval()
    for numbers in token_batches(examples, max(max_tokens, longest)):
        batch = batch_of(examples, numbers).to(device)
        sums += measure(model, batch, precision=precision)[1]
    model.train(was_training)
    return sums.floats()


def require_finite(model: Transformer, *found: Sums, when: str) -> None:
    """Raise FloatingPointError where a sum, a perplexity or a weight is no finite number."""
    figures = [figure for sums in found for figure in (*sums, sums.perplexity)]
    # A step can spoil the weights before a loss shows it, and what is saved must be sound.
    weights_are = torch.stack([p.isfinite().all() for p in model.parameters()]).all()  # one wait
    if not (weights_are and all(map(math.isfinite, figures))):
        raise FloatingPointError(
            f"the loss became {found[-1].loss_per_token:.4g} by {when}; train again with a lower "
            f"learning_rate or a longer warmup.  What was saved before is sound"
        )
