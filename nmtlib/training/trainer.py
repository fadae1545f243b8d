"""The training loop: updates, validation, the best checkpoint, and a stop that loses nothing."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nmtlib.data.batching import Batch, BatchLoader, Example
from nmtlib.errors import require
from nmtlib.model.embeddings import drawing_from
from nmtlib.model.transformer import Transformer
from nmtlib.run import Run
from nmtlib.settings import TrainingSettings
from nmtlib.specials import PAD
from nmtlib.training import checkpoint
from nmtlib.training.hardware import Processes, choose_device, choose_precision, stop_on_signal
from nmtlib.training.history import SOON, EpochRecord, Progress, minutes_left, moment
from nmtlib.training.loss import Loss, Totals, autocast, measure_all, require_finite, smoothed_loss
from nmtlib.training.parallel import (
    backward_pass,
    gather_model,
    gather_moments,
    make_engine,
    release_weights,
    shard_layers,
)
from nmtlib.training.schedule import make_schedule

ADAM: dict[str, Any] = {"betas": (0.9, 0.98), "eps": 1e-9}  # Vaswani et al. 2017, 5.3
Update = Callable[["Trainer", Sequence[Batch], int], Totals]
SEEDS = 2**64  # torch takes seeds below this
SAVE_SECONDS = 300  # what a kill costs at most, besides the time of one update


def adam(model: Transformer) -> torch.optim.Optimizer:
    """The optimizer that a `Trainer` takes unless it is given another one."""
    return torch.optim.Adam(model.parameters(), lr=0.0, fused=True, **ADAM)


def plain_update(trainer: Trainer, batches: Sequence[Batch], labels: float) -> Totals:
    """Pass over this process's batches, then a step; all processes together have `labels`."""
    for group in trainer.optimizer.param_groups:
        group["lr"] = trainer.learning_rate(trainer.progress.updates)
    # The engine averages the gradients of the processes, and we want their sum: so each divides by
    # its part of the labels of all, and several processes make the update of one.
    labels = labels / trainer.processes.count
    totals = Totals()
    for number, batch in enumerate(batches, start=1):
        with backward_pass(trainer.engine, trainer.processes, last=number == len(batches)):
            with autocast(trainer.device, trainer.precision):
                loss, sums = trainer.loss(trainer.engine, batch, trainer.settings)
            (loss / labels).backward()
        totals += sums
    torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), trainer.settings.grad_clip)
    trainer.optimizer.step()
    trainer.optimizer.zero_grad()
    return totals


@dataclass(frozen=True)
class Recipe:
    """What may be changed about how a `Trainer` trains.

    `loss` is called with model, batch and settings.  `examples` gives those of each epoch, counted
    from 0, instead of the training split.  `optimizer` makes one for the model, `update` makes a
    step of it, on batches of the `loader`; None is `plain_update`.  `identity` holds a digest of
    each thing besides the settings and these functions that a resume must find unchanged.
    """

    loss: Loss = smoothed_loss
    examples: Callable[[int], Sequence[Example]] | None = None
    optimizer: Callable[[Transformer], Any] = adam
    loader: type[BatchLoader] = BatchLoader
    update: Update | None = None
    identity: Mapping[str, str] = field(default_factory=dict)

    def described(self) -> dict[str, str]:
        """What a resume compares: `identity`, and the names of all parts that are not nmtlib's.

        A function that was changed under its name is not noticed; `identity` may hold its digest.

        >>> Recipe(update=print, identity={"teachers": "3a7f"}).described()
        {'teachers': '3a7f', 'recipe.update': 'print'}
        """
        names = dict(self.identity)
        for part in fields(self):
            value = getattr(self, part.name)
            if part.name != "identity" and value is not part.default:
                # An instance has no name of its own, but its class has one.
                names[f"recipe.{part.name}"] = getattr(value, "__qualname__", type(value).__name__)
        return names


def require_shardable(recipe: Recipe) -> None:
    """Raise ValueError for what was never tried with sharded weights."""
    if recipe.optimizer is not adam or recipe.update is not None:
        raise ValueError(
            "training.shard=true works with Adam and plain updates only; leave out "
            "recipe.optimizer and recipe.recorded, or set training.shard=false"
        )


