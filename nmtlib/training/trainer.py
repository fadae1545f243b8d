"""The training loop: updates, validation, the best checkpoint, and a stop that loses nothing."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch

from nmtlib.data.batching import Batch, Example
from nmtlib.model.transformer import Transformer
from nmtlib.run import Run
from nmtlib.sections import TrainingSettings
from nmtlib.specials import PAD
from nmtlib.training import checkpoint, state
from nmtlib.training.distributed import Processes
from nmtlib.training.feed import SEEDS, Feed
from nmtlib.training.hardware import choose_device, choose_precision, compiled, to_device
from nmtlib.training.history import EpochRecord, Progress
from nmtlib.training.loss import perplexity
from nmtlib.training.measure import Sums, measure, measure_all, require_finite
from nmtlib.training.optimizer import Optimizer
from nmtlib.training.schedule import make_schedule
from nmtlib.training.signals import stop_on_signal
from nmtlib.training.writer import Writer


class Trainer:
    """Train a model on examples and keep everything about it in a run folder (see `Run`).

    The training is in `run_epoch`, `update`, `validate`, `finish_epoch` and `choose_model`; what
    follows them saves, resumes, stops and reports.  `by_epoch` gives the examples of each epoch,
    counted from 0, where they are not simply `train`.  `after_epoch` is called with the trainer
    when an epoch is saved, and its time does not count as training.  `identity` has a digest of
    each thing that a resume must find as it was.  `teachers` answer in turn, in training mode.
    """

    def __init__(
        self,
        model: Transformer,
        train: Sequence[Example],
        validation: Sequence[Example],
        settings: TrainingSettings,
        run: Run | str | Path,
        *,
        processes: Processes | None = None,
        report: Callable[[str], None] = print,
        by_epoch: Callable[[int], Sequence[Example]] | None = None,
        after_epoch: Callable[[Trainer], None] | None = None,
        identity: Mapping[str, str] | None = None,
        teachers: Sequence[Transformer] = (),
    ):
        """Raises ValueError for no sentences, or one that is longer than `settings.max_tokens`."""
        if not train or not validation:
            given = f"{len(train)} for training, {len(validation)} for validation"
            raise ValueError(f"training needs sentences, not {given}")
        self.settings, self.run = settings, run if isinstance(run, Run) else Run(run)
        self.processes = processes or Processes(choose_device(settings.device))
        self.device = self.processes.device
        self.precision = self.processes.agree(choose_precision(self.device, settings.precision))
        self.report = report if self.processes.is_main else lambda line: None
        self.after_epoch = after_epoch if self.processes.is_main else None
        self.model = model.to(self.device)
        self.model.checkpoint_activations = settings.checkpoint_activations
        self.compiled = compiled(self.model, settings.compile)
        self.teachers: list = [teacher.to(self.device).train() for teacher in teachers] or [None]
        self.optimizer = Optimizer(settings.optimizer, model)
        self.by_epoch, self.validation = by_epoch, validation
        self.feed = self.feed_of(by_epoch(0) if by_epoch else train)
        # Later epochs may hold a few batches more or less; the schedule counts those of the first.
        self.batches_per_epoch = len(self.feed.plan())
        updates = settings.epochs * math.ceil(self.batches_per_epoch / settings.accumulate)
        self.rate = make_schedule(settings, model.config.d_model, updates)
        self.progress, self.identity = Progress(), dict(identity or {})
        self.owns_folder = False  # until the first epoch: there may be another training in it
        self.deadline, self.stop_asked = math.inf, threading.Event()
        # A CPU that writes cannot train meanwhile; a GPU need not wait for a disk.
        self.writer = Writer(background=self.device.type == "cuda")

    def feed_of(self, examples: Sequence[Example]) -> Feed:
        """The batches that are made of some examples."""
        return Feed(examples, self.settings, self.processes, self.model.config.max_length)

    def fit(self, minutes: float | None = None) -> list[EpochRecord]:
        """Train to the last epoch, early stopping, a time limit or Ctrl-C; returns the history.

        Raises FileExistsError or ValueError for a folder with another training in it, and
        FloatingPointError where this one diverges.
        """
        settings, progress = self.settings, self.progress
        self.deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
        with stop_on_signal(self.stop_asked):
            while progress.epoch < settings.epochs:
                if progress.stuck(patience := settings.patience):
                    self.report(f"no better validation loss for {patience} epochs: stopping early")
                    break
                finished = self.run_epoch()
                if finished and self.after_epoch:
                    started = time.monotonic()
                    self.writer.wait()
                    self.after_epoch(self)
                    self.deadline += time.monotonic() - started
                if not finished or (self.must_stop() and progress.epoch < settings.epochs):
                    within = f"in epoch {progress.epoch + 1} after {progress.updates} updates"
                    place = f"after epoch {progress.epoch}" if finished else within
                    self.report(f"stopped {place}; --resume goes on from here")
                    break
        self.deadline = math.inf
        self.writer.wait()
        if self.processes.is_main and progress.history:
            self.choose_model()
        self.processes.wait()
        return progress.history

    def run_epoch(self) -> bool:
        """Train the rest of an epoch; False where it was asked to stop before the end."""
        settings, progress, clock = self.settings, self.progress, time.monotonic()
        if not self.owns_folder:
            state.require_untrained(self.run)
            self.owns_folder = True
        if self.by_epoch:
            self.feed = self.feed_of(self.by_epoch(progress.epoch))
        # Batches depend on seed and epoch alone, so a resumed epoch finds the same ones and skips
        # those done.
        plan = self.feed.plan((settings.seed * 100_003 + progress.epoch) % SEEDS)
        # Each process sums up its own share; what was saved is the share of the first.
        sums = progress.sums if self.processes.is_main else Sums()
        self.model.train()
        with progress.bar(settings.epochs, len(plan), shown=self.processes.is_main) as bar:
            for first in range(progress.batches, len(plan), settings.accumulate):
                numbers = plan[first : first + settings.accumulate]
                sums += self.update(self.feed.shares(numbers), self.feed.labels(numbers))
                progress.batches += len(numbers)
                bar.update(len(numbers))
                clock = progress.count_time(since=clock)
                if progress.batches < len(plan) and self.stops_here(sums):
                    return False
            sums = sums.floats()  # a GPU has now done all that was asked of it
            progress.count_time(since=clock)
        self.finish_epoch(sums)
        return True

    def update(self, batches: list[Batch], labels: int | None = None) -> Sums:
        """One step of the optimizer on one or several batches; returns this process's sums.

        Losses are summed and divided by the number of labels of *all* batches and processes: the
        update does not depend on how the same sentences are spread over them.  One process alone
        need not be told `labels`.
        """
        settings, progress = self.settings, self.progress
        progress.updates += 1
        labels = labels or sum(int((batch.labels != PAD).sum()) for batch in batches)
        self.optimizer.set_rate(self.rate(progress.updates))
        # Dropout depends on seed, update and process alone, so a resumed training drops the same.
        seed = (settings.seed * 1_000_003 + progress.updates) * 1009 + self.processes.rank
        torch.manual_seed(seed % SEEDS)
        sums = Sums()
        options: dict = {"smoothing": settings.smoothing, "r_drop": settings.r_drop}
        options["teacher"] = self.teachers[progress.updates % len(self.teachers)]
        options["teacher_weight"] = settings.teacher_weight
        for batch in batches:
            batch = to_device(batch, self.device)
            loss, figures = measure(self.compiled, batch, precision=self.precision, **options)
            (loss / labels).backward()
            sums += figures
        self.processes.sum_gradients(self.model.parameters())
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return sums

    def validate(self) -> Sums:
        """The sums over the validation split, of which each process measures its share."""
        share = self.processes.share(self.validation)
        return self.processes.total(self.sums_of(self.model, share))

    def sums_of(self, model: Transformer, examples: Sequence[Example]) -> Sums:
        """The sums of a model over examples, in the precision and batch size of the training."""
        budget = self.settings.max_tokens
        return measure_all(model, examples, precision=self.precision, max_tokens=budget)

    def finish_epoch(self, sums: Sums) -> None:
        """Validate, record and save; `sums` are those of this process and of the whole epoch."""
        progress = self.progress
        train, validation = self.processes.total(sums), self.validate()
        require_finite(self.model, train, validation, when=f"update {progress.updates}")
        record = progress.end_epoch(train, validation, self.rate(progress.updates))
        if self.processes.is_main:
            state.save_training(self)
            state.keep_epoch(self)
        # Only then: a reported epoch is a saved one.
        self.writer.do(partial(self.report, record.line(self.settings.epochs)))

    def choose_model(self) -> None:
        """Write the best epoch, or the average of the last where that is better or asked for."""
        best, config = self.run.best_file, self.model.config
        chosen, notes = checkpoint.load_model(best), checkpoint.read_origin(best)
        checkpoint.require_config(best, chosen.config, config)
        epochs = [file for file in self.epoch_files() if file.is_file()]
        if lost := [file.stem for file in self.epoch_files() if file not in epochs]:
            self.report(f"missing, so not averaged: {', '.join(lost)}")
        always = self.settings.keep == "average"
        if len(epochs) > 1 or (epochs and always):
            averaged = Transformer(config).to(self.device)
            checkpoint.load_weights(averaged, checkpoint.average_checkpoints(epochs, config))
            nll = self.sums_of(averaged, self.validation).nll_per_token
            if nll < notes["validation_nll"] or always:
                several = f"average of the last {len(epochs)} epochs"
                weights = several if len(epochs) > 1 else f"epoch {self.progress.epoch}"
                chosen, notes = averaged, {**notes, "weights": weights, "validation_nll": nll}
        checkpoint.save_checkpoint(self.run.model_file, chosen, **notes)
        found = perplexity(notes["validation_nll"], 1)
        self.report(f"kept: {notes['weights']}, validation perplexity {found:.2f}")

    def epoch_files(self) -> list[Path]:
        """Where the last epochs of this training were written, oldest first."""
        last = self.progress.history[-self.settings.average :]
        return [self.run.epoch_file(record.epoch) for record in last]

    def resume(self) -> None:
        """Go on from the last save.  Raises FileNotFoundError or ValueError where there is none."""
        state.resume_training(self)
        # `finish_epoch` may have been killed between the last save and the other files.
        kept = self.progress.batches or self.run.epoch_file(self.progress.epoch).is_file()
        if self.processes.is_main and not kept:
            state.keep_epoch(self)
        self.owns_folder = True
        done = self.progress
        self.report(f"resuming after {done.epoch} epochs and {done.updates} updates")

    # Stopping

    def must_stop(self) -> bool:
        """Whether any process was asked to stop or is out of time; all of them learn it at once."""
        late = self.processes.is_main and time.monotonic() > self.deadline
        return self.processes.any(late or self.stop_asked.is_set())

    def stops_here(self, sums: Sums) -> bool:
        """Between two updates: save where it is time to, and tell whether to stop."""
        stop, every = self.must_stop(), self.settings.save_updates
        if stop or (every and self.progress.updates % every == 0):
            self.progress.sums = self.processes.total(sums)
            require_finite(self.model, self.progress.sums, when=f"update {self.progress.updates}")
            if self.processes.is_main:
                state.save_training(self)
        return stop
