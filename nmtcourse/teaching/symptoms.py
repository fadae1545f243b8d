"""The map of the debugging clinic: from symptoms to suspected bugs and the deciding checks."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from nmtcourse import bugs
from nmtcourse.teaching.language import say
from nmtcourse.teaching.style import COLOURS

# What you see -> the bugs of the catalogue to think of first.
SYMPTOMS = {
    "the loss becomes NaN": ["mask-padded-queries", "mask-infinity-nan"],
    "a splendid loss,\nworthless translations": [
        "causal-mask-off-by-one",
        "mask-fill-small",
        "target-not-shifted",
    ],
    "the loss stays\non a plateau": [
        "cross-attention-ignores-memory",
        "pairs-misaligned",
        "mask-inverted",
    ],
    "training and validation\ndisagree from the start": [
        "causal-mask-training-only",
        "train-mode-in-evaluation",
        "dropout-default",
    ],
    "a different batch size,\ndifferent numbers": [
        "loss-not-divided",
        "mean-of-batch-means",
        "accumulation-not-divided",
        "schedule-per-micro-batch",
    ],
    "the same sentence in another\nbatch, different logits": [
        "cross-attention-no-padding-mask",
        "heads-without-transpose",
    ],
    "a good validation loss,\nstammering translations": [
        "decoding-position-zero",
        "wrong-start-symbol",
    ],
    "a larger beam\ndoes little, or harm": [
        "cache-not-reordered",
        "length-penalty-sign",
        "beam-stops-early",
    ],
    "too few parameters,\nor too many": [
        "layers-share-weights",
        "tying-copies",
        "parameters-counted-per-level",
    ],
    "saved and loaded,\nit is a different model": ["rebuilt-with-defaults", "last-weights-saved"],
    "a score too good\nto be true": [
        "vocabulary-from-test",
        "reference-length-leaks",
        "bleu-of-strings",
    ],
}


def suspects() -> list[tuple[str, str, str]]:
    """Symptom, suspected bug and what finds it, for `draw_map`."""
    named = ((symptom, bugs.get(key)) for symptom, keys in SYMPTOMS.items() for key in keys)
    return [(say(symptom), say(bug.title), bug.found_by) for symptom, bug in named]


def draw_map(rows: Iterable[tuple[str, str, str]]) -> Axes:
    """Draw symptom, suspect and what finds it, in columns; rows of one symptom are together."""
    rows = list(rows)
    _, ax = plt.subplots(figsize=(7.0, 0.25 * len(rows) + 0.5))
    for column, title in ((0.0, "what you see"), (0.3, "suspects"), (0.99, "found by")):
        ax.text(
            column,
            -1.2,
            say(title),
            weight="bold",
            ha="right" if column > 0.9 else "left",
        )
    for number, (symptom, group) in enumerate(groupby(enumerate(rows), lambda row: row[1][0])):
        places = [column for column, _ in group]
        colour = COLOURS[number % len(COLOURS)]
        middle = (places[0] + places[-1]) / 2
        ax.text(0.0, middle, symptom, va="center", fontsize=8)
        for column in places:
            _, suspect, check = rows[column]
            ax.plot([0.255, 0.29], [middle, column], color=colour, linewidth=1.0)
            ax.text(0.3, column, suspect, va="center", fontsize=7)
            ax.text(0.99, column, check, va="center", ha="right", fontsize=6.5, family="monospace")
        ax.axhline(places[-1] + 0.5, color="#E0E0E0", linewidth=0.8)
    ax.set(xlim=(0, 1), ylim=(len(rows) - 0.4, -1.8))
    ax.axis("off")
    return ax
