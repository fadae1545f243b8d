"""What each epoch measured: a CSV file, and the curves drawn from it."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from nmtlib.files import write_atomically


@dataclass(frozen=True)
class EpochRecord:
    """One epoch.  Losses in nats per token; `train_loss` is smoothed, NLL and perplexity never are.

    The training figures are those of the changing model, with dropout, so early ones look worse
    than validation. `updates` and `seconds` count from the start of the training,
    `tokens_per_second` target tokens of this epoch.
    """

    epoch: int
    updates: int
    seconds: float
    learning_rate: float
    train_loss: float
    train_nll: float
    train_perplexity: float
    train_accuracy: float
    validation_nll: float
    validation_perplexity: float
    validation_accuracy: float
    tokens_per_second: float

    def line(self, epochs: int) -> str:
        """One line for people."""
        return (
            f"epoch {self.epoch:>3}/{epochs}  loss {self.train_loss:.3f}  "
            f"perplexity train {self.train_perplexity:.2f} validation {self.validation_perplexity:.2f}  "
            f"accuracy {self.validation_accuracy:.3f}  {self.tokens_per_second:,.0f} tokens/s  {self.seconds:.0f} s"
        )


def write_history(path: str | Path, history: Sequence[EpochRecord]) -> None:
    """Write one CSV row an epoch."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [f.name for f in fields(EpochRecord)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in asdict(r).items()}
        for r in history
    )
    write_atomically(path, text.getvalue().encode())


def read_history(path: str | Path) -> list[EpochRecord]:
    """Read what `write_history` wrote."""
    kinds = {f.name: int if f.type == "int" else float for f in fields(EpochRecord)}
    try:
        with open(path, newline="", encoding="utf-8") as file:
            records = [
                EpochRecord(**{k: kinds[k](v) for k, v in row.items()})
                for row in csv.DictReader(file)
            ]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no history of a training ({error!r})") from None
    if not records:
        raise ValueError(f"{path} holds no epoch")
    return records


def draw_curves(path: str | Path, history: Sequence[EpochRecord], title: str = "") -> None:
    """Draw loss, perplexity and accuracy against epochs, for train and validation, into a PNG or
    SVG file.
    """
    from matplotlib.figure import Figure  # not pyplot: no window system, no global state
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(12, 3.9), layout="constrained")
    epochs = [r.epoch for r in history]
    best = min(history, key=lambda r: r.validation_nll)
    panels = [
        ("nll", "negative log-likelihood (nats per token)"),
        ("perplexity", "perplexity"),
        ("accuracy", "token accuracy"),
    ]
    for axes, (key, label) in zip(figure.subplots(1, 3), panels, strict=True):
        for split, color, marker in (("train", "#0072B2", "o"), ("validation", "#D55E00", "s")):
            values = [getattr(r, f"{split}_{key}") for r in history]
            axes.plot(epochs, values, color=color, marker=marker, markersize=3, label=split)
        axes.axvline(
            best.epoch,
            color="0.6",
            linestyle=":",
            label=f"lowest validation loss (epoch {best.epoch})",
        )
        axes.set(xlabel="epoch", ylabel=label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if key == "perplexity":
            axes.set_yscale("log")
        axes.grid(alpha=0.3)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(title)
    figure.savefig(path, dpi=100)
