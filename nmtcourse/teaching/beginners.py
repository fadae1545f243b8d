"""Small models that have learnt for few epochs: unsure enough for a search to make a difference."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch

from nmtcourse.teaching.small import step
from nmtlib.data.batching import Example, collate, token_batches
from nmtlib.errors import require
from nmtlib.inference.translator import Translator
from nmtlib.model.config import TransformerConfig
from nmtlib.model.transformer import Transformer

SIZES = {"d_model": 64, "n_heads": 4, "n_encoder_layers": 1, "n_decoder_layers": 1, "d_ff": 128}
RATE, WARMUP, MAX_TOKENS, CLIP = 3e-3, 30, 1024, 1.0


def early_models(
    translator: Translator, train: Sequence[Example], epochs: int, seed: int
) -> list[Transformer]:
    """Train a model of one layer a side; its copies after 1, 2, ... `epochs` epochs, to evaluate.

    It has the vocabularies of `translator`, whose own model has no part in it.  `seed` decides on
    first weights and batches; the state of torch's random numbers is left as it was.  Raises
    ValueError for less than one epoch.
    """
    require(epochs >= 1, "epochs", "1 or more", epochs)
    config = translator.model.config
    sizes = (config.source_vocab_size, config.target_vocab_size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(
            TransformerConfig(*sizes, norm="pre", dropout=0.0, max_length=64, **SIZES)
        )
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    updates, copies = 0, []
    for epoch in range(epochs):
        for rows in token_batches(train, MAX_TOKENS, seed=1000 * seed + epoch):
            updates += 1
            optimizer.param_groups[0]["lr"] = RATE * min(1.0, updates / WARMUP)
            step(model, optimizer, collate([train[row] for row in rows]), clip=CLIP)
        copies.append(copy.deepcopy(model).eval())
    return copies
