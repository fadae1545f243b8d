"""Runs that a test writes without training."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from nmtlib.data.codec import Codec
from nmtlib.model.transformer import Transformer
from nmtlib.run import Run
from nmtlib.settings import Settings, find_key
from nmtlib.training.checkpoint import (
    HEADER,
    Description,
    digest_of_file,
    load_model,
    read_checkpoint,
    read_file,
    save_checkpoint,
)


def write_run(
    folder: Path, model: Transformer, settings: Settings, source: Codec, target: Codec
) -> Run:
    """A run that has ended, of a model with its codecs."""
    settings = replace(settings, model=model.config)
    run = Run.create(folder, settings)
    write_weights(run.model_file, model, settings, source, target)
    return run


def write_weights(
    path: Path,
    model: Transformer,
    settings: Settings,
    source: Codec,
    target: Codec,
    weights: str = "epoch 1",
) -> None:
    """A file of weights that translates alone."""
    about = Description(replace(settings, model=model.config), source, target)
    save_checkpoint(path, model, weights=weights, validation_nll=1.0, description=about)


def describe_anew(path: Path, **changes: Any) -> None:
    """Write a file of weights again, with another source, target, settings or command."""
    header, about = (saved := read_checkpoint(path)).header, saved.described()
    save_checkpoint(
        path,
        load_model(path),
        weights=header.weights,
        validation_nll=header.validation_nll,
        description=replace(about, **changes),
    )


def with_value(settings: Settings, key: str, value: Any) -> Settings:
    """Settings with one value changed; `key` may leave its section out where one has the name."""
    section, name = find_key(key, "a test")
    return settings.changed({section: {name: value}})


def set_anew(path: Path, key: str, value: Any) -> None:
    """Write a file of weights again, as if it had been trained with another setting."""
    describe_anew(path, settings=with_value(read_checkpoint(path).described().settings, key, value))


def rewrite(path: Path, change: Callable[[dict[str, Any], dict[str, Tensor]], object]) -> None:
    """Change the header and the tensors of a file, and the SHA-256 with them."""
    content, tensors = read_file(path)
    change(content, tensors)
    content["sha256"] = digest_of_file(content, tensors)
    path.write_bytes(save(tensors, metadata={HEADER: json.dumps(content)}))
