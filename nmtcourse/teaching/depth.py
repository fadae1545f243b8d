"""What a stack of untrained encoder layers does to a sentence and to a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nmtcourse.teaching.small import new_model
from nmtlib.data.batching import collate
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer

Connect = Callable[[Tensor, Callable[[Tensor], Tensor]], Tensor]  # of a vector and a sub-layer


def vectors(translator: Translator, sentence: str, model: Transformer | None = None) -> Tensor:
    """A sentence as the first layer of a model gets it, embeddings with positions: (1, S, D)."""
    model = translator.model if model is None else model
    source = collate([translator.example(sentence, "")]).source  # (1, S)
    return model.source_positions(model.source_embedding(source))


def through(
    translator: Translator, sentence: str, depth: int, connect: Connect
) -> tuple[Tensor, float]:
    """Send a sentence through new layers: its vectors (S, D), and the gradient that arrives.

    Each layer is self-attention and feed-forward, connected by `connect(x, sublayer)`.  The
    gradient starts at the end with length 1.  All is in float64, since tiny numbers count.
    """
    model: Any = new_model(translator, depth, n_decoder_layers=1).double()
    start = vectors(translator, sentence, model).requires_grad_()  # (1, S, D)
    x = start
    for layer in model.encoder:

        def attend(x: Tensor, attention: Any = layer.self_attention) -> Tensor:
            return attention(x, x, x)

        x = connect(x, attend)
        x = connect(x, layer.feed_forward)
    end = torch.randn_like(x)
    (arrived,) = torch.autograd.grad(x, start, end / end.norm())
    return x[0].detach(), arrived.norm().item()


def own_share(x: Tensor) -> float:
    """Which share of the words' vectors (S, D) is not common to all of them: 0 where all agree.

    >>> own_share(torch.ones(3, 4))
    0.0
    """
    return ((x - x.mean(dim=0)).norm() / x.norm()).item()
