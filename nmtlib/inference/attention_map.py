"""Cross-attention of one sentence and its translation: weights, tokens, and a plot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nmtlib.data.batching import collate
from nmtlib.model.attention import record_attention

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nmtlib.inference.translator import Translator


@dataclass(frozen=True)
class AttentionMap:
    """How much each target token attends to each source token, in every layer and head.

    `weights` is (layers, H, T, S), each row of it sums to 1; `source` names the S tokens that are
    read, `target` the T tokens that are generated, both with EOS.
    """

    weights: Tensor
    source: list[str]
    target: list[str]

    def plot(self, layer: int = -1, head: int | None = None, ax: Axes | None = None) -> Axes:
        """Draw one head of a layer, or the mean of its heads, as a heat map."""
        import matplotlib.pyplot as plt
        import seaborn

        weights = self.weights[layer]  # (H, T, S)
        weights = weights.mean(dim=0) if head is None else weights[head]  # (T, S)
        size = (2 + 0.5 * len(self.source), 1 + 0.4 * len(self.target))
        ax = ax or plt.subplots(figsize=size)[1]
        labels = {"xticklabels": self.source, "yticklabels": self.target}
        seaborn.heatmap(weights, vmin=0, vmax=1, cmap="Blues", ax=ax, **labels)
        ax.tick_params(axis="y", labelrotation=0)
        return ax


@torch.no_grad()
def attention_map(
    translator: Translator, sentence: str, translation: str | None = None
) -> AttentionMap:
    """The cross-attention while the model reads a sentence and predicts its translation.

    `translation` is the model's own unless given.  Raises ValueError for an empty sentence.
    """
    if not sentence.strip():
        raise ValueError("an empty sentence has no tokens to attend to; give a sentence")
    if translation is None:
        (translation,) = translator.translate([sentence])
    batch = collate([translator.example(sentence, translation)]).to(translator.device)
    with record_attention(translator.model) as maps:
        translator.model(batch.source, batch.decoder_input)
    weights = [found[0] for name, found in maps.items() if name.endswith("cross_attention")]
    return AttentionMap(
        torch.cat(weights).cpu(),  # of (1, H, T, S) in each layer
        translator.source.vocab.decode(batch.source[0].tolist()),
        translator.target.vocab.decode(batch.labels[0].tolist()),
    )
