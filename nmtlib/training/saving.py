"""What a run saves: all that a resume needs, the epochs to choose from, and the chosen weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from nmtlib.model.transformer import Transformer
from nmtlib.run import Run
from nmtlib.training.checkpoint import (
    average_checkpoints,
    load_model,
    load_weights,
    read_checkpoint,
    require_config,
    require_identity,
    save_checkpoint,
)
from nmtlib.training.history import Progress, write_history
from nmtlib.training.loss import Totals, perplexity

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def save_state(
    run: Run, model: Transformer, optimizer: Any, progress: Progress, **notes: Any
) -> None:
    """Save all that `load_state` restores: weights, the optimizer's state, and the progress."""
    state = {
        f"optimizer.{key}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }
    run.folder.mkdir(parents=True, exist_ok=True)
    save_checkpoint(run.last_file, model, state, progress=asdict(progress), **notes)


def load_state(
    run: Run, model: Transformer, optimizer: Any, identity: Mapping[str, str]
) -> tuple[Progress, torch.dtype]:
    """Restore what `save_state` saved; returns the progress, and the precision of the run.

    Raises FileNotFoundError where nothing was saved, ValueError for a file of another run.
    """
    path = run.last_file
    config, tensors, notes = read_checkpoint(path)
    if not notes.keys() >= {"progress", "precision"}:
        raise ValueError(f"{path} holds a model but not the state of its run: it cannot be resumed")
    require_identity(path, notes, identity)
    require_config(path, config, model.config)
    load_weights(model, tensors, where=path)
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, kind, name = key.split(".", 2)
            parameter = parameters[name]
            optimizer.state[parameter][kind] = value.to(parameter.device)
    return Progress.from_notes(notes["progress"]), PRECISIONS[notes["precision"]]


def keep_epoch(
    run: Run, model: Transformer, progress: Progress, average: int, **notes: Any
) -> None:
    """Write the files of the epoch just ended, and drop the one that is too old to be averaged."""
    record = progress.history[-1]
    notes |= {"weights": f"epoch {record.epoch}", "validation_nll": record.validation_nll}
    if progress.best is record:
        save_checkpoint(run.best_file, model, **notes)
        # What an earlier, stopped run chose is worse than this epoch.
        run.model_file.unlink(missing_ok=True)
    write_history(run.history_file, progress.history)
    run.epoch_file(record.epoch - average).unlink(missing_ok=True)
    save_checkpoint(run.epoch_file(record.epoch), model, **notes)


def choose_model(
    run: Run,
    model: Transformer,
    files: list[Path],
    keep: str,
    validate: Callable[[Transformer], Totals],
) -> list[str]:
    """Write the best epoch, or the average of some `files` where that is better or `keep` says so.

    `model` only says what a model looks like.  Returns what there is to report.
    """
    config, device = model.config, next(model.parameters()).device
    chosen, notes = load_model(run.best_file), read_checkpoint(run.best_file)[2]
    require_config(run.best_file, chosen.config, config)
    epochs = [file for file in files if file.is_file()]
    lost = [file.stem for file in files if file not in epochs]
    lines = [f"missing, so not averaged: {', '.join(lost)}"] if lost else []
    always = keep == "average"
    if len(epochs) > 1 or (epochs and always):
        averaged = Transformer(config).to(device)
        load_weights(averaged, average_checkpoints(epochs, config))
        nll = validate(averaged).nll_per_token
        if nll < notes["validation_nll"] or always:
            several = f"average of the last {len(epochs)} epochs"
            weights = several if len(epochs) > 1 else read_checkpoint(epochs[0])[2]["weights"]
            chosen, notes = averaged, {**notes, "weights": weights, "validation_nll": nll}
    save_checkpoint(run.model_file, chosen, **notes)
    found = perplexity(notes["validation_nll"], 1)
    return [*lines, f"kept: {notes['weights']}, validation perplexity {found:.2f}"]
