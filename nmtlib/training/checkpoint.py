"""Checkpoints, one file each: a model and notes about it, or all that resuming a run needs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

import torch
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from nmtlib.files import write_atomically
from nmtlib.model.attention import AttentionClass, MultiHeadAttention
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.run import Run
from nmtlib.settings import explain
from nmtlib.training.history import Progress, write_history
from nmtlib.training.loss import Totals, perplexity
from nmtlib.training.parallel import part_like

HEADER = "nmtlib"  # the one key of the metadata: safetensors would write several in any order
WEIGHT_TYPES = (torch.float32, torch.float16)  # any other would be changed by a copy to float32
Tensors = Mapping[str, Tensor]


class Header(BaseModel, extra="forbid", strict=True):
    """What a checkpoint says besides its tensors, and the SHA-256 of both."""

    config: dict[str, Any]
    notes: dict[str, Any]
    sha256: str


class Origin(BaseModel):
    """The note that every file of a run has: SHA-256 of each thing that it depends on."""

    identity: dict[str, str] = {}


class WeightsNotes(Origin, extra="forbid"):
    """Notes about the weights of an epoch or of an average: which, and how well they validate."""

    weights: str
    validation_nll: Annotated[float, Field(ge=0, le=709)]  # nats a token; exp is finite


class StateNotes(Origin, extra="forbid"):
    """Notes about the state of a run, besides its tensors."""

    progress: Progress
    precision: Literal["float32", "bfloat16"]
    threads: Annotated[int, Field(ge=1)]


Kind = TypeVar("Kind", bound=Origin)


def read_notes(path: str | Path, notes: Mapping[str, Any], kind: type[Kind]) -> Kind:
    """Notes of a checkpoint with their types checked.  Raises ValueError naming what is wrong."""
    try:
        return kind.model_validate_json(json.dumps(notes), strict=True)
    except ValidationError as error:
        what = "the state" if kind is StateNotes else "the weights"
        raise ValueError(
            f"{path} does not hold {what} of a run: its note {explain(error)}"
        ) from None


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
    content = {key: header[key] for key in ("config", "notes")}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


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
        TypeAdapter(TransformerConfig).validate_json(json.dumps(header.config), strict=True)
        config = TransformerConfig(**header.config)  # refuses other keys
    except (TypeError, ValueError) as error:
        reason = explain(error) if isinstance(error, ValidationError) else error
        raise ValueError(f"{path} was written by another version of nmtlib: {reason}") from None
    return config, tensors, header.notes


def require_config(path: str | Path, saved: TransformerConfig, expected: TransformerConfig) -> None:
    """Raise ValueError naming what differs where a checkpoint is of another model."""
    mine, theirs = asdict(expected), asdict(saved)
    if differing := [name for name in mine if mine[name] != theirs[name]]:
        name = differing[0]
        raise ValueError(
            f"{path} holds another model: its {name} is {theirs[name]!r}, not {mine[name]!r}"
        )


def require_identity(
    path: str | Path, saved: Mapping[str, str], identity: Mapping[str, str]
) -> None:
    """Raise ValueError unless `saved` has the digest of each thing that a checkpoint depends on."""
    if missing := [part for part in identity if part not in saved]:
        raise ValueError(
            f"{path} has no SHA-256 of {' and '.join(missing)}, so nothing shows that they belong "
            f"together; train anew, or take a run as nmtlib wrote it"
        )
    if changed := [part for part in identity if saved[part] != identity[part]]:
        raise ValueError(
            f"{path} belongs to another run: {' and '.join(changed)} changed since it was written; "
            f"restore what was there, or train anew"
        )


def identity_of_attention(attention: AttentionClass) -> dict[str, str]:
    """The name of a class of attention that is not nmtlib's own, as it is part of an identity."""
    return {} if attention is MultiHeadAttention else {"attention": attention.__name__}


def require_attention(path: str | Path, saved: str, given: str) -> None:
    """Raise ValueError unless a model has the class of attention that it was trained with.

    The weights are the same for all classes, so nothing else would tell.
    """
    if saved != given:
        before = f"attention={saved}" if saved else "nmtlib's own attention"
        now = f"attention={given}" if given else "nmtlib's own"
        raise ValueError(
            f"{path} was trained with {before}, not with {now}: in Python, give `train` and `load` "
            "the same class"
        )


def read_weights(
    run: Run,
    config: TransformerConfig,
    checkpoint: str = "",
    free: Sequence[str] = (),
    attention: AttentionClass = MultiHeadAttention,
) -> dict[str, Tensor]:
    """The weights of a run for a model of `config`; only the fields `free` may differ.

    `checkpoint` is that of `Run.weights_file`.  Raises ValueError where a size differs, or settings
    or a vocabulary were changed since the weights were saved.
    """
    identity = run.digests() | identity_of_attention(attention)
    return read_of_run(run.weights_file(checkpoint), config, identity, free)[0]


