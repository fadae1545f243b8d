"""Checkpoints: a model's weights and configuration, and notes about them, in one file."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from nmtlib.files import write_atomically
from nmtlib.keys import build
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.training.loss import perplexity
from nmtlib.training.writer import Writer

HEADER = "nmtlib"  # the one key of the metadata: safetensors would write several in any order


def save_checkpoint(
    path: str | Path,
    model: Transformer,
    tensors: Mapping[str, Tensor] | None = None,
    *,
    writer: Writer | None = None,
    **notes: Any,
) -> None:
    """Save a model's weights and configuration, further `tensors`, and `notes` that JSON can hold.

    The same model, tensors and notes give the same bytes.  A `writer` may write later, but
    what they are now.
    """
    everything = {f"model.{name}": p.detach() for name, p in model.named_parameters()}  # tied once
    everything |= tensors or {}
    writer = writer or Writer(background=False)
    copy = writer.background
    everything = {n: t.to("cpu", copy=copy).contiguous() for n, t in everything.items()}
    header: dict[str, Any] = {"config": asdict(model.config), "notes": notes}

    def write() -> None:
        header["sha256"] = _digest(header, everything)
        metadata = {HEADER: json.dumps(header, sort_keys=True)}
        write_atomically(path, save(everything, metadata=metadata))

    writer.do(write)


def _digest(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of a header and of the names, types, shapes and bytes of tensors."""
    found = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def read_checkpoint(
    path: str | Path,
) -> tuple[TransformerConfig, dict[str, Tensor], dict[str, Any]]:
    """Configuration, tensors and notes of a checkpoint.

    Raises FileNotFoundError for a missing file, ValueError for one that is not ours, or not as it
    was written: each says its SHA-256, but for those of older versions.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint at {path}")
    metadata, tensors = _read_file(path)
    try:
        header = _read_header(metadata)
        digest = header.pop("sha256", None)
        config, notes = build(TransformerConfig, header["config"]), header["notes"]
        if not (config.source_vocab_size and config.target_vocab_size):
            raise ValueError("it does not say how large the vocabularies are")
        if not isinstance(notes, dict):
            raise ValueError(f"its notes are {notes!r}")
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} was written by another version of nmtlib, or another program: {error}"
        ) from None
    if digest not in (None, _digest(header, tensors)):
        raise ValueError(f"{path} is damaged: it is not as it was written (its SHA-256 differs)")
    # What is not finite spoils the sum, which is many times quicker than looking at each number.
    if not all(tensor.sum(dtype=torch.float32).isfinite() for tensor in tensors.values()):
        raise ValueError(f"{path} is damaged: the weights are not all finite numbers")
    return config, tensors, notes


def _read_file(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Metadata and tensors of a safetensors file that nmtlib wrote."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
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
    return metadata, tensors


def _read_header(metadata: Mapping[str, str]) -> dict[str, Any]:
    if HEADER in metadata:
        return json.loads(metadata[HEADER])
    # Older files have a key for each.
    return {key: json.loads(metadata.get(key, "{}")) for key in ("config", "notes")}


def read_origin(path: str | Path) -> dict[str, Any]:
    """The notes of a checkpoint that a training kept: among them `weights` and `validation_nll`.

    Raises ValueError where these are missing or absurd, and as `read_checkpoint`.
    """
    notes = read_checkpoint(path)[2]
    weights, nll = notes.get("weights"), notes.get("validation_nll")
    plausible = type(nll) is float and nll >= 0 and perplexity(nll, 1) < math.inf
    if not (isinstance(weights, str) and plausible):
        raise ValueError(f"{path} does not say whose weights it holds, or how good they are")
    return notes


def require_config(path: str | Path, found: TransformerConfig, expected: TransformerConfig) -> None:
    """Raise ValueError naming what differs where a checkpoint is of another model."""
    mine, theirs = asdict(expected), asdict(found)
    if differing := [name for name in mine if mine[name] != theirs[name]]:
        name = differing[0]
        raise ValueError(
            f"{path} holds another model: its {name} is {theirs[name]!r}, not {mine[name]!r}"
        )


def load_weights(
    model: Transformer, tensors: Mapping[str, Tensor], *, where: str | Path = "checkpoint"
) -> None:
    """Copy a checkpoint's weights into a model.  Raises ValueError where they do not fit."""
    given = {name: t for name, t in tensors.items() if name.startswith("model.")}
    expected = {f"model.{name}": p for name, p in model.named_parameters()}
    require_alike(given, expected, where)
    with torch.no_grad():
        for name, parameter in expected.items():
            parameter.copy_(given[name])


def require_alike(
    given: Mapping[str, Tensor], expected: Mapping[str, Tensor], where: str | Path
) -> None:
    """Raise ValueError unless the names and shapes are the same, and all are floats."""
    differing = sorted(given.keys() ^ expected.keys()) or [
        name
        for name, tensor in given.items()
        if tensor.shape != expected[name].shape or not tensor.is_floating_point()
    ]
    if differing:
        raise ValueError(
            f"{where} does not fit this model: {len(differing)} tensor(s) differ, such as "
            f"{differing[0].removeprefix('model.')!r}"
        )


def load_model(path: str | Path) -> Transformer:
    """The model of a checkpoint, rebuilt from the file alone, in evaluation mode, on the CPU."""
    config, tensors, _ = read_checkpoint(path)
    model = Transformer(config)
    load_weights(model, tensors, where=path)
    return model.eval()


def average_checkpoints(
    paths: list[Path], config: TransformerConfig | None = None
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
        require_alike(weights, weights if path is paths[0] else total, path)
        total = {name: total.get(name, 0) + tensor.double() for name, tensor in weights.items()}
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def require_identity(path: str | Path, notes: dict[str, Any], identity: Mapping[str, str]) -> None:
    """Raise ValueError where a checkpoint says that something of its training was other than now.

    Those of older versions say nothing.
    """
    saved = notes.get("identity", {})
    if changed := [part for part in identity if saved.get(part, identity[part]) != identity[part]]:
        raise ValueError(
            f"{path} belongs to another training: {' and '.join(changed)} changed since it was "
            f"written; put back what was there, or train anew"
        )
