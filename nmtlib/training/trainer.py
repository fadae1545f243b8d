"""The training loop: updates, validation, the best checkpoint, and a stop at any moment that loses
nothing.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from nmtlib.data.batching import Batch, Example, collate, lengths_of, plan_batches
from nmtlib.data.vocab import PAD
from nmtlib.model.transformer import Transformer
from nmtlib.settings import TrainingSettings
from nmtlib.training.checkpoint import (
    average_checkpoints,
    load_model,
    load_weights,
    optimizer_tensors,
    read_checkpoint,
    restore_optimizer,
    save_checkpoint,
)
from nmtlib.training.distributed import Processes
from nmtlib.training.hardware import choose_device, choose_precision, to_device
from nmtlib.training.history import EpochRecord, write_history
from nmtlib.training.loss import perplexity
from nmtlib.training.measure import LABELS, NLL, measure, measure_all
from nmtlib.training.schedule import cosine_rate, inverse_sqrt_rate, noam_rate
from nmtlib.training.signals import stop_on_signal


@dataclass
class Progress:
    """Where a training stands; saved with every checkpoint, so that a resumed one goes on from
    there.

    `epoch` counts the finished epochs and `batches` those done of the next; `sums` are the running
    sums of that epoch: smoothed loss, NLL, correct labels, labels; `seconds` the time spent
    training so far.
    """

    epoch: int = 0
    batches: int = 0
    updates: int = 0
    seconds: float = 0.0
    epoch_seconds: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0] * 4)
    history: list[EpochRecord] = field(default_factory=list)

    @property
    def best(self) -> EpochRecord | None:
        """The epoch with the lowest validation loss so far."""
        return min(self.history, key=lambda r: r.validation_nll, default=None)


class Trainer:
    """Train a model on examples and keep everything about it in a run folder.

    The folder receives `last.safetensors` (all that a resume needs), `best.safetensors` (the epoch
    with the lowest validation loss), `epoch-NNN.safetensors` (the last few, for averaging),
    `history.csv`, and at the end `model.safetensors`: the best epoch or the average of the last
    ones, whichever validates better.
    """

    def __init__(
        self,
        model: Transformer,
        train: Sequence[Example],
        validation: Sequence[Example],
        settings: TrainingSettings,
        folder: str | Path,
        *,
        processes: Processes | None = None,
        report: Callable[[str], None] = print,
        resegment: Callable[[int], Sequence[Example]] | None = None,
        after_epoch: Callable[[Trainer], None] | None = None,
    ):
        """`resegment` gives the sentences of `train` in other pieces for each epoch, counted from
        0.  `after_epoch` is called with the trainer when an epoch is saved, and its time does not
        count as training.

        Raises ValueError where there is nothing to train on or a sentence is longer than the model
        allows.
        """
        if not train or not validation:
            raise ValueError(
                f"training needs sentences: {len(train)} for training, {len(validation)} for validation"
            )
        # later epochs may hold a few batches more or less; the schedule counts those of the first
        if resegment:
            train = resegment(0)
        self.settings, self.resegment = settings, resegment
        self.folder = Path(folder)
        self.processes = processes or Processes(choose_device(settings.device))
        self.device = self.processes.device
        self.precision = choose_precision(self.device, settings.precision)
        self.report = report if self.processes.is_main else lambda line: None
        self.after_epoch = after_epoch if self.processes.is_main else None
        self.model = model.to(self.device)
        self.model.checkpoint_activations = settings.checkpoint_activations
        self.train, self.validation = train, validation
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True
        )
        self.lengths = lengths_of(
            train
        )  # all that is kept in memory of a corpus that is read from files
        self.batches_per_epoch = len(plan_batches(self.lengths, settings.max_tokens))
        self.updates_per_epoch = math.ceil(self.batches_per_epoch / settings.accumulate)
        self.progress = Progress()

    def resume(self) -> None:
        """Go on from `last.safetensors`.  Raises FileNotFoundError or ValueError where that is
        impossible.
        """
        path = self.folder / "last.safetensors"
        _, tensors, notes = read_checkpoint(path)
        if "progress" not in notes:
            raise ValueError(
                f"{path} holds a model but no state of its training; it cannot be resumed"
            )
        load_weights(self.model, tensors, where=path)
        restore_optimizer(self.model, self.optimizer, tensors)
        self.progress = Progress(**notes["progress"])
        self.progress.history = [EpochRecord(**record) for record in notes["progress"]["history"]]

    def fit(self, minutes: float | None = None) -> list[EpochRecord]:
        """Train until the last epoch, early stopping, the time limit in minutes, or Ctrl-C; returns
        the history.
        """
        self.deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
        with stop_on_signal() as self.stop_asked:
            while self.progress.epoch < self.settings.epochs and not self.out_of_patience():
                if not self.run_epoch():
                    self.report(
                        f"stopped in epoch {self.progress.epoch + 1} after {self.progress.updates} updates; "
                        f"--resume goes on from here"
                    )
                    break
                if self.after_epoch:
                    started = time.monotonic()
                    self.after_epoch(self)
                    self.deadline += time.monotonic() - started
                if self.must_stop() and self.progress.epoch < self.settings.epochs:
                    self.report(
                        f"stopped after epoch {self.progress.epoch}; --resume goes on from here"
                    )
                    break
        if self.processes.is_main and self.progress.history:
            self.choose_model()
        self.processes.wait()
        return self.progress.history

    def run_epoch(self) -> bool:
        """The rest of one epoch; False where it was asked to stop before the end."""
        settings, progress = self.settings, self.progress
        started, earlier, before = time.monotonic(), progress.seconds, progress.epoch_seconds
        if self.resegment:
            self.train = self.resegment(progress.epoch)
            self.lengths = lengths_of(self.train)
        # Batches depend on seed and epoch alone, so a resumed epoch finds the same ones and skips
        # those done.
        plan = plan_batches(
            self.lengths, settings.max_tokens, seed=settings.seed * 100_003 + progress.epoch
        )
        sums = (
            torch.tensor(progress.sums, dtype=torch.float64, device=self.device)
            * self.processes.is_main
        )
        terminal = self.processes.is_main and sys.stderr.isatty()
        bar = tqdm(
            total=len(plan),
            initial=progress.batches,
            disable=not terminal,
            leave=False,
            unit="batch",
            desc=f"epoch {progress.epoch + 1}/{settings.epochs}",
        )
        self.model.train()
        with bar:
            while True:
                numbers = plan[progress.batches : progress.batches + settings.accumulate]
                labels = int(
                    (self.lengths[np.concatenate(numbers), 1] - 1).sum()
                )  # all of a target but BOS
                sums += self.update(self.shares(numbers), labels)
                progress.batches += len(numbers)
                bar.update(len(numbers))
                progress.epoch_seconds = before + time.monotonic() - started
                progress.seconds = earlier + time.monotonic() - started
                if progress.batches >= len(plan):
                    break
                stop = self.must_stop()
                if stop or (
                    settings.save_updates and progress.updates % settings.save_updates == 0
                ):
                    progress.sums = self.total(sums)
                    self.save()
                if stop:
                    return False
        self.finish_epoch(*self.total(sums))
        return True

    def total(self, sums: Tensor) -> list[float]:
        """The sums of all processes.  Raises FloatingPointError where the loss is no longer a
        number.
        """
        total = self.processes.sum(sums.clone()).tolist()
        # A step can spoil the weights before a loss shows it, and what is saved must be sound.
        if not all(map(math.isfinite, total)) or not all(
            p.isfinite().all() for p in self.model.parameters()
        ):
            raise FloatingPointError(
                f"the loss became {total[0]} by update {self.progress.updates}; train again with a lower learning_rate "
                f"or a longer warmup.  What was saved before, in {self.folder}, is sound"
            )
        return total

    def shares(self, numbers: Sequence[np.ndarray]) -> list[Batch]:
        """This process's rows of some batches; only these are read.  A batch may have fewer rows
        than processes.
        """
        mine = [batch[self.processes.rank :: self.processes.count] for batch in numbers]
        return [collate([self.train[i] for i in batch]) for batch in mine if len(batch)]

    def update(self, batches: list[Batch], labels: int | None = None) -> Tensor:
        """One step of the optimizer on one or several batches; returns this process's sums (see
        `Progress`).

        Losses are summed and divided by the number of labels of *all* batches and processes: the
        update does not depend on how the same sentences are spread over them.  One process alone
        need not be told `labels`.
        """
        settings, processes = self.settings, self.processes
        self.progress.updates += 1
        if labels is None:
            labels = sum(int((batch.labels != PAD).sum()) for batch in batches)
        rate = self.rate(self.progress.updates)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        # Dropout depends on seed, update and process alone, so a resumed training draws what the
        # first would have.
        torch.manual_seed(
            (settings.seed * 1_000_003 + self.progress.updates) * 1009 + processes.rank
        )
        sums = torch.zeros(4, dtype=torch.float64, device=self.device)
        for batch in batches:
            batch = to_device(batch, self.device)
            loss, figures = measure(
                self.model,
                batch,
                precision=self.precision,
                smoothing=settings.smoothing,
                r_drop=settings.r_drop,
            )
            (loss / labels).backward()
            sums += figures
        processes.sum_gradients(self.model.parameters())
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return sums

    def validate(self) -> tuple[float, float]:
        """NLL per token and token accuracy on the validation split; each process measures its
        share.
        """
        sums = self.measure_validation(self.model, self.processes.rank, self.processes.count)
        _, nll, correct, labels = self.processes.sum(sums.to(self.device)).tolist()
        return nll / labels, correct / labels

    def measure_validation(self, model: Transformer, first: int = 0, step: int = 1) -> Tensor:
        """The sums of a model over every `step`-th validation sentence."""
        return measure_all(
            model,
            self.validation[first::step],
            precision=self.precision,
            max_tokens=self.settings.max_tokens,
        )

    def rate(self, update: int) -> float:
        """The learning rate of one update, counted from 1."""
        settings = self.settings
        if settings.schedule == "noam":
            return noam_rate(
                update, self.model.config.d_model, settings.warmup, settings.learning_rate
            )
        if settings.schedule == "inverse-sqrt":
            return inverse_sqrt_rate(update, settings.learning_rate, settings.warmup)
        total = self.updates_per_epoch * settings.epochs
        return cosine_rate(update, settings.learning_rate, min(settings.warmup, total), total)

    def finish_epoch(self, loss: float, nll: float, correct: float, labels: float) -> None:
        """Validate, record, and save what the end of an epoch leaves behind; given are the sums of
        the epoch.
        """
        progress = self.progress
        validation_nll, validation_accuracy = self.validate()
        progress.epoch += 1
        record = EpochRecord(
            epoch=progress.epoch,
            updates=progress.updates,
            seconds=progress.seconds,
            learning_rate=self.rate(progress.updates),
            train_loss=loss / labels,
            train_nll=nll / labels,
            train_perplexity=perplexity(nll, labels),
            train_accuracy=correct / labels,
            validation_nll=validation_nll,
            validation_perplexity=perplexity(validation_nll, 1),
            validation_accuracy=validation_accuracy,
            tokens_per_second=labels / progress.epoch_seconds,
        )
        progress.history.append(record)
        progress.batches, progress.epoch_seconds, progress.sums = 0, 0.0, [0.0] * 4
        if self.processes.is_main:
            notes = {"weights": f"epoch {progress.epoch}", "validation_nll": validation_nll}
            save_checkpoint(
                self.folder / f"epoch-{progress.epoch:03d}.safetensors", self.model, **notes
            )
            if progress.best is record:
                save_checkpoint(self.folder / "best.safetensors", self.model, **notes)
                # What an earlier, stopped call of `fit` chose is worse than this epoch.
                (self.folder / "model.safetensors").unlink(missing_ok=True)
            write_history(self.folder / "history.csv", progress.history)
        self.save()
        for old in self.epoch_files()[: -self.settings.average] if self.processes.is_main else []:
            old.unlink()
        self.report(record.line(self.settings.epochs))  # only now: a reported epoch is a saved one

    def save(self) -> None:
        """Write `last.safetensors`: all that a resume needs."""
        if self.processes.is_main:
            tensors = optimizer_tensors(self.model, self.optimizer)
            save_checkpoint(
                self.folder / "last.safetensors",
                self.model,
                tensors,
                progress=asdict(self.progress),
            )

    def choose_model(self) -> None:
        """Write `model.safetensors`: the best epoch, or the average of the last ones where that
        validates better.
        """
        best = self.folder / "best.safetensors"
        chosen, notes = load_model(best).to(self.device), read_checkpoint(best)[2]
        paths = self.epoch_files()
        if len(paths) > 1:
            averaged = Transformer(self.model.config).to(self.device)
            load_weights(averaged, average_checkpoints(paths))
            sums = self.measure_validation(averaged)
            nll = float(sums[NLL] / sums[LABELS])
            if nll < notes["validation_nll"]:
                chosen = averaged
                notes = {
                    "weights": f"average of the last {len(paths)} epochs",
                    "validation_nll": nll,
                }
        save_checkpoint(self.folder / "model.safetensors", chosen, **notes)
        self.report(
            f"kept: {notes['weights']}, validation perplexity {math.exp(notes['validation_nll']):.2f}"
        )

    def epoch_files(self) -> list[Path]:
        """Checkpoints of the last epochs, oldest first."""
        return sorted(
            self.folder.glob("epoch-*.safetensors"), key=lambda path: int(path.stem.split("-")[1])
        )

    def out_of_patience(self) -> bool:
        """Whether validation has not improved for `patience` epochs."""
        best = self.progress.best
        stuck = bool(
            self.settings.patience
            and best
            and self.progress.epoch - best.epoch >= self.settings.patience
        )
        if stuck:
            self.report(
                f"no better validation loss for {self.settings.patience} epochs: stopping early"
            )
        return stuck

    def must_stop(self) -> bool:
        """Whether any process was asked to stop or is out of time; all of them learn it at once."""
        late = self.processes.is_main and time.monotonic() > self.deadline
        asked = late or self.stop_asked.is_set()
        if (
            self.processes.count == 1
        ):  # to read a number from a GPU is to wait until all its work is done
            return asked
        return bool(self.processes.sum(torch.tensor([float(asked)], device=self.device)))
