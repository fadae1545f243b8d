"""Checkpoints: tensors and the configuration in one safetensors file, written so that no failure
can lose one.
"""

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


def save_checkpoint(
    path: str | Path, model: Transformer, tensors: Mapping[str, Tensor] | None = None, **notes: Any
) -> None:
    """Save a model's weights and configuration, further `tensors`, and `notes` that JSON can hold."""
    weights = {
        f"model.{name}": p.detach() for name, p in model.named_parameters()
    }  # tied tensors once
    everything = {name: t.cpu().contiguous() for name, t in {**weights, **(tensors or {})}.items()}
    header = {"config": json.dumps(asdict(model.config)), "notes": json.dumps(notes)}
    write_atomically(path, save(everything, metadata=header))


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
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        raise ValueError(
            f"{path} is damaged or not a checkpoint ({error}); use another checkpoint of the run, "
            f"or train again"
        ) from None
    if "config" not in header:
        raise ValueError(
            f"{path} is a safetensors file, but was not written by nmtlib: it holds no model configuration"
        )
    try:
        config = TransformerConfig(**json.loads(header["config"]))
        if not (config.source_vocab_size and config.target_vocab_size):
            raise ValueError("it does not say how large the vocabularies are")
        notes = json.loads(header.get("notes", "{}"))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path} was written by another version of nmtlib, or another program: {error}"
        ) from None
    return config, tensors, notes


def load_weights(
    model: Transformer, tensors: Mapping[str, Tensor], *, where: str | Path = "checkpoint"
) -> None:
    """Copy the weights of a checkpoint into a model; raises ValueError where names or shapes
    differ.
    """
    given = {
        name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")
    }
    expected = dict(model.named_parameters())
    differing = sorted(given.keys() ^ expected.keys()) or [
        n for n in given if given[n].shape != expected[n].shape
    ]
    if differing:
        raise ValueError(
            f"{where} does not fit this model: {len(differing)} tensor(s) differ, such as {differing[0]!r}"
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


def optimizer_tensors(model: Transformer, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state as named tensors: 'adam.exp_avg.' and so on, before each parameter's
    name.
    """
    return {
        f"adam.{key}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def restore_optimizer(
    model: Transformer, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Put back what `optimizer_tensors` named."""
    for name, parameter in model.named_parameters():
        for key in ("step", "exp_avg", "exp_avg_sq"):
            if f"adam.{key}.{name}" in tensors:
                optimizer.state[parameter][key] = tensors[f"adam.{key}.{name}"].to(parameter.device)
