"""Checkpoints: a model's weights and configuration in one file, and all that a training saves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from nmtlib.files import write_atomically
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.run import Run
from nmtlib.training.history import Progress, write_history

HEADER = "nmtlib"  # the one key of the metadata: safetensors would write several in any order


def save_checkpoint(
    path: str | Path, model: Transformer, tensors: Mapping[str, Tensor] | None = None, **notes: Any
) -> None:
    """Save a model's weights and configuration, further `tensors`, and `notes` that JSON can hold.

    The same model, tensors and notes give the same bytes.
    """
    everything = {f"model.{name}": p.detach() for name, p in model.named_parameters()}  # tied once
    everything |= tensors or {}
    everything = {name: tensor.cpu().contiguous() for name, tensor in everything.items()}
    header = json.dumps({"config": asdict(model.config), "notes": notes}, sort_keys=True)
    write_atomically(path, save(everything, metadata={HEADER: header}))


def read_checkpoint(
    path: str | Path,
) -> tuple[TransformerConfig, dict[str, Tensor], dict[str, Any]]:
    """Configuration, tensors and notes of a checkpoint.

    Raises FileNotFoundError for a missing file, ValueError for one that is truncated or not ours.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint at {path}")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        raise ValueError(
            f"{path} is damaged or not a checkpoint ({error}); use another checkpoint of the run, "
            f"or train again"
        ) from None
    if not metadata.keys() & {HEADER, "config"}:
        raise ValueError(
            f"{path} is a safetensors file, but was not written by nmtlib: it holds no model "
            f"configuration"
        )
    try:
        config, notes = _read_header(metadata)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} was written by another version of nmtlib, or another program: {error}"
        ) from None
    return config, tensors, notes


def _read_header(metadata: Mapping[str, str]) -> tuple[TransformerConfig, dict[str, Any]]:
    if HEADER in metadata:
        header = json.loads(metadata[HEADER])
    else:  # older files have a key for each
        header = {key: json.loads(metadata.get(key, "{}")) for key in ("config", "notes")}
    config = TransformerConfig(**header["config"])
    if not (config.source_vocab_size and config.target_vocab_size):
        raise ValueError("it does not say how large the vocabularies are")
    return config, header["notes"]


def load_weights(
    model: Transformer, tensors: Mapping[str, Tensor], *, where: str | Path = "checkpoint"
) -> None:
    """Copy a checkpoint's weights into a model.  Raises ValueError where names or shapes differ."""
    given = {name: t for name, t in tensors.items() if name.startswith("model.")}
    expected = {f"model.{name}": p for name, p in model.named_parameters()}
    differing = sorted(given.keys() ^ expected.keys()) or [
        name for name in given if given[name].shape != expected[name].shape
    ]
    if differing:
        raise ValueError(
            f"{where} does not fit this model: {len(differing)} tensor(s) differ, such as "
            f"{differing[0].removeprefix('model.')!r}"
        )
    with torch.no_grad():
        for name, parameter in expected.items():
            parameter.copy_(given[name])


def load_model(path: str | Path) -> Transformer:
    """The model of a checkpoint, rebuilt from the file alone, in evaluation mode, on the CPU."""
    config, tensors, _ = read_checkpoint(path)
    model = Transformer(config)
    load_weights(model, tensors, where=path)
    return model.eval()


def average_checkpoints(paths: list[Path]) -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints, as in Vaswani et al. 2017, 6.1."""
    if not paths:
        raise ValueError("averaging needs at least one checkpoint")
    total: dict[str, Tensor] = {}
    for path in paths:
        for name, tensor in read_checkpoint(path)[1].items():
            if name.startswith("model."):
                total[name] = total.get(name, 0) + tensor.double()
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def save_training(
    path: str | Path, model: Transformer, optimizer: torch.optim.Adam, progress: Progress
) -> None:
    """Save all that `resume_training` needs: weights, the optimizer's state, and the progress."""
    moments = {
        f"adam.{key}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    save_checkpoint(path, model, moments, progress=asdict(progress))


def resume_training(path: str | Path, model: Transformer, optimizer: torch.optim.Adam) -> Progress:
    """Put back what `save_training` saved; returns the progress.  Raises as `read_checkpoint`."""
    _, tensors, notes = read_checkpoint(path)
    if "progress" not in notes:
        raise ValueError(f"{path} holds a model but no state of its training; it cannot be resumed")
    load_weights(model, tensors, where=path)
    for name, parameter in model.named_parameters():
        for key in ("step", "exp_avg", "exp_avg_sq"):
            if f"adam.{key}.{name}" in tensors:
                optimizer.state[parameter][key] = tensors[f"adam.{key}.{name}"].to(parameter.device)
    return Progress.from_dict(notes["progress"])


def keep_epoch(run: Run, model: Transformer, progress: Progress, average: int) -> None:
    """Write the files of the epoch just ended, and drop the one that is too old to be averaged."""
    record = progress.history[-1]
    notes: dict = {"weights": f"epoch {record.epoch}", "validation_nll": record.validation_nll}
    if progress.best is record:
        save_checkpoint(run.best_file, model, **notes)
        # What an earlier, stopped training chose is worse than this epoch.
        run.model_file.unlink(missing_ok=True)
    write_history(run.history_file, progress.history)
    run.epoch_file(record.epoch - average).unlink(missing_ok=True)
    save_checkpoint(run.epoch_file(record.epoch), model, **notes)


def require_untrained(run: Run) -> None:
    """Raise FileExistsError or ValueError where a training has left something in a run folder."""
    if run.can_resume():
        raise FileExistsError(
            f"{run.folder} holds a training already, and nothing is overwritten: resume it, or "
            f"choose another folder"
        )
