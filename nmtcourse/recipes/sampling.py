"""Draw translations from the model's distribution instead of searching for the best one."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nmtlib.inference.search import in_eval_mode, search_one
from nmtlib.model.transformer import Transformer


@in_eval_mode
def sample(
    model: Transformer,
    source: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
    max_length: int | None = None,
) -> list[list[int]]:
    """Sample each next token from the model's distribution: source (B, S) -> B lists of ids.

    `temperature` below 1 sharpens it; `top_k` keeps the k most probable tokens, `top_p` the fewest
    whose probabilities reach p (nucleus sampling, Holtzman et al. 2020).  Raises ValueError for a
    temperature of 0 or less, top_k below 1, or top_p outside (0, 1].
    """
    if not temperature > 0 or not 0 < top_p <= 1 or (top_k is not None and top_k < 1):
        raise ValueError(
            f"sampling needs temperature > 0, 0 < top_p <= 1, top_k >= 1; "
            f"given {temperature}, {top_p}, {top_k}"
        )

    def choose(logp: Tensor) -> Tensor:
        logp, tokens = (logp / temperature).sort(dim=-1, descending=True)  # (N, V)
        if top_k is not None:
            logp[:, top_k:] = -math.inf
        p = logp.softmax(dim=-1)  # (N, V)
        before = p.cumsum(dim=-1) - p  # the mass before a token decides whether it stays
        p = p.masked_fill(before >= top_p, 0.0)
        return tokens.gather(-1, torch.multinomial(p, 1, generator=generator)).squeeze(-1)  # (N,)

    return search_one(model, source, max_length, choose)
