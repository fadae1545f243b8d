"""The curves of a training: loss, perplexity and accuracy of both splits."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import seaborn
from matplotlib.figure import Figure  # not pyplot: no window system, no global state
from matplotlib.ticker import MaxNLocator

from nmtlib.files import write_atomically
from nmtlib.training.history import EpochRecord

PANELS = {
    "nll": "negative log-likelihood (nats per token)",
    "perplexity": "perplexity",
    "accuracy": "token accuracy",
}


def draw_curves(path: str | Path, history: Sequence[EpochRecord], title: str = "") -> None:
    """Draw loss, perplexity and accuracy of both splits against epochs into a PNG or SVG file."""
    figure = Figure(figsize=(12, 3.9), layout="constrained")
    figure.suptitle(title)
    epochs = [r.epoch for r in history]
    best = min(history, key=lambda r: r.validation_nll).epoch
    for axes, (key, label) in zip(figure.subplots(1, 3), PANELS.items(), strict=True):
        for split in ("train", "validation"):
            values = [getattr(r, f"{split}_{key}") for r in history]
            seaborn.lineplot(x=epochs, y=values, marker="o", label=split, ax=axes)
        axes.axvline(best, color="0.6", ls=":", label=f"lowest validation loss (epoch {best})")
        axes.set(xlabel="epoch", ylabel=label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(frameon=False)
    perplexity = figure.axes[1]
    perplexity.set_yscale("log", subs=[2, 5])
    perplexity.yaxis.set_major_formatter("{x:g}")
    perplexity.yaxis.set_minor_formatter("{x:g}")
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100, format=Path(path).suffix[1:] or "png")
    write_atomically(path, drawn.getvalue())
