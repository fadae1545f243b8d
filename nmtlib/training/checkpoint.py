"""The files of a run, one format: weights with all that translating needs, and what a resume needs.

A file holds the tensors of a model and a header in JSON.  Its `description` (settings, both codecs,
the command) makes it translate alone; a `state` makes it one that a training goes on from.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from nmtlib.data.codec import Codec
from nmtlib.files import write_atomically
from nmtlib.model.attention import AttentionClass, MultiHeadAttention
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.run import BY_EARLIER, Run
from nmtlib.settings import Settings, explain
from nmtlib.training.history import Progress, write_history
from nmtlib.training.loss import Totals, perplexity
from nmtlib.training.parallel import part_like

HEADER = "nmtlib"  # the one key of the metadata: safetensors would write several in any order
WEIGHT_TYPES = (torch.float32, torch.float16)  # any other would be changed by a copy to float32
Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Description:
    """What a model needs besides its weights to translate, and the command that trained it.

    The sizes of `settings.model` are those of the model, vocabularies included.
    """

    settings: Settings
    source: Codec
    target: Codec
    command: str = ""


class State(BaseModel, extra="forbid", strict=True):
    """What a resume needs besides tensors.

    `identity` holds a digest of each thing outside of the file that must be found unchanged.
    """

    progress: Progress
    precision: Literal["float32", "bfloat16"]
    threads: Annotated[int, Field(ge=1)]
    identity: dict[str, str]


class Header(BaseModel, extra="forbid", strict=True):
    """What a file of a run says besides its tensors; `sha256` is that of both.

    `attention` is the name of a class that is not nmtlib's own.  `weights` says whose they are,
    such as "epoch 3", and `validation_nll` how well they validate, in nats a token.
    """

    config: dict[str, Any]
    attention: str = ""
    weights: str = ""
    validation_nll: Annotated[float, Field(ge=0, le=709)] | None = None  # its exp is finite
    description: dict[str, Any] | None = None
    state: State | None = None
    sha256: str = ""


@dataclass(frozen=True)
class Checkpoint:
    """A file of a run as it was read."""

    path: Path
    config: TransformerConfig
    tensors: dict[str, Tensor]
    header: Header
    description: Description | None

    def described(self) -> Description:
        """Its description.  Raises ValueError where it has none."""
        if self.description is None:
            raise ValueError(
                f"{self.path} holds a model without settings and vocabularies, so it cannot "
                "translate; take a file that `nmtlib train` wrote"
            )
        return self.description

    def require_attention(self, attention: AttentionClass) -> None:
        """Raise ValueError unless the model was trained with this class of attention.

        The weights are the same for all classes, so nothing else would tell.
        """
        saved, given = self.header.attention, name_of_attention(attention)
        if saved != given:
            before = f"attention={saved}" if saved else "nmtlib's own attention"
            now = f"attention={given}" if given else "nmtlib's own"
            raise ValueError(
                f"{self.path} was trained with {before}, not with {now}: in Python, give `train` "
                "and `load` the same class"
            )

    def require_config(self, config: TransformerConfig, free: Sequence[str] = ()) -> None:
        """Raise ValueError naming what differs where this is another model, fields `free` apart."""
        expected, own = asdict(config), asdict(self.config)
        for name, value in own.items():
            if name not in free and value != expected[name]:
                raise ValueError(
                    f"{self.path} holds another model: its {name} is {value!r}, not "
                    f"{expected[name]!r}"
                )

    def require_run(self, description: Description | None) -> None:
        """Raise ValueError naming what differs where the file is of a run described otherwise."""
        if difference := difference_between(self.description, description):
            raise ValueError(
                f"{self.path} belongs to another run: {difference}; restore what was there, or "
                "train anew"
            )


def difference_between(saved: Description | None, given: Description | None) -> str:
    """The first thing that tells two runs apart; '' where they are one."""
    if saved is None or given is None:
        return "" if saved is given else "one of them has no settings and vocabularies"
    theirs, mine = saved.settings.identity(), given.settings.identity()
    for key in sorted(theirs.keys() | mine.keys()):
        if theirs.get(key) != mine.get(key):
            return f"its {key} is {theirs.get(key)!r}, not {mine.get(key)!r}"
    for side in ("source", "target"):
        if getattr(saved, side) != getattr(given, side):
            return f"it has another {side} vocabulary"
    return ""


def name_of_attention(attention: AttentionClass) -> str:
    """The name of a class of attention that is not nmtlib's own, '' for that."""
    return "" if attention is MultiHeadAttention else attention.__name__


