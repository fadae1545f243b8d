"""Small models, trained in seconds by the plainest loop: Adam at one rate, no warm-up, no dropout.

What one changes in such a model, and what it then does, is what notebooks 03 and 07 compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from nmtlib.data.batching import Batch, Example, collate, token_batches
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.training.loss import label_smoothed_loss


def new_model(
    translator: Translator, layers: int = 1, *, seed: int = 0, **changes: Any
) -> Transformer:
    """An untrained model, `layers` on each side, for the vocabularies of a translator.

    It is pre-norm, of 64 dimensions and 4 heads; `changes` are other values of TransformerConfig.
    """
    torch.manual_seed(seed)
    sizes = {"d_model": 64, "n_heads": 4, "d_ff": 128, "dropout": 0.0, "norm": "pre"}
    sizes |= {"n_encoder_layers": layers, "n_decoder_layers": layers, **changes}
    vocabularies = len(translator.source.vocab), len(translator.target.vocab)
    return Transformer(TransformerConfig(*vocabularies, **sizes))


def loss_of(model: Transformer, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """The mean loss for each target token, in nats."""
    logits = model(batch.source, batch.decoder_input)  # (B, T, V)
    return label_smoothed_loss(logits, batch.labels, smoothing)


def step(
    model: Transformer, optimizer: Optimizer, batch: Batch, smoothing: float = 0.0, clip: float = 0
) -> float:
    """One update on the mean loss of a batch, gradients clipped to the norm `clip`; the loss."""
    loss = loss_of(model, batch, smoothing)
    optimizer.zero_grad()
    loss.backward()
    if clip:
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return loss.item()


def train(
    model: Transformer,
    examples: Sequence[Example],
    *,
    rate: float,
    updates: int,
    max_tokens: int = 1024,
    seed: int = 0,
) -> list[float]:
    """Train with Adam; returns the loss of each update, and leaves the model in eval mode."""
    optimizer = torch.optim.Adam(model.train().parameters(), rate)
    plan: list[list[int]] = []
    curve: list[float] = []
    while len(curve) < updates:
        plan = plan or list(token_batches(examples, max_tokens, seed=1000 * seed + len(curve)))
        curve.append(step(model, optimizer, collate([examples[i] for i in plan.pop()])))
    model.eval()
    return curve
