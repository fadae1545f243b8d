"""What a training saves: all that a resume needs, the epochs to choose from, and the history."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import torch

from nmtlib.errors import require, require_one_of
from nmtlib.run import Run
from nmtlib.training.checkpoint import (
    load_weights,
    read_checkpoint,
    require_config,
    require_identity,
    save_checkpoint,
)
from nmtlib.training.history import Progress, write_history
from nmtlib.training.optimizer import STATES

if TYPE_CHECKING:
    from nmtlib.training.trainer import Trainer

PRECISIONS = ("float32", "bfloat16")


def save_training(trainer: Trainer) -> None:
    """Save all that `resume_training` needs: weights, the optimizer's state, and the progress."""
    optimizer = trainer.optimizer
    moments = {
        f"{optimizer.methods[parameter]}.{key}.{name}": value
        for name, parameter in trainer.model.named_parameters()
        for key, value in optimizer.state(parameter).items()
    }
    trainer.run.folder.mkdir(parents=True, exist_ok=True)
    notes: dict = {"progress": asdict(trainer.progress), "identity": trainer.identity}
    if trainer.settings.precision == "auto":  # as it came out here
        notes["precision"] = str(trainer.precision).removeprefix("torch.")
    trainer.writer.wait()  # for what the last save still has to write
    save_checkpoint(trainer.run.last_file, trainer.model, moments, writer=trainer.writer, **notes)


def resume_training(trainer: Trainer) -> None:
    """Put back what `save_training` saved.

    Raises ValueError where the file is damaged, or of a training with another identity.
    """
    path, model = trainer.run.last_file, trainer.model
    config, tensors, notes = read_checkpoint(path)
    if "progress" not in notes:
        raise ValueError(f"{path} holds a model but no state of its training; it cannot be resumed")
    require_identity(path, notes, trainer.identity)
    require_config(path, config, model.config)
    if trainer.settings.precision == "auto" and "precision" in notes:
        require_one_of(f"{path}: precision", PRECISIONS, notes["precision"])
        trainer.precision = getattr(torch, notes["precision"])
        trainer.report(f"in {notes['precision']}, as the training began")
    load_weights(model, tensors, where=path)
    for name, parameter in model.named_parameters():
        method = trainer.optimizer.methods[parameter]
        for key in STATES[method]:
            value = tensors.get(f"{method}.{key}.{name}", torch.empty(0))
            shape = () if key == "step" else parameter.shape
            signed = key not in ("step", "exp_avg_sq")
            sound = value.dtype == torch.float32 and (signed or (value >= 0).all())
            if value.shape != shape or not sound:
                kind = method.capitalize()
                raise ValueError(f"{path}: {kind}'s {key} of {name} is missing or damaged")
            trainer.optimizer.state(parameter)[key] = value.to(parameter.device)
    try:
        progress = trainer.progress = Progress.from_dict(notes["progress"])
        within = bool(trainer.by_epoch) or progress.batches < trainer.batches_per_epoch
        require(within, "batches", f"below {trainer.batches_per_epoch}", progress.batches)
    except ValueError as error:
        raise ValueError(f"{path}: the progress of the training is damaged: {error}") from None


def keep_epoch(trainer: Trainer) -> None:
    """Write the files of the epoch just ended, and drop the one that is too old to be averaged."""
    run, progress, do = trainer.run, trainer.progress, trainer.writer.do
    save = partial(save_checkpoint, model=trainer.model, writer=trainer.writer)
    record = progress.history[-1]
    notes: dict = {"weights": f"epoch {record.epoch}", "validation_nll": record.validation_nll}
    notes["identity"] = trainer.identity
    if progress.best is record:
        save(run.best_file, **notes)
        # What an earlier, stopped training chose is worse than this epoch.
        do(partial(run.model_file.unlink, missing_ok=True))
    do(partial(write_history, run.history_file, [*progress.history]))
    do(partial(run.epoch_file(record.epoch - trainer.settings.average).unlink, missing_ok=True))
    save(run.epoch_file(record.epoch), **notes)


def require_untrained(run: Run) -> None:
    """Raise FileExistsError or ValueError where a training has left something in a run folder."""
    if run.can_resume():
        raise FileExistsError(
            f"{run.folder} holds a training already, and nothing is overwritten: resume it, or "
            f"choose another folder"
        )
