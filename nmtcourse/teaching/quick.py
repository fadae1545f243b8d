"""A small translator trained here and now, in seconds: good enough to make interesting mistakes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from nmtcourse.teaching.course import load_toy
from nmtcourse.teaching.small import step
from nmtlib.data import corpora
from nmtlib.data.batching import Example, collate, token_batches
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer, TransformerConfig

SIZES: dict[str, Any] = {"d_model": 64, "n_heads": 4, "d_ff": 256, "max_length": 64}
SIZES |= {"n_encoder_layers": 1, "n_decoder_layers": 1, "norm": "post"}  # dropout as usual
RATE, WARMUP, TOKENS, SMOOTHING = 7e-3, 60, 512, 0.1
ADAM = {"betas": (0.9, 0.98), "eps": 1e-9}  # Vaswani et al. 2017, 5.3


def quick_toy(direction: str = "de-en", *, seed: int = 0, updates: int = 300) -> Translator:
    """One layer each side, trained on the toy corpus for so many updates: about 5 s for 300.

    Vocabularies are those of the shipped model.  The rate rises for 60 updates and falls to 0 in
    the last five sixths.  The state of torch's random numbers is left as it was.  Raises ValueError
    for another direction or fewer than one update.
    """
    if updates < 1:
        raise ValueError(f"a training has 1 update or more, not {updates}")
    with torch.random.fork_rng(devices=[]):
        shipped, examples = load_toy(direction), _examples(direction)
        sizes = {**SIZES, "source_vocab_size": len(shipped.source.vocab)}
        sizes["target_vocab_size"] = len(shipped.target.vocab)
        torch.manual_seed(seed)
        model = Transformer(TransformerConfig(**sizes))
        _train(model, examples, seed, updates)
    return Translator(model, shipped.source, shipped.target, shipped.settings)


def _train(model: Transformer, examples: list[Example], seed: int, updates: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), **ADAM)
    plan: list[list[int]] = []
    for update in range(updates):
        if not plan:  # the next epoch has other batches
            plan = list(token_batches(examples, TOKENS, seed=seed * updates + update))
        batch = collate([examples[i] for i in plan.pop()])
        share = min((update + 1) / WARMUP, 1.2 * (updates - update) / updates, 1.0)
        optimizer.param_groups[0]["lr"] = RATE * share
        step(model, optimizer, batch, SMOOTHING)


@lru_cache(maxsize=1)
def _examples(direction: str) -> list[Example]:
    """The training pairs as ids."""
    shipped, corpus = load_toy(direction), corpora.load_corpus(f"toy-{direction}")
    return [shipped.example(pair.source, pair.target) for pair in corpus.train]
