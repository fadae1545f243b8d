"""Text before training, for notebook 01: a corpus with defects, and a picture of padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import matplotlib.pyplot as plt

from nmtcourse.teaching.matrices import mask
from nmtlib.data.batching import Batch
from nmtlib.data.corpus import Pair
from nmtlib.specials import PAD

MISSING_FROM = 700  # line after which one file lacks a line


def broken_copy(pairs: Sequence[Pair], test: Sequence[Pair]) -> list[Pair]:
    """Some pairs, at least 1,000, with the defects that learners report of files they trained on.

    An empty target in every 97th line, markup in every 89th, a pair repeated in every 83rd, a test
    pair in every 79th, a target cut to one word in every 73rd; one target lacks from line 701 on.
    """
    copy = list(pairs)
    for line in range(1, len(copy) + 1):
        index, pair = line - 1, copy[line - 1]
        if line % 97 == 0:
            copy[index] = replace(pair, target="")
        elif line % 89 == 0:
            copy[index] = replace(pair, source=f"{pair.source} &quot;", target=pair.target)
        elif line % 83 == 0:
            copy[index] = copy[index - 1]
        elif line % 79 == 0:
            copy[index] = test[line]
        elif line % 73 == 0:
            copy[index] = replace(pair, target=pair.target.split()[0])
    targets = [pair.target for pair in copy]
    del targets[MISSING_FROM]
    return [replace(pair, target=text) for pair, text in zip(copy, targets, strict=False)]


def draw_padding(batches: Mapping[str, Batch]) -> None:
    """The source side of some batches at one scale: blue a token, white PAD, grey not computed."""
    figure, axes = plt.subplots(1, len(batches), figsize=(7, 4.2))
    rows = max(batch.source.size(0) for batch in batches.values())
    columns = max(batch.source.size(1) for batch in batches.values())
    for ax, (name, batch) in zip(axes, batches.items(), strict=True):
        tokens = batch.source != PAD
        title = f"{name}: {1 - tokens.float().mean():.0%} PAD"
        mask(tokens, None, None, title=title, row_label="", column_label="", ax=ax)
        ax.set(aspect="auto", xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
        ax.set_facecolor("#DDDDDD")
        ax.grid(visible=False, which="minor")
    axes[0].set_ylabel("sentence of the batch")
    axes[len(batches) // 2].set_xlabel("position in the sentence")
    plt.show()
