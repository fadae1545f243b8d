"""What the scripts here share: command lines, files of results, and trainings that go on."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import nmtlib  # noqa: F401  (before torch: it chooses how threads wait)

# isort: split
import torch

from nmtcourse.recipes.recipe import train
from nmtlib.files import write_atomically
from nmtlib.run import Run
from nmtlib.settings import Settings
from nmtlib.training.checkpoint import read_checkpoint
from nmtlib.training.history import Progress, read_history
from nmtlib.training.trainer import Trainer

RESULTS = Path(__file__).parent / "results"
# what notebook 12 shows: it ships, so the record is in the package
SHIPPED = RESULTS.parents[1] / "nmtcourse" / "teaching" / "recorded" / "benchmarks"
MINUTES = "minutes.json"  # in the folder of a run that has had its minutes: how many


def parser(documentation: str | None) -> argparse.ArgumentParser:
    """A command line whose help is the docstring of its script, as it stands there."""
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=documentation, formatter_class=form)


def timing_parser(documentation: str | None, name: str) -> argparse.ArgumentParser:
    """The command line of a script that times something and writes results/NAME.json."""
    made = parser(documentation)
    made.add_argument("--threads", type=int, default=torch.get_num_threads())
    made.add_argument("--output", type=Path, default=RESULTS / f"{name}.json", help="JSON file")
    return made


def training_parser(documentation: str | None) -> argparse.ArgumentParser:
    """The command line of a script that trains with changed settings."""
    made = parser(documentation)
    changes = {"action": "append", "default": [], "metavar": "KEY=VALUE", "dest": "assignments"}
    made.add_argument("--set", **changes, help="change a setting; may be given several times")
    made.add_argument("--out", type=Path, help="where the runs go")
    made.add_argument("--output", type=Path, help="JSON file")
    return made


def write_result(path: Path, result: Mapping[str, Any]) -> None:
    """Write a file of results, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(result, indent=2, ensure_ascii=False) + "\n")


def earlier_runs(path: Path, setting: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The runs that a file of results holds already.

    Raises ValueError where they were made with another `setting`, which the file repeats.  What a
    file does not name, as it is older, had the value that is the default today.
    """
    if not path.is_file():
        return []
    found = json.loads(path.read_text("utf-8"))
    if not all(alike(found[key], value) for key, value in setting.items()):
        raise ValueError(f"{path} holds the results of other settings; choose another --output")
    return found["runs"]


def alike(found: Any, value: Any) -> bool:
    """Whether two values are the same, or, where they are settings by section, mean the same."""
    if not isinstance(value, dict):
        return found == value
    return Settings().changed(found) == Settings().changed(value)


def require_same_settings(folder: Path, settings: Settings) -> bool:
    """Whether a run is there to go on with.

    Raises ValueError where it was started with other settings.
    """
    run = Run(folder)
    if not run.settings_file.is_file():
        return False
    there = run.settings()
    sizes = there.model.source_vocab_size, there.model.target_vocab_size
    if there != settings.with_vocabularies(*sizes):
        raise ValueError(f"{folder} was trained with other settings; choose another --out")
    return True


def train_or_go_on(
    folder: Path, settings: Settings, minutes: float | None = None, **options: Any
) -> bool:
    """Train a run in `folder`, or go on with the one that is there.

    Returns False where that is finished or has had its minutes, and nothing was trained.  Raises
    KeyboardInterrupt where Ctrl-C (or SIGTERM) stopped the training: it has weights, but its scores
    would not be those of a finished one.
    """
    run, there, left = Run(folder), require_same_settings(folder, settings), minutes
    if there and finished(run, settings):
        return False
    if minutes is not None:
        left = minutes - minutes_had(folder)
        if left <= 0:
            return False
    clock = Clock()
    if "after_epoch" in options:
        options["after_epoch"] = clock.not_counting(options["after_epoch"])
    train(folder, None if there else settings, resume=there, minutes=left, report=say, **options)
    if left is None or clock.minutes() < left:
        require_finished(run)
    elif os.environ.get("RANK", "0") == "0":  # of the processes that torchrun started, one writes
        write_result(folder / MINUTES, {"minutes": minutes})
    return True


class Clock:
    """The minutes of a training as its limit counts them, and those of its start and its end."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    def minutes(self) -> float:
        """The minutes up to now."""
        return (time.monotonic() - self.started) / 60

    def not_counting(self, after_epoch: Callable[[Trainer], None]) -> Callable[[Trainer], None]:
        """The same hook; its time does not count."""

        def paused(trainer: Trainer) -> None:
            began = time.monotonic()
            after_epoch(trainer)
            self.started += time.monotonic() - began

        return paused


def finished(run: Run, settings: Settings) -> bool:
    """Whether a run has trained all its epochs, or stopped early, and chosen its weights."""
    if not run.model_file.is_file() or not run.history_file.is_file():
        return False
    history, training = read_history(run.history_file), settings.training
    done = Progress(epoch=len(history), history=history)
    return done.epoch == training.epochs or done.stuck(training.patience)


def require_finished(run: Run) -> None:
    """Raise KeyboardInterrupt where the training of a run was stopped before its end."""
    if not finished(run, run.settings()):
        raise KeyboardInterrupt(f"the training in {run.folder} was stopped before its end")


def minutes_had(folder: Path) -> float:
    """The minutes that a run has had: all that it was given, where it has used them up.

    Of one that was stopped before, only the minutes of training are known, not those of validation.
    """
    last, noted = Run(folder).state_file, folder / MINUTES
    given = json.loads(noted.read_text("utf-8"))["minutes"] if noted.is_file() else 0.0
    state = read_checkpoint(last).header.state if last.is_file() else None
    seconds = state.progress.seconds if state else 0.0
    return max(given, seconds / 60)


def say(line: str) -> None:
    """Print a line at once, also into a file."""
    print(line, flush=True)
