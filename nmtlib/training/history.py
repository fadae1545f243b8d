"""The progress of a run, and what each epoch measured, as a CSV file."""

from __future__ import annotations

import csv
import io
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from tqdm import tqdm

from nmtlib.errors import require
from nmtlib.files import write_atomically
from nmtlib.settings import explain
from nmtlib.training.loss import Totals

SOON = 30.0  # seconds of training after which the time that is left can be told
Number = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class EpochRecord:
    """One epoch.  Losses in nats per token; NLL and perplexity are never smoothed, `train_loss` is,
    and a recipe may have added to it.

    The training figures are those of the changing model, with dropout, so early ones look worse
    than validation.  `updates` and `seconds` count from the start of training, `tokens_per_second`
    the target tokens of this epoch.  `busy_seconds` is the processor time of the training divided
    by its threads: unlike `seconds`, it does not depend on what else the machine computes.
    """

    epoch: Number
    updates: Number
    seconds: Amount
    learning_rate: Amount
    train_loss: Amount
    train_nll: Amount
    train_perplexity: Amount
    train_accuracy: Amount
    validation_nll: Amount
    validation_perplexity: Amount
    validation_accuracy: Amount
    tokens_per_second: Amount
    busy_seconds: Amount = 0.0  # 0 in older histories

    def line(self, epochs: int) -> str:
        """One line for people."""
        train, validation = self.train_perplexity, self.validation_perplexity
        text = (
            f"epoch {self.epoch:>3}/{epochs}  loss {self.train_loss:.3f}  "
            f"perplexity train {train:.2f} validation {validation:.2f}  "
            f"accuracy {self.validation_accuracy:.3f}  "
            f"{self.tokens_per_second:,.0f} tokens/s  {self.seconds:.0f} s"
        )
        left = minutes_left(self.seconds, self.epoch, epochs)
        return f"{text}, {left}" if left else text


def minutes_left(seconds: float, done: float, epochs: int) -> str:
    """How long the epochs that are left take, '' in the first half minute and at the end."""
    if seconds < SOON or not 0 < done < epochs:
        return ""
    minutes = seconds / done * (epochs - done) / 60
    return f"about {max(1, round(minutes))} min left"


def moment() -> tuple[float, float]:
    """The present time in seconds, by the clock and of this process on all processors."""
    return time.monotonic(), time.process_time()


@dataclass(config=ConfigDict(extra="forbid"))
class Progress:
    """How far training is; saved with every checkpoint, so that a run resumes from there.

    `epoch` counts the finished epochs and `batches` those done of the next; `totals` are the
    running totals of that epoch, `epoch_seconds` its time, `seconds` and `busy_seconds` (see
    `EpochRecord`) those of the whole run.
    """

    epoch: Number = 0
    batches: Number = 0
    updates: Number = 0
    seconds: Amount = 0.0
    busy_seconds: Amount = 0.0
    epoch_seconds: Amount = 0.0
    totals: Annotated[tuple[Amount, ...], Field(min_length=4, max_length=4)] = (0.0,) * 4
    history: list[EpochRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        epochs = [record.epoch for record in self.history]
        require(epochs == [*range(1, self.epoch + 1)], "epoch", f"the last of {epochs}", self.epoch)

    @property
    def best(self) -> EpochRecord | None:
        """The epoch with the lowest validation loss so far."""
        return min(self.history, key=lambda r: r.validation_nll, default=None)

    def stuck(self, patience: int) -> bool:
        """Whether validation has not improved for `patience` epochs; 0 means unlimited patience."""
        return bool(patience and self.best and self.epoch - self.best.epoch >= patience)

    def bar(self, epochs: int, batches: int, *, shown: bool) -> tqdm:
        """A progress bar for the batches of this epoch; on a terminal only."""
        look = {"desc": f"epoch {self.epoch + 1}/{epochs}", "unit": "batch", "leave": False}
        return tqdm(total=batches, initial=self.batches, disable=None if shown else True, **look)

    def count_time(self, since: tuple[float, float], threads: int = 1) -> tuple[float, float]:
        """Count the time since a `moment`, processor time a thread; returns the present moment."""
        now = moment()
        self.seconds += now[0] - since[0]
        self.epoch_seconds += now[0] - since[0]
        self.busy_seconds += (now[1] - since[1]) / min(threads, os.cpu_count() or 1)
        return now

    def end_epoch(self, train: Totals, validation: Totals, learning_rate: float) -> EpochRecord:
        """Record the epoch that has ended; the next one begins."""
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
            busy_seconds=self.busy_seconds,
        )
        self.history.append(record)
        self.epoch, self.batches, self.epoch_seconds = record.epoch, 0, 0.0
        self.totals = (0.0, 0.0, 0.0, 0.0)
        return record


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
    """Read what `write_history` wrote.  Raises ValueError for anything else."""
    if not Path(path).is_file():  # a pipe would be read for ever
        raise FileNotFoundError(f"no history of a run at {path}")
    try:
        with open(path, newline="", encoding="utf-8") as file:
            records = TypeAdapter(list[EpochRecord]).validate_python([*csv.DictReader(file)])
    except ValidationError as error:
        raise ValueError(f"{path} is not the history of a run: {explain(error)}") from None
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path} is not the history of a run: {error}") from None
    if not records:
        raise ValueError(f"{path} holds no epoch")
    return records
