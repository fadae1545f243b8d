"""Checkpoints, one file each: a model and notes about it, or all that resuming a run needs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from nmtlib.files import write_atomically
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.run import Run
from nmtlib.settings import explain
from nmtlib.training.history import Progress, write_history
from nmtlib.training.loss import Totals, perplexity

HEADER = "nmtlib"  # the one key of the metadata: safetensors would write several in any order
Tensors = Mapping[str, Tensor]


class Header(BaseModel):
    """What a checkpoint says besides its tensors, and the SHA-256 of both."""

    model_config = ConfigDict(extra="forbid", strict=True)
    config: dict[str, Any]
    notes: dict[str, Any]
    sha256: str


def save_checkpoint(
    path: str | Path, model: Transformer, tensors: Tensors | None = None, **notes: Any
) -> None:
    """Save a model's weights and configuration, more `tensors`, and `notes` that JSON can hold."""
    everything = {f"model.{name}": p.detach() for name, p in model.named_parameters()}  # tied once
    everything = {n: t.cpu().contiguous() for n, t in {**everything, **(tensors or {})}.items()}
    header: dict[str, Any] = {"config": asdict(model.config), "notes": notes}
    header["sha256"] = _digest(header, everything)
    metadata = {HEADER: json.dumps(header, sort_keys=True)}
    write_atomically(path, save(everything, metadata=metadata))


def _digest(header: Mapping[str, Any], tensors: Tensors) -> str:
    """SHA-256 of a header and of the names, types, shapes and bytes of tensors."""
    said = {key: header[key] for key in ("config", "notes")}
    found = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def read_checkpoint(
    path: str | Path,
) -> tuple[TransformerConfig, dict[str, Tensor], dict[str, Any]]:
    """Configuration, tensors and notes of a checkpoint.

    Raises FileNotFoundError, or ValueError for a file that nmtlib did not write as it is.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint at {path}")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(
            f"{path} is damaged or not a checkpoint ({error}); use another checkpoint of the run, "
            f"or train again"
        ) from None
    try:
        header = Header.model_validate_json(metadata.get(HEADER, "{}"))
    except ValidationError as error:
        raise ValueError(f"{path} is not a checkpoint of nmtlib: {explain(error)}") from None
    if header.sha256 != _digest(vars(header), tensors):
        raise ValueError(f"{path} is damaged: it is not as it was written (its SHA-256 differs)")
    # A number that is not finite spoils the sum, which is many times faster than checking each.
    if not all(tensor.sum(dtype=torch.float32).isfinite() for tensor in tensors.values()):
        raise ValueError(f"{path} is damaged: the weights are not all finite numbers")
    try:
        config = TransformerConfig(**header.config)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} was written by another version of nmtlib: {error}") from None
    return config, tensors, header.notes


def require_config(path: str | Path, found: TransformerConfig, expected: TransformerConfig) -> None:
    """Raise ValueError naming what differs where a checkpoint is of another model."""
    mine, theirs = asdict(expected), asdict(found)
    if differing := [name for name in mine if mine[name] != theirs[name]]:
        name = differing[0]
        raise ValueError(
            f"{path} holds another model: its {name} is {theirs[name]!r}, not {mine[name]!r}"
        )


def require_identity(path: str | Path, notes: dict[str, Any], identity: Mapping[str, str]) -> None:
    """Raise ValueError where something that a checkpoint depends on has changed since."""
    saved = notes.get("identity", {})
    if changed := [part for part in identity if saved.get(part, identity[part]) != identity[part]]:
        raise ValueError(
            f"{path} belongs to another run: {' and '.join(changed)} changed since it was written; "
            f"restore what was there, or train anew"
        )


def load_weights(model: Transformer, tensors: Tensors, *, where: str | Path = "checkpoint") -> None:
    """Copy a checkpoint's weights into a model.  Raises ValueError where they do not fit."""
    given = {name: t for name, t in tensors.items() if name.startswith("model.")}
    expected = {f"model.{name}": p for name, p in model.named_parameters()}
    differing = sorted(given.keys() ^ expected.keys()) or [
        name for name, tensor in given.items() if tensor.shape != expected[name].shape
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


def average_checkpoints(
    paths: Sequence[Path], config: TransformerConfig | None = None
) -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints, as in Vaswani et al. 2017, 6.1.

    Raises ValueError where they are not of one model, that of `config` where it is given.
    """
    if not paths:
        raise ValueError("averaging needs at least one checkpoint")
    total: dict[str, Tensor] = {}
    for path in paths:
        found, tensors, _ = read_checkpoint(path)
        require_config(path, found, config := config or found)
        weights = {name: t for name, t in tensors.items() if name.startswith("model.")}
        total = {name: total.get(name, 0) + tensor.double() for name, tensor in weights.items()}
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


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
) -> tuple[Progress, torch.dtype, int]:
    """Restore what `save_state` saved; returns the progress, precision and threads of the run.

    Raises FileNotFoundError where nothing was saved, ValueError for a file of another run.
    """
    path = run.last_file
    config, tensors, notes = read_checkpoint(path)
    if not notes.keys() >= {"progress", "precision", "threads"}:
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
    return Progress.from_notes(notes["progress"]), PRECISIONS[notes["precision"]], notes["threads"]


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