def read_of_run(
    path: Path,
    config: TransformerConfig | None,
    identity: Mapping[str, str],
    free: Sequence[str] = (),
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and notes of a file of a run: the one door to them.

    Raises ValueError where the file holds another model (`config`, but for the fields `free`), is
    of another run (`identity`), or of another epoch than its name says.
    """
    saved, tensors, notes = read_checkpoint(path)
    if config:
        same = {name: getattr(config, name) for name in free}
        require_config(path, replace(saved, **same), config)
    known = read_notes(path, notes, Origin).identity
    require_attention(path, known.get("attention", ""), identity.get("attention", ""))
    require_identity(path, known, identity)
    named = re.fullmatch(r"epoch-(\d+)", path.stem)
    weights = notes.get("weights")
    if named and weights != f"epoch {int(named[1])}":
        raise ValueError(
            f"{path} holds the weights of {weights}, though its name says epoch {int(named[1])}; "
            "give it back its name, or remove it"
        )
    return tensors, notes


def load_weights(model: Transformer, tensors: Tensors, *, where: str | Path = "checkpoint") -> None:
    """Copy a checkpoint's weights into a model.  Raises ValueError where they do not fit."""
    _copy(tensors, {f"model.{name}": p for name, p in model.named_parameters()}, "model.", where)


def _copy(tensors: Tensors, targets: Tensors, prefix: str, where: str | Path) -> None:
    """Copy the tensors with a prefix into those of the same names and shapes, all of them."""
    sources = {name: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    differing = sorted(sources.keys() ^ targets.keys()) or [
        name for name, tensor in sources.items() if tensor.shape != targets[name].shape
    ]
    if differing:
        raise ValueError(
            f"{where} does not fit this {prefix.removesuffix('.')}: {len(differing)} tensor(s) "
            f"differ, such as {differing[0].removeprefix(prefix)!r}"
        )
    if other := [name for name, tensor in sources.items() if tensor.dtype not in WEIGHT_TYPES]:
        raise ValueError(
            f"{where} holds {other[0].removeprefix(prefix)!r} as {sources[other[0]].dtype}, and "
            "nmtlib writes float32 (float16 in the models that ship); take the file as it was "
            "written, or train again"
        )
    with torch.no_grad():
        for name, target in targets.items():
            target.copy_(part_like(target, sources[name]))


def load_model(path: str | Path) -> Transformer:
    """The model of a checkpoint, rebuilt from the file alone, in evaluation mode, on the CPU."""
    config, tensors, notes = read_checkpoint(path)
    require_attention(path, read_notes(path, notes, Origin).identity.get("attention", ""), "")
    model = Transformer(config)
    load_weights(model, tensors, where=path)
    return model.eval()


def average_checkpoints(
    paths: Sequence[Path],
    config: TransformerConfig | None = None,
    identity: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints, as in Vaswani et al. 2017, 6.1.

    Raises ValueError where they are not of one model, that of `config` where it is given, or not of
    the run with this `identity`.
    """
    if not paths:
        raise ValueError("averaging needs at least one checkpoint")
    total: dict[str, Tensor] = {}
    for path in paths:
        config = config or read_checkpoint(path)[0]
        tensors, _ = read_of_run(path, config, identity)
        weights = {name: t for name, t in tensors.items() if name.startswith("model.")}
        total = {name: total.get(name, 0) + tensor.double() for name, tensor in weights.items()}
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def weights_notes(path: str | Path) -> WeightsNotes:
    """The notes of a file of weights.  Raises as `read_checkpoint` and `read_notes` do."""
    return read_notes(path, read_checkpoint(path)[2], WeightsNotes)


def moments_of(model: Transformer, optimizer: Any) -> dict[str, Tensor]:
    """The tensors of an optimizer's state by name, such as `optimizer.exp_avg.output.bias`."""
    return {
        f"optimizer.{key}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }


def save_state(
    run: Run, model: Transformer, moments: Tensors, progress: Progress, **notes: Any
) -> None:
    """Save all that `load_state` restores: weights, the optimizer's moments, and the progress."""
    run.require_present()
    save_checkpoint(run.last_file, model, moments, progress=asdict(progress), **notes)
    run.saved = run.last_save()


def load_state(
    run: Run, model: Transformer, optimizer: Any, identity: Mapping[str, str]
) -> StateNotes:
    """Restore what `save_state` saved; returns the notes beside it.

    Raises FileNotFoundError where nothing was saved, ValueError for a file of another run.
    """
    path = run.last_file
    tensors, notes = read_of_run(path, model.config, identity)
    state = read_notes(path, notes, StateNotes)
    # An optimizer makes its state in the first step.  One of rate 0 without gradients makes it
    # whole, whatever the optimizer is, so that a tensor that is missing in the file is noticed.
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    load_weights(model, tensors, where=path)
    _copy(tensors, moments_of(model, optimizer), "optimizer.", path)
    return state


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
    identity: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Write the best epoch, or the average of some `files` where that is better or `keep` says so.

    `model` only says what a model looks like.  Returns what there is to report.  Raises ValueError
    where a file is not of the run with this `identity`.
    """
    config, device = model.config, next(model.parameters()).device
    tensors, about = read_of_run(run.best_file, config, identity)
    chosen = Transformer(config, model.attention)
    notes = read_notes(run.best_file, about, WeightsNotes)
    load_weights(chosen, tensors, where=run.best_file)
    epochs = [file for file in files if file.is_file()]
    lost = [file.stem for file in files if file not in epochs]
    lines = [f"missing, so not averaged: {', '.join(lost)}"] if lost else []
    always = keep == "average"
    if len(epochs) > 1 or (epochs and always):
        averaged = Transformer(config, model.attention).to(device)
        load_weights(averaged, average_checkpoints(epochs, config, identity))
        nll = validate(averaged).nll_per_token
        if nll < notes.validation_nll or always:
            several = f"average of the last {len(epochs)} epochs"
            weights = several if len(epochs) > 1 else f"epoch {int(epochs[0].stem[6:])}"
            update = {"weights": weights, "validation_nll": nll}
            chosen, notes = averaged, notes.model_copy(update=update)
    save_checkpoint(run.model_file, chosen, **notes.model_dump())
    ppl = perplexity(notes.validation_nll, 1)
    return [*lines, f"kept: {notes.weights}, validation perplexity {ppl:.2f}"]