class Trainer:
    """Train a model on examples; with a `run`, save all that is needed to use and to resume it.

    `after_epoch` is called with the trainer when an epoch is saved; its time does not count.
    `whole` is the model as one process can use it: `model`, or where that is sharded what it was at
    the last save, in process 0 alone.  `description` is written into each file of the run: with it
    they translate.
    Raises ValueError for no sentences, or one longer than `settings.max_tokens`.
    """

    def __init__(
        self,
        model: Transformer,
        train: Sequence[Example],
        validation: Sequence[Example],
        settings: TrainingSettings,
        run: Run | str | Path | None = None,
        recipe: Recipe = Recipe(),  # noqa: B008, it is frozen
        *,
        after_epoch: Callable[[Trainer], None] | None = None,
        processes: Processes | None = None,
        description: checkpoint.Description | None = None,
        report: Callable[[str], None] = print,
    ):
        if not train or not validation:
            sizes = f"{len(train)} for training, {len(validation)} for validation"
            raise ValueError(f"training needs sentences, not {sizes}")
        self.settings, self.validation = settings, validation
        self.examples = recipe.examples or (lambda epoch: train)
        self.recipe, self.loss, self.after_epoch = recipe, recipe.loss, after_epoch
        self.run = Run(run) if isinstance(run, str | Path) else run
        self.processes = processes or Processes(choose_device(settings.device))
        self.device = self.processes.device
        self.precision = self.processes.broadcast(choose_precision(self.device, settings.precision))
        self.report = report if self.processes.is_main else lambda line: None
        self.model = model.to(self.device)
        self.model.checkpoint_activations = settings.checkpoint_activations
        self.sharded = settings.shard and self.processes.count > 1
        if self.sharded:
            require_shardable(recipe)
            shard_layers(self.model, self.processes)  # before the optimizer takes its parameters
        self.whole: Transformer | None = None if self.sharded else self.model
        self.optimizer = recipe.optimizer(self.model)
        self.loader = self.make_loader(self.examples(0))
        # Later epochs may hold a few batches more or less; the schedule counts those of the first.
        self.batches_per_epoch = len(self.loader.plan())
        updates = settings.epochs * math.ceil(self.batches_per_epoch / settings.accumulate)
        self.learning_rate = make_schedule(settings, model.config.d_model, updates)
        self.progress = Progress()
        self.description = description
        self.threads = torch.get_num_threads()  # each number of them adds in another order
        self.generator = torch.Generator()
        self.deadline, self.stop_asked = math.inf, threading.Event()
        self.last_saved = time.monotonic()

    @cached_property
    def engine(self) -> Any:
        """The model as a loss calls it: itself, or what also exchanges gradients.

        It is made at the first plain update: a recorded one sums the gradients in its own way.
        """
        return make_engine(self.model, self.processes)

    def fit(self, minutes: float | None = None) -> list[EpochRecord]:
        """Train to the last epoch, early stopping, a time limit or Ctrl-C; returns the history.

        Raises FileExistsError or ValueError for a folder with another run in it, and
        FloatingPointError where this one diverges.
        """
        settings, progress = self.settings, self.progress
        self.deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
        gpus = [self.device] if self.device.type == "cuda" else []
        # Each update seeds torch's generator; what the caller draws later must not depend on that.
        with stop_on_signal(self.stop_asked), torch.random.fork_rng(gpus):
            while progress.epoch < settings.epochs:
                if progress.stuck(patience := settings.patience):
                    self.report(f"no better validation loss for {patience} epochs: stopping early")
                    break
                finished = self.run_epoch()
                if finished and self.after_epoch and self.processes.is_main:
                    started = time.monotonic()
                    self.after_epoch(self)
                    self.deadline += time.monotonic() - started
                if not finished or (self.must_stop() and progress.epoch < settings.epochs):
                    within = f"in epoch {progress.epoch + 1} after {progress.updates} updates"
                    when = f"after epoch {progress.epoch}" if finished else within
                    self.report(f"stopped {when}; --resume goes on from here")
                    break
            self.deadline = math.inf
            if self.processes.is_main and progress.history:
                self.choose_model()
            self.processes.wait()
        return progress.history

    def run_epoch(self) -> bool:
        """Train the rest of an epoch; False where it was asked to stop before the end."""
        settings, progress, now = self.settings, self.progress, moment()
        threads = self.threads if self.device.type == "cpu" else 1
        if self.run and not progress.updates:
            self.run.require_untrained()
        plan = self.plan_epoch()
        # Each process adds up its own share; what was saved is the share of rank 0.
        totals = Totals(*progress.totals) if self.processes.is_main else Totals()
        self.model.train()
        with progress.bar(settings.epochs, len(plan), shown=self.processes.is_main) as bar:
            for first in range(progress.batches, len(plan), settings.accumulate):
                batches = plan[first : first + settings.accumulate]
                totals += self.update(self.loader.load(batches), self.loader.labels(batches))
                progress.batches += len(batches)
                bar.update(len(batches))
                if progress.batches % 50 < len(batches) and not bar.disable:
                    bar.set_postfix_str(f"loss {totals.loss_per_token:.3f}")
                before, now = progress.seconds, progress.count_time(now, threads)
                if before < SOON <= progress.seconds and not progress.history:
                    done = progress.batches / len(plan)
                    self.report(minutes_left(progress.seconds, done, settings.epochs))
                if progress.batches < len(plan) and self.stops_here(totals):
                    return False
            totals = totals.floats()  # a GPU has now done all that was asked of it
            progress.count_time(now, threads)
        self.finish_epoch(totals)
        return True

    def make_loader(self, examples: Sequence[Example]) -> BatchLoader:
        """What makes this process's share of the batches of some examples."""
        processes, budget = self.processes, self.settings.max_tokens
        return self.recipe.loader(examples, budget, self.device, processes.rank, processes.count)

    def plan_epoch(self) -> list[np.ndarray]:
        """The row numbers of each batch of the epoch that is not finished."""
        settings, epoch = self.settings, self.progress.epoch
        if (examples := self.examples(epoch)) is not self.loader.examples:
            self.loader = self.make_loader(examples)
        # Batches depend on seed and epoch alone: a resumed epoch finds the same, skips those done.
        return self.loader.plan((settings.seed * 100_003 + epoch) % SEEDS)

    def update(self, batches: Sequence[Batch], labels: int | None = None) -> Totals:
        """One step of the optimizer on one or several batches; returns this process's totals.

        The sum of losses is divided by the labels of *all* batches and processes, so that it does
        not matter how sentences are spread over them.  One process alone need not count `labels`.
        """
        settings, progress = self.settings, self.progress
        progress.updates += 1
        labels = labels or sum(int((batch.labels != PAD).sum()) for batch in batches)
        # Dropout depends on seed, update and process alone, so a resumed run drops the same.
        seed = (settings.seed * 1_000_003 + progress.updates) * 1009 + self.processes.rank
        torch.manual_seed(seed % SEEDS)  # for a GPU, and for what a recipe draws
        # On a CPU dropout has a generator of its own: other threads cannot draw from it.
        with drawing_from(self.generator.manual_seed(seed % SEEDS)):
            if self.recipe.update:
                return self.recipe.update(self, batches, labels)
            return plain_update(self, batches, labels)

    def validate(self) -> Totals:
        """The totals over the validation split, of which each process measures its share.

        Sharded weights are gathered batch by batch, for which all processes must be at the same
        one: each of them then measures everything.
        """
        if self.sharded:
            totals = self.totals_of(self.model, self.validation)
            release_weights(self.model)
            return totals
        return self.all_reduce(self.totals_of(self.model, self.processes.shard(self.validation)))

    def totals_of(self, model: Transformer, examples: Sequence[Example]) -> Totals:
        """The totals of a model over examples, in the precision and batch size of the run."""
        budget = self.settings.max_tokens
        return measure_all(model, examples, precision=self.precision, max_tokens=budget)

    def all_reduce(self, totals: Totals) -> Totals:
        """The totals of all processes, as floats."""
        mine = torch.tensor(totals.floats(), dtype=torch.float64)
        return Totals(*self.processes.all_reduce(mine).tolist())

    def finish_epoch(self, totals: Totals) -> None:
        """Validate, record and save; `totals` are those of this process and of the whole epoch."""
        progress = self.progress
        train, validation = self.all_reduce(totals), self.validate()
        require_finite(self.model, train, validation, when=f"update {progress.updates}")
        rate = self.learning_rate(progress.updates)
        record = progress.end_epoch(train, validation, rate)
        self.save()
        self.keep_epoch()
        self.report(record.line(self.settings.epochs))  # a reported epoch is a saved one

    def choose_model(self) -> None:
        """Write the weights to translate with: the best epoch, or an average of the last ones."""
        if self.run:
            files, measure = self.epoch_files(), partial(self.totals_of, examples=self.validation)
            for line in checkpoint.choose_model(
                self.run, self.model, files, self.settings.keep, measure, self.description
            ):
                self.report(line)

    def epoch_files(self) -> list[Path]:
        """Where the last epochs were saved, oldest first."""
        last = self.progress.history[-self.settings.average :]
        return [self.run.epoch_file(record.epoch) for record in last] if self.run else []

    def save(self) -> None:
        """Save all that `resume` needs; all processes call it."""
        if not self.run:
            return
        if self.sharded:  # a work of all processes
            self.whole = gather_model(self.model, self.processes)
            moments = gather_moments(self.model, self.optimizer, self.processes)
        else:
            moments = checkpoint.moments_of(self.model, self.optimizer)
        if self.whole and self.processes.is_main:
            precision = str(self.precision).removeprefix("torch.")
            state = checkpoint.State.model_validate(
                {
                    "progress": self.progress,
                    "precision": precision,
                    "threads": self.threads,
                    "identity": self.recipe.described(),
                }
            )
            checkpoint.save_state(self.run, self.whole, moments, state, self.description)
        self.last_saved = time.monotonic()

    def keep_epoch(self) -> None:
        """Write the files of the epoch just ended."""
        if self.run and self.whole and self.processes.is_main:
            checkpoint.keep_epoch(
                self.run, self.whole, self.progress, self.settings.average, self.description
            )

    def resume(self) -> None:
        """Continue from the last save.  Raises FileNotFoundError or ValueError if there is none."""
        if not self.run:
            raise ValueError("a trainer without a run saves nothing and cannot be resumed")
        state = checkpoint.load_state(
            self.run, self.model, self.optimizer, self.recipe.described(), self.description
        )
        self.progress, self.precision = state.progress, getattr(torch, state.precision)
        done, threads, path = self.progress, state.threads, self.run.state_file
        before = done.history[-1].updates if done.history else 0
        begun = math.ceil(done.batches / self.settings.accumulate)
        require(done.updates == before + begun, f"{path}: updates", before + begun, done.updates)
        if done.batches:
            most = len(self.plan_epoch()) - 1
            require(done.batches <= most, f"{path}: batches", f"at most {most}", done.batches)
        if self.sharded:
            self.whole = gather_model(self.model, self.processes)
        if not (done.batches or self.run.epoch_file(done.epoch).is_file()):
            self.keep_epoch()  # `finish_epoch` was killed between the last save and these files
        self.report(f"resuming after {done.epoch} epochs and {done.updates} updates")
        if self.run and done.epoch >= self.settings.epochs:
            more = f"train on in a new run with --set training.init_from={self.run.folder}"
            self.report(f"all epochs are trained; {more}")
        if self.device.type == "cpu" and threads != self.threads:
            self.report(
                f"the run was saved with {threads} threads and goes on with {self.threads}: sums "
                f"are rounded differently; for the same bits set OMP_NUM_THREADS={threads}"
            )

    def must_stop(self) -> bool:
        """Whether any process was asked to stop or is out of time; all get the same answer."""
        return self.processes.any_of(self.wants_to_stop())[0]

    def wants_to_stop(self) -> bool:
        """Whether this process was asked to stop, or is out of time."""
        late = self.processes.is_main and time.monotonic() > self.deadline
        return late or self.stop_asked.is_set()

    def stops_here(self, totals: Totals) -> bool:
        """Between two updates: save where it is time to, and tell whether to stop."""
        every, progress = self.settings.save_updates, self.progress
        # When a save happens changes no number, so here the clock may decide.
        due = self.processes.is_main and time.monotonic() > self.last_saved + SAVE_SECONDS
        stop, due = self.processes.any_of(self.wants_to_stop(), due)
        if stop or due or (every and progress.updates % every == 0):
            summed = self.all_reduce(totals)
            require_finite(self.model, summed, when=f"update {progress.updates}")
            progress.totals = tuple(map(float, summed))
            self.save()
        return stop
