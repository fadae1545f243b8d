"""Loss, negative log-likelihood and accuracy of a model on given translations, as sums over labels.

Sums and not means: those of several batches, micro-batches or processes can be added, whatever
their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nmtlib.data.batching import Batch, Example, collate, token_batches
from nmtlib.data.vocab import PAD
from nmtlib.model.transformer import Transformer
from nmtlib.training.loss import disagreement, losses

LOSS, NLL, CORRECT, LABELS = range(4)  # places in a tensor of sums


def measure(
    model: Transformer,
    batch: Batch,
    *,
    precision: torch.dtype = torch.float32,
    smoothing: float = 0.0,
    r_drop: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """The summed loss of a batch, to be differentiated, and its four sums (float64), to be read.

    With `r_drop`, the weight alpha of Liang et al. 2021, the batch passes twice, each time with
    other dropout, and what drives the two predictions apart is punished.  The loss is half of
    theirs (eq. 4), so that alpha changes nothing else: the mean of both cross-entropies + alpha / 2
    of the `disagreement`.  The sums are means of both, too.
    """
    if r_drop:
        batch = Batch(torch.cat([batch.source] * 2), torch.cat([batch.target] * 2))
    with torch.autocast(
        batch.source.device.type, torch.bfloat16, enabled=precision == torch.bfloat16
    ):
        logits = model(batch.source, batch.decoder_input)  # (B, T, V)
    loss, nll, correct = losses(logits, batch.labels, smoothing)
    labels = (batch.labels != PAD).sum()
    sums = torch.stack([loss.detach(), nll, correct, labels]).double()
    if r_drop:
        apart = disagreement(*logits.chunk(2), batch.labels.chunk(2)[0])
        loss, sums = loss / 2 + r_drop / 2 * apart, sums / 2
        sums[LOSS] = loss.detach()
    return loss, sums


@torch.no_grad()
def measure_all(
    model: Transformer,
    examples: Sequence[Example],
    *,
    precision: torch.dtype = torch.float32,
    max_tokens: int = 4096,
) -> Tensor:
    """The four sums (float64, on the CPU) over all examples, in evaluation mode."""
    device, was_training = next(model.parameters()).device, model.training
    longest = max((max(len(e.source), len(e.target)) for e in examples), default=0)
    sums = torch.zeros(4, dtype=torch.float64, device=device)
    model.eval()
    for numbers in token_batches(examples, max(max_tokens, longest)):
        batch = collate([examples[i] for i in numbers]).to(device)
        sums += measure(model, batch, precision=precision)[1]
    model.train(was_training)
    return sums.cpu()
