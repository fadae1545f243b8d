"""Several models that translate together: each next word has the mean of their probabilities.

Trained with other seeds they make other mistakes, and the mean makes fewer.  Sutskever et al. 2014.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nmtlib.inference.translator import Translator
from nmtlib.model.layers import DecoderState
from nmtlib.model.transformer import Transformer


class Ensemble(nn.Module):
    """Models of the same vocabularies, with all that a search or an evaluation asks of one.

    Where a Transformer gives logits, this gives log-probabilities: those of the mean.
    """

    def __init__(self, models: Sequence[Transformer]):
        """Raises ValueError for no model, or models whose vocabularies differ in size."""
        super().__init__()
        sizes = {(m.config.source_vocab_size, m.config.target_vocab_size) for m in models}
        if len(sizes) != 1:
            raise ValueError(f"an ensemble needs models of the same vocabularies, not {sizes}")
        self.models: Any = nn.ModuleList(models)  # of Transformers
        shortest = min(model.config.max_length for model in models)
        self.config = replace(models[0].config, max_length=shortest)
        self.train(models[0].training)  # a new module is in training mode, whatever its parts are

    @property
    def output(self) -> nn.Linear:
        """That of the first model, which tells of what type the scores are."""
        return self.models[0].output

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source ids (B, S), target ids (B, T) -> log-probabilities (B, T, V)."""
        return _mean([model(source, target) for model in self.models])

    def start(self, source: Tensor) -> DecoderState:
        """Begin with source (B, S): the caches of all layers of all models stand in one row."""
        states = [model.start(source) for model in self.models]
        layers = [cache for state in states for cache in state.layers]
        return DecoderState(layers, states[0].memory_mask)

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """The newest token (N,) of each hypothesis -> log-probabilities (N, V); moves `state`."""
        caches, logits = iter(state.layers), []
        for model in self.models:
            own = list(islice(caches, len(model.decoder)))
            logits.append(model.step(tokens, DecoderState(own, state.memory_mask, state.length)))
        state.length += 1
        return _mean(logits)

    def parameter_table(self) -> dict[str, int]:
        """The number of trained values in each part, of all models together."""
        tables = [model.parameter_table() for model in self.models]
        parts = dict.fromkeys(part for table in tables for part in table)
        return {part: sum(table.get(part, 0) for table in tables) for part in parts}


def _mean(logits: list[Tensor]) -> Tensor:
    """The logarithm of the mean of the probabilities; logits (..., V) of each model."""
    logp = torch.stack([one.float().log_softmax(dim=-1) for one in logits])  # (models, ..., V)
    return logp.logsumexp(dim=0) - math.log(len(logits))  # (..., V)


def load_ensemble(runs: Sequence[str | Path]) -> Translator:
    """A translator of several runs, by their folders or names; its settings are the first one's.

    One run alone is loaded as ever.  Raises ValueError where they cut sentences into other tokens,
    or number these otherwise, and as `Translator.load` does.
    """
    if len(runs) == 1:
        return Translator.load(runs[0])
    loaded = [Translator.load(run) for run in runs]
    first = loaded[0]
    for run, member in zip(runs, loaded, strict=True):
        if (member.source, member.target) != (first.source, first.target):
            raise ValueError(
                f"{run} has other tokens than {runs[0]}: an ensemble needs runs of the same corpus "
                f"and [tokenizer]"
            )
        ways = [one.settings.corpus for one in (first, member)]
        either_way = all(one.settings.recipe.get("both_directions") for one in (first, member))
        if not either_way and ways[0].languages != ways[1].languages:
            raise ValueError(
                f"{run} translates {'-'.join(ways[1].languages)}, and {runs[0]} "
                f"{'-'.join(ways[0].languages)}: an ensemble needs runs of one direction"
            )
    model = Ensemble([translator.model for translator in loaded])
    notes = {"models": len(runs)}
    return Translator(model, first.source, first.target, first.settings, notes)
