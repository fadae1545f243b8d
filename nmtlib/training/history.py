"""Where a training stands, and what each epoch measured: a CSV file and the curves."""

from __future__ import annotations

import csv
import io
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from tqdm import tqdm

from nmtlib.errors import require
from nmtlib.files import write_atomically
from nmtlib.keys import build, typed
from nmtlib.training.measure import Sums


@dataclass(frozen=True)
class EpochRecord:
    """One epoch.  Losses in nats per token; NLL and perplexity never are smoothed, `train_loss` is,
    and has the share of teachers and R-Drop in it.

    The training figures are those of the changing model, with dropout, so early ones look worse
    than validation.  `updates` and `seconds` count from the start of the training,
    `tokens_per_second` the target tokens of this epoch.
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

    def __post_init__(self) -> None:
        require_amounts(vars(self))

    def line(self, epochs: int) -> str:
        """One line for people."""
        train, validation = self.train_perplexity, self.validation_perplexity
        return (
            f"epoch {self.epoch:>3}/{epochs}  loss {self.train_loss:.3f}  "
            f"perplexity train {train:.2f} validation {validation:.2f}  "
            f"accuracy {self.validation_accuracy:.3f}  "
            f"{self.tokens_per_second:,.0f} tokens/s  {self.seconds:.0f} s"
        )


@dataclass
class Progress:
    """Where a training stands; saved with every checkpoint, so that it can be resumed from there.

    `epoch` counts the finished epochs and `batches` those done of the next; `sums` are the running
    sums of that epoch and `epoch_seconds` its time; `seconds` is the time of the whole training.
    """

    epoch: int = 0
    batches: int = 0
    updates: int = 0
    seconds: float = 0.0
    epoch_seconds: float = 0.0
    sums: Sums = Sums()
    history: list[EpochRecord] = field(default_factory=list)

    @classmethod
    def from_dict(cls, values: Any) -> Progress:
        """What `asdict` made a dictionary of.  Raises ValueError for anything else."""
        try:
            named = dict(zip(Sums._fields, values["sums"], strict=True))
            sums = Sums(**{name: typed(named[name], float, f"sums.{name}") for name in named})
            history = [build(EpochRecord, row) for row in values["history"]]
        except (KeyError, TypeError) as error:
            raise ValueError(f"sums and history are not there ({error!r})") from None
        progress = build(cls, values, sums=sums, history=history)
        require_amounts({**vars(progress), **sums._asdict()})
        epochs, expected = [record.epoch for record in history], progress.epoch
        require(epochs == [*range(1, expected + 1)], "history", f"of {expected} epochs", epochs)
        return progress

    @property
    def best(self) -> EpochRecord | None:
        """The epoch with the lowest validation loss so far."""
        return min(self.history, key=lambda r: r.validation_nll, default=None)

    def stuck(self, patience: int) -> bool:
        """Whether validation has not improved for `patience` epochs; 0 is patience without end."""
        return bool(patience and self.best and self.epoch - self.best.epoch >= patience)

    def bar(self, epochs: int, batches: int, *, shown: bool) -> tqdm:
        """A bar for the batches of this epoch; on a terminal only."""
        title = f"epoch {self.epoch + 1}/{epochs}"
        look = {"desc": title, "unit": "batch", "leave": False}
        hidden = not (shown and sys.stderr.isatty())
        return tqdm(total=batches, initial=self.batches, disable=hidden, **look)

    def count_time(self, since: float) -> float:
        """Count the time since a moment (as `time.monotonic` gives it); returns the present one."""
        now = time.monotonic()
        self.seconds += now - since
        self.epoch_seconds += now - since
        return now

    def end_epoch(self, train: Sums, validation: Sums, learning_rate: float) -> EpochRecord:
        """Record the epoch that has ended, and stand at the beginning of the next."""
        record = EpochRecord(
            epoch=self.epoch + 1,
            updates=self.updates,
            seconds=self.seconds,
            learning_rate=learning_rate,
            train_loss=train.loss_per_token,
            train_nll=train.nll_per_token,
            train_perplexity=train.perplexity,
            train_accuracy=train.accuracy,
            validation_nll=validation.nll_per_token,
            validation_perplexity=validation.perplexity,
            validation_accuracy=validation.accuracy,
            tokens_per_second=float(train.labels) / self.epoch_seconds,
        )
        self.history.append(record)
        self.epoch, self.batches, self.epoch_seconds, self.sums = record.epoch, 0, 0.0, Sums()
        return record


def require_amounts(values: dict[str, Any]) -> None:
    """Raise ValueError naming the first of some numbers that is negative or not finite."""
    for name, value in values.items():
        if isinstance(value, int | float):
            require(0 <= value < math.inf, name, "a finite number, at least 0", value)


def write_history(path: str | Path, history: Sequence[EpochRecord]) -> None:
    """Write one CSV row an epoch."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [f.name for f in fields(EpochRecord)], lineterminator="\n")
    writer.writeheader()
    for record in history:
        values = asdict(record).items()
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in values})
    write_atomically(path, text.getvalue())


def read_history(path: str | Path) -> list[EpochRecord]:
    """Read what `write_history` wrote."""
    kinds: dict[str, Any] = {f.name: int if f.type == "int" else float for f in fields(EpochRecord)}
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = [{k: kinds[k](v) for k, v in row.items()} for row in csv.DictReader(file)]
        records = [EpochRecord(**row) for row in rows]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no history of a training ({error!r})") from None
    if not records:
        raise ValueError(f"{path} holds no epoch")
    return records


def draw_curves(path: str | Path, history: Sequence[EpochRecord], title: str = "") -> None:
    """Draw loss, perplexity and accuracy of both splits against epochs into a PNG or SVG file."""
    from matplotlib.figure import Figure  # not pyplot: no window system, no global state
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    figure = Figure(figsize=(12, 3.9), layout="constrained")
    epochs = [r.epoch for r in history]
    best = min(history, key=lambda r: r.validation_nll)
    panels = {
        "nll": "negative log-likelihood (nats per token)",
        "perplexity": "perplexity",
        "accuracy": "token accuracy",
    }
    for axes, (key, label) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        for split, color, marker in (("train", "#0072B2", "o"), ("validation", "#D55E00", "s")):
            values = [getattr(r, f"{split}_{key}") for r in history]
            axes.plot(epochs, values, color=color, marker=marker, markersize=3, label=split)
        lowest = f"lowest validation loss (epoch {best.epoch})"
        axes.axvline(best.epoch, color="0.6", linestyle=":", label=lowest)
        axes.set(xlabel="epoch", ylabel=label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if key == "perplexity":
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.grid(alpha=0.3)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(title)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100, format=Path(path).suffix[1:] or "png")
    write_atomically(path, drawn.getvalue())
