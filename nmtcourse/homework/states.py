"""The state of a module as bytes: weights, gradients, buffers, modes and plain attributes."""

from __future__ import annotations

import json
import weakref
from typing import Any

import torch
from torch import Tensor, nn

from nmtcourse.homework.wire import Codec, Damaged

SHARED = ("torch", "nmtlib")  # packages that both sides trust
SIMPLE = (bool, int, float, str, type(None), torch.dtype)
State = tuple[list[Any], list[bytes]]
PARTS: weakref.WeakKeyDictionary[nn.Module, list] = weakref.WeakKeyDictionary()


def shared_class(value: Any) -> str:
    """The path of a class that both sides have, or ''."""
    if not isinstance(value, type) or value.__module__.partition(".")[0] not in SHARED:
        return ""
    return f"{value.__module__}:{value.__qualname__}"


def tensors_of(part: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    """The own parameters and buffers of a module by name; absent ones are None."""
    return part._parameters, part._buffers


def simple(part: nn.Module) -> dict[str, Any]:
    """The attributes of a module that are plain data."""
    return {
        name: str(value) if isinstance(value, torch.dtype) else value
        for name, value in vars(part).items()
        if isinstance(value, SIMPLE) and not name.startswith("_") and name != "training"
    }


def checked(attributes: Any) -> dict[str, Any]:
    """Attributes of a mirror, which never hide what a module has."""
    return {
        name: value
        for name, value in attributes.items()
        if name.isidentifier() and not name.startswith("_") and not hasattr(nn.Module, name)
        if isinstance(value, SIMPLE)
    }


def parts_of(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """The parts of a module with the beginnings of their names; kept while the tree is the same."""
    kept = PARTS.get(module, [])
    if not kept or any(count != len(part._modules) for _, part, count in kept):
        named = module.named_modules(remove_duplicate=False)
        kept = [(f"{p}." if p else "", part, len(part._modules)) for p, part in named]
        PARTS[module] = kept
    return [(path, part) for path, part, _ in kept]


def state_of(module: nn.Module) -> State:
    """Weights, gradients, buffers, modes and plain attributes of a module, and the bytes of them.

    A tensor that occurs again has the name of the first occurrence.
    """
    codec = Codec()
    first: dict[int, str] = {}
    rows: list[Any] = []
    for path, part in parts_of(module):
        for name, each in part._parameters.items():
            if each is not None:
                same = first.setdefault(id(each), path + name)
                grad = None if each.grad is None else codec.tensor(each.grad)
                rows.append([path + name, same, same == path + name and codec.tensor(each), grad])
        for name, buffer in part._buffers.items():
            if buffer is not None:
                kept = name not in part._non_persistent_buffers_set
                rows.append([path + name, kept, codec.tensor(buffer)])
        own = {} if shared_class(type(part)) else simple(part)
        rows.append([path, part.training, own])
    return rows, codec.blobs


def packed(state: State) -> bytes:
    """A state as bytes."""
    rows, blobs = state
    return json.dumps([rows, [len(blob) for blob in blobs]]).encode() + b"\0" + b"".join(blobs)


def unpacked(raw: bytes) -> State:
    """The state in bytes."""
    text, _, rest = raw.partition(b"\0")
    rows, sizes = json.loads(text)
    blobs, start = [], 0
    for size in sizes:
        blobs.append(rest[start : start + size])
        start += size
    return rows, blobs


def adopt(module: nn.Module, state: State, grow: bool) -> None:
    """Give a module that state; a tensor that it does not have is added if it may `grow`."""
    rows, blobs = state
    codec = Codec()
    codec.blobs = blobs
    for row in rows:
        if len(row) == 4:
            adopt_parameter(module, row, codec, grow)
        elif isinstance(row[2], dict) and "tensor" in row[2]:
            adopt_buffer(module, row, codec, grow)
        else:
            path, training, attributes = row
            part = module.get_submodule(path.rstrip("."))
            part.__dict__["training"] = bool(training)  # a GRU asks for other attributes first
            if "_place" in part.__dict__:  # a mirror
                part.__dict__.update(checked(attributes))


def adopt_parameter(module: nn.Module, row: list[Any], codec: Codec, grow: bool) -> None:
    """Give a module a parameter and its gradient."""
    name, same, node, grad = row
    parent, leaf = owner(module, name)
    if same != name:
        parent._parameters[leaf] = module.get_parameter(same)
        return
    value, old = codec._tensor(node), parent._parameters.get(leaf)
    if old is None or old.is_meta != value.is_meta:
        require_growing(grow, name)
        parent._parameters[leaf] = old = nn.Parameter(value, value.is_floating_point())
    elif not identical(old, value):
        if old.shape != value.shape or old.dtype != value.dtype:
            require_growing(grow, name)
            old.data = value
        old.data.copy_(value)
    old.requires_grad_(bool(node["grad"]))
    old.grad = None if grad is None else codec._tensor(grad)


def adopt_buffer(module: nn.Module, row: list[Any], codec: Codec, grow: bool) -> None:
    """Give a module a buffer, which is kept in its state_dict or not."""
    name, kept, node = row
    parent, leaf = owner(module, name)
    value, old = codec._tensor(node), parent._buffers.get(leaf)
    if old is None or (old.shape, old.dtype, old.device) != (
        value.shape,
        value.dtype,
        value.device,
    ):
        require_growing(grow, name)
        parent._buffers[leaf] = value
    elif not identical(old, value):
        old.data.copy_(value)
    if not kept:
        parent._non_persistent_buffers_set.add(leaf)


def owner(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The part of a module that has a tensor, and the tensor's own name."""
    path, _, leaf = name.rpartition(".")
    return module.get_submodule(path), leaf


def identical(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same dtype, shape and numbers."""
    if one.is_meta or one.dtype != other.dtype or one.shape != other.shape:
        return one.is_meta
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def require_growing(grow: bool, name: str) -> None:
    """Refuse another shape, dtype or name of a tensor that the judge owns."""
    if not grow:
        raise Damaged(f"the shape or dtype of {str(name)[:80]} has changed")