def save_checkpoint(
    path: str | Path,
    model: Transformer,
    *,
    weights: str = "",
    validation_nll: float | None = None,
    description: Description | None = None,
    state: State | None = None,
    moments: Tensors | None = None,
) -> None:
    """Write a model, and what else is given, into one file; see `Header`."""
    tensors = {f"model.{name}": p.detach() for name, p in model.named_parameters()}  # tied once
    tensors |= moments or {}
    tensors = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    header = Header(
        config=asdict(model.config),
        attention=name_of_attention(model.attention),
        weights=weights,
        validation_nll=validation_nll,
        description=dictionary_of(description) if description else None,
        state=state,
    ).model_dump(mode="json")
    header["sha256"] = digest_of_file(header, tensors)
    metadata = {HEADER: json.dumps(header, sort_keys=True, ensure_ascii=False)}
    write_atomically(path, save(tensors, metadata=metadata))


def dictionary_of(description: Description) -> dict[str, Any]:
    """A description as it stands in a header: the model's settings are its `config`."""
    settings = asdict(description.settings)
    del settings["model"]
    return {
        "settings": settings,
        "source": description.source.to_dict(),
        "target": description.target.to_dict(),
        "command": description.command,
    }


def digest_of_file(header: Mapping[str, Any], tensors: Tensors) -> str:
    """SHA-256 of a header, and of the names, types, shapes and bytes of tensors."""
    content = {key: value for key, value in header.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_checkpoint(path: str | Path) -> Checkpoint:
    """A file of a run with all that it holds, checked.

    Raises FileNotFoundError, or ValueError for a file that nmtlib did not write as it is.
    """
    path = Path(path)
    content, tensors = read_file(path)
    header = read_header(path, content)
    if header.sha256 != digest_of_file(content, tensors):
        raise ValueError(f"{path} is damaged: it is not as it was written (its SHA-256 differs)")
    # A number that is not finite spoils the sum, which is many times faster than checking each.
    if not all(tensor.sum(dtype=torch.float32).isfinite() for tensor in tensors.values()):
        raise ValueError(f"{path} is damaged: the weights are not all finite numbers")
    config = read_config(path, header)
    named = re.fullmatch(r"epoch-(\d+)", path.stem)
    if named and header.weights != f"epoch {int(named[1])}":
        raise ValueError(
            f"{path} holds the weights of {header.weights}, though its name says epoch "
            f"{int(named[1])}; give it back its name, or remove it"
        )
    return Checkpoint(path, config, tensors, header, read_description(path, header, config))


def read_file(path: Path, *, only_header: bool = False) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The header of a file as JSON, and its tensors, none for `only_header`."""
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint at {path}")
    tensors = {}
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            for name in [] if only_header else file.keys():
                tensors[name] = file.get_tensor(name)
    except SafetensorError as error:
        raise ValueError(
            f"{path} is damaged or not a checkpoint ({error}); use another checkpoint of the run, "
            f"or train again"
        ) from None
    try:
        content = json.loads(metadata.get(HEADER, "{}"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a checkpoint of nmtlib: {error}") from None
    return content, tensors


def read_header(path: Path, content: Any) -> Header:
    """A header with its types checked.  Raises ValueError naming what is wrong."""
    if isinstance(content, dict) and "notes" in content:
        raise ValueError(f"{path} was {BY_EARLIER}")
    try:
        return Header.model_validate_json(json.dumps(content))
    except ValidationError as error:
        raise ValueError(f"{path} is not a checkpoint of nmtlib: {explain(error)}") from None


def read_config(path: Path, header: Header) -> TransformerConfig:
    """The configuration in a header.  Raises ValueError where it is that of no model."""
    try:
        TypeAdapter(TransformerConfig).validate_json(json.dumps(header.config), strict=True)
        return TransformerConfig(**header.config)  # refuses other keys
    except (TypeError, ValueError) as error:
        reason = explain(error) if isinstance(error, ValidationError) else error
        raise ValueError(f"{path} was written by another version of nmtlib: {reason}") from None


def read_description(path: Path, header: Header, config: TransformerConfig) -> Description | None:
    """The description in a header, of a model of `config`; None where there is none."""
    if header.description is None:
        return None
    parts = header.description
    if missing := {"settings", "source", "target", "command"} - parts.keys():
        raise ValueError(
            f"{path} was written by another version of nmtlib: its description has no "
            f"{', '.join(sorted(missing))}"
        )
    sections = {**parts["settings"], "model": asdict(config)}
    settings = Settings().changed(sections, where=str(path))
    codecs: dict[str, Codec] = {}
    for side in ("source", "target"):
        codec = Codec.from_dict(parts[side], f"{path}: the {side}")
        if len(codec.vocab) != (size := getattr(config, f"{side}_vocab_size")):
            raise ValueError(
                f"{path} is damaged: its model has {size} {side} tokens, its vocabulary "
                f"{len(codec.vocab)}"
            )
        codecs[side] = codec
    return Description(settings, codecs["source"], codecs["target"], str(parts["command"]))


def describe_run(run: Run, checkpoint: str = "") -> Description:
    """The description in the weights of a run, without reading them.

    `checkpoint` and errors are those of `Run.weights_file`, and ValueError for a damaged header.
    """
    return describe_file(run.weights_file(checkpoint))


def describe_file(path: Path) -> Description:
    """The description in a file of a run, without reading the tensors."""
    header = read_header(path, read_file(path, only_header=True)[0])
    config = read_config(path, header)
    return Checkpoint(path, config, {}, header, read_description(path, header, config)).described()


def load_weights(model: Transformer, tensors: Tensors, *, where: str | Path = "checkpoint") -> None:
    """Copy a checkpoint's weights into a model.  Raises ValueError where they do not fit."""
    copy_tensors(tensors, {f"model.{n}": p for n, p in model.named_parameters()}, "model.", where)


def copy_tensors(tensors: Tensors, targets: Tensors, prefix: str, where: str | Path) -> None:
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
    return rebuild_model(read_checkpoint(path)).eval()


def rebuild_model(
    checkpoint: Checkpoint, attention: AttentionClass = MultiHeadAttention
) -> Transformer:
    """A model with the weights of a checkpoint.  Raises ValueError where they do not fit."""
    checkpoint.require_attention(attention)
    model = Transformer(checkpoint.config, attention)
    load_weights(model, checkpoint.tensors, where=checkpoint.path)
    return model


def average_checkpoints(
    paths: Sequence[Path], read: Callable[[Path], Checkpoint] = read_checkpoint
) -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints, as in Vaswani et al. 2017, 6.1.

    Raises ValueError where they are not of one model and one run.
    """
    if not paths:
        raise ValueError("averaging needs at least one checkpoint")
    first = read(paths[0])
    total: dict[str, Tensor] = {}
    for path in paths:  # one at a time in memory
        checkpoint = read(path)
        checkpoint.require_config(first.config)
        checkpoint.require_run(first.description)
        for name, tensor in checkpoint.tensors.items():
            if name.startswith("model."):
                total[name] = total.get(name, 0) + tensor.double()
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def moments_of(model: Transformer, optimizer: Any) -> dict[str, Tensor]:
    """The tensors of an optimizer's state by name, such as `optimizer.exp_avg.output.bias`."""
    return {
        f"optimizer.{key}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }


def save_state(
    run: Run,
    model: Transformer,
    moments: Tensors,
    state: State,
    description: Description | None = None,
) -> None:
    """Save all that `load_state` restores: weights, the optimizer's moments, and the progress."""
    run.require_present()
    save_checkpoint(run.state_file, model, description=description, state=state, moments=moments)
    run.saved = run.state_digest()


def load_state(
    run: Run,
    model: Transformer,
    optimizer: Any,
    identity: Mapping[str, str],
    description: Description | None = None,
) -> State:
    """Restore what `save_state` saved; returns the rest of it.

    Raises FileNotFoundError where nothing was saved, ValueError for a file of another run.
    """
    saved = read_checkpoint(run.state_file)
    saved.require_config(model.config)
    saved.require_attention(model.attention)
    saved.require_run(description)
    if (state := saved.header.state) is None:
        raise ValueError(f"{saved.path} does not hold the state of a run, but weights alone")
    require_identity(saved.path, state.identity, identity)
    # An optimizer makes its state in the first step.  One of rate 0 without gradients makes it
    # whole, whatever the optimizer is, so that a tensor that is missing in the file is noticed.
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    load_weights(model, saved.tensors, where=saved.path)
    copy_tensors(saved.tensors, moments_of(model, optimizer), "optimizer.", saved.path)
    return state


def require_identity(path: Path, saved: Mapping[str, str], given: Mapping[str, str]) -> None:
    """Raise ValueError unless what a training reads besides its run is what it was."""
    for name in sorted(saved.keys() | given.keys()):
        if saved.get(name) == given.get(name):
            continue
        if name.startswith("recipe."):
            before, now = saved.get(name, "nmtlib's own"), given.get(name, "nmtlib's own")
            raise ValueError(
                f"{path} was trained with {name} = {before}, not with {now}; pass the same recipe "
                "again, or train anew"
            )
        raise ValueError(
            f"{path} belongs to another run: {name} changed since it was written; restore what "
            "was there, or train anew"
        )


def keep_epoch(
    run: Run,
    model: Transformer,
    progress: Progress,
    average: int,
    description: Description | None = None,
) -> None:
    """Write the files of the epoch just ended, and drop the one that is too old to be averaged."""
    record = progress.history[-1]
    about: dict[str, Any] = {
        "weights": f"epoch {record.epoch}",
        "validation_nll": record.validation_nll,
        "description": description,
    }
    if progress.best is record:
        save_checkpoint(run.best_file, model, **about)
        # What an earlier, stopped run chose is worse than this epoch.
        run.model_file.unlink(missing_ok=True)
    write_history(run.history_file, progress.history)
    run.epoch_file(record.epoch - average).unlink(missing_ok=True)
    save_checkpoint(run.epoch_file(record.epoch), model, **about)


def choose_model(
    run: Run,
    model: Transformer,
    files: list[Path],
    keep: str,
    validate: Callable[[Transformer], Totals],
    description: Description | None = None,
) -> list[str]:
    """Write the best epoch, or the average of some `files` where that is better or `keep` says so.

    `model` only says what a model looks like.  Returns what there is to report.  Raises ValueError
    where a file is of another model, or not of the run of this `description`.
    """

    def read(path: Path) -> Checkpoint:
        checkpoint = read_checkpoint(path)
        checkpoint.require_config(model.config)
        checkpoint.require_run(description)
        return checkpoint

    best = read(run.best_file)
    chosen = rebuild_model(best, model.attention)
    weights, nll = best.header.weights, best.header.validation_nll
    if nll is None:
        raise ValueError(f"{best.path} has no validation_nll, so it cannot be compared")

    epochs = [file for file in files if file.is_file()]
    lost = [file.stem for file in files if file not in epochs]
    lines = [f"missing, so not averaged: {', '.join(lost)}"] if lost else []
    always = keep == "average"
    if len(epochs) > 1 or (epochs and always):
        averaged = Transformer(model.config, model.attention)
        averaged = averaged.to(next(model.parameters()).device)
        load_weights(averaged, average_checkpoints(epochs, read))
        nll_of_average = validate(averaged).nll_per_token
        if nll_of_average < nll or always:
            chosen, nll = averaged, nll_of_average
            several = f"average of the last {len(epochs)} epochs"
            weights = several if len(epochs) > 1 else f"epoch {int(epochs[0].stem[6:])}"

    save_checkpoint(
        run.model_file, chosen, weights=weights, validation_nll=nll, description=description
    )
    return [*lines, f"kept: {weights}, validation perplexity {perplexity(nll, 1):.2f}"]
