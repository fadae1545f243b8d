"""Values as data, for two processes of which one does not trust the other.

`Codec.encode` turns numbers, text, containers and tensors into JSON and blobs of bytes. What is not
data stays where it is: only its number is sent, and `Codec.refer` and `Codec.resolve` of
`nmtcourse.homework.peer` keep the books. Decoding runs no code that the sender has chosen.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

HEAD = struct.Struct("!QQ")  # bytes of JSON, bytes of blobs
MOST = 2**26  # bytes of a message from a student: 64 MiB
CONTAINERS = {"tuple": tuple, "set": set, "frozenset": frozenset}
NAMES = {d: str(d) for d in vars(torch).values() if isinstance(d, torch.dtype)}
DTYPES = {name: d for d, name in NAMES.items()}
QUICK = {torch.float32, torch.float64, torch.int64, torch.bool}
PLAIN = (type(None), bool, str)


class Damaged(ValueError):
    """What the other process has sent is no valid message."""


class Lost(Exception):
    """The other process has ended, or was stopped."""


class Codec:
    """Encode and decode the values of one message."""

    def __init__(self) -> None:
        self.blobs: list[bytes] = []

    def refer(self, value: Any) -> dict[str, Any]:
        """What stands for a value that is no data."""
        raise TypeError(f"a {type(value).__name__} is no data")

    def resolve(self, node: dict[str, Any]) -> Any:
        """The value that a reference stands for."""
        raise Damaged(f"unknown kind of value: {[*node][:3]}")

    def received(self, value: Tensor, node: dict[str, Any]) -> Tensor:
        """A tensor as the receiver uses it."""
        return value

    def encode(self, value: Any) -> Any:
        """A value as JSON; bytes go to `blobs`."""
        if isinstance(value, PLAIN):
            return value if type(value) in PLAIN else str(value)
        if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "biufc":
            return self._numbers(np.asarray(value), isinstance(value, np.ndarray))
        if isinstance(value, int):
            return int(value) if abs(value) < 2**63 else {"int": hex(value)}
        if isinstance(value, float):
            return float(value)
        if type(value) is list:
            return [self.encode(each) for each in value]
        for name, kind in CONTAINERS.items():
            if isinstance(value, kind) and (type(value) is kind or kind is tuple):
                return {name: [self.encode(each) for each in value]}
        if isinstance(value, dict):
            return {"dict": [[self.encode(k), self.encode(v)] for k, v in value.items()]}
        return self._special(value)

    def _special(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.tensor(value)
        if isinstance(value, bytes):
            return {"bytes": self._blob(value)}
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if isinstance(value, torch.dtype):
            return {"dtype": str(value)}
        if isinstance(value, Path):
            return {"path": str(value)}
        if isinstance(value, torch.Generator):
            return {"generator": self.tensor(value.get_state())}
        return self.refer(value)

    def _blob(self, value: bytes) -> int:
        self.blobs.append(value)
        return len(self.blobs) - 1

    def _numbers(self, value: np.ndarray, array: bool) -> dict[str, Any]:
        blob = self._blob(np.ascontiguousarray(value).tobytes())
        return {"numpy": blob, "type": value.dtype.str, "shape": [*value.shape], "array": array}

    def tensor(self, value: Tensor) -> dict[str, Any]:
        """A tensor's numbers, dtype, shape, strides, and whether it needs a gradient."""
        node = {"shape": [*value.shape], "type": NAMES[value.dtype], "grad": value.requires_grad}
        node["leaf"] = value.is_leaf
        if value.is_meta:
            return {"tensor": -1, **node}
        plain = value.detach()
        if plain.is_contiguous() and plain.dtype in QUICK and plain.is_cpu:
            return {"tensor": self._blob(plain.numpy().tobytes()), **node}
        if plain.layout != torch.strided or plain.dtype not in DTYPES.values():
            raise TypeError(f"a tensor of layout {plain.layout}: expected a dense one")
        plain = plain.resolve_conj().resolve_neg().cpu()
        if not plain.is_contiguous() and plain.numel():
            node["stride"] = [*plain.stride()]
            spread = sum((n - 1) * s for n, s in zip(plain.shape, plain.stride(), strict=True)) + 1
            plain = plain.as_strided((spread,), (1,))
        if not plain.numel():
            return {"tensor": self._blob(b""), **node}
        flat = plain.reshape(-1).clone(memory_format=torch.contiguous_format)
        return {"tensor": self._blob(flat.view(torch.uint8).numpy().tobytes()), **node}

    def decode(self, node: Any) -> Any:
        """The value of a node. Raises Damaged for anything that `encode` does not make."""
        if isinstance(node, PLAIN) or isinstance(node, int | float):
            return node
        if isinstance(node, list):
            return [self.decode(each) for each in node]
        for name, kind in CONTAINERS.items():
            if name in node:
                return kind(self.decode(each) for each in _list(node[name]))
        if "dict" in node:
            return {self.decode(k): self.decode(v) for k, v in _list(node["dict"])}
        if "tensor" in node:
            return self.received(self._tensor(node), node)
        if "bytes" in node:
            return self._at(node["bytes"])
        if "int" in node:
            return int(str(node["int"])[:10_000], 16)
        if "numpy" in node:
            dtype = np.dtype(str(node["type"]))
            if dtype.kind not in "biufc":
                raise Damaged(f"an array of {dtype}")
            made = np.frombuffer(self._at(node["numpy"]), dtype).reshape(_sizes(node["shape"]))
            return made.copy() if node["array"] else made[()]
        if "complex" in node:
            return complex(*map(float, node["complex"]))
        if "dtype" in node:
            return DTYPES[node["dtype"]]
        if "path" in node:
            return Path(str(node["path"]))
        if "generator" in node:
            generator = torch.Generator()
            generator.set_state(self.decode(node["generator"]))
            return generator
        return self.resolve(node)

    def _at(self, place: Any) -> bytes:
        if not isinstance(place, int) or not 0 <= place < len(self.blobs):
            raise Damaged("a value without its bytes")
        return self.blobs[place]

    def _tensor(self, node: dict[str, Any]) -> Tensor:
        shape, dtype = _sizes(node["shape"]), DTYPES[node["type"]]
        if node["tensor"] == -1:
            return torch.empty(shape, dtype=dtype, device="meta")
        raw = bytearray(self._at(node["tensor"]))
        if not raw:
            if math.prod(shape):
                raise Damaged("a tensor without its numbers")
            return torch.empty(shape, dtype=dtype)
        flat = torch.frombuffer(raw, dtype=torch.uint8).view(dtype)
        if "stride" in node:
            return flat.as_strided(shape, _sizes(node["stride"]))  # torch refuses to leave `flat`
        return flat.reshape(shape)


def _list(node: Any) -> list[Any]:
    if not isinstance(node, list):
        raise Damaged("a container without a list")
    return node


def _sizes(node: Any) -> tuple[int, ...]:
    if any(not isinstance(n, int) or not 0 <= n < 2**40 for n in _list(node)):
        raise Damaged("a shape that is no list of sizes")
    return tuple(node)


def send(file: BinaryIO, message: Any, blobs: list[bytes]) -> None:
    """Write one message. Raises Lost if nobody reads it."""
    text = json.dumps([message, [len(blob) for blob in blobs]]).encode()
    try:
        file.write(HEAD.pack(len(text), sum(map(len, blobs))) + text + b"".join(blobs))
        file.flush()
    except OSError:
        raise Lost("the process has ended") from None


def receive(file: BinaryIO, most: int = MOST) -> tuple[Any, list[bytes]]:
    """Read one message. Raises Lost at the end of the file, Damaged for what is no message."""
    text_size, blob_size = HEAD.unpack(_read(file, HEAD.size))
    if text_size > most or blob_size > most:
        sent = f"{(text_size + blob_size) / 2**20:,.0f} MiB"
        raise Damaged(f"it sent {sent}; at most {most / 2**20:.0f} are read")
    text, raw = _read(file, text_size), _read(file, blob_size)
    try:
        message, sizes = json.loads(text)
        ends = [0]
        for each in _sizes(sizes):
            ends.append(ends[-1] + each)
    except (ValueError, TypeError, RecursionError) as error:
        raise Damaged(f"it sent what is no message ({type(error).__name__})") from None
    if ends[-1] != len(raw):
        raise Damaged("it sent a message of the wrong length")
    return message, [raw[a:b] for a, b in zip(ends, ends[1:], strict=False)]


def _read(file: BinaryIO, size: int) -> bytes:
    try:
        found = file.read(size)
    except (OSError, ValueError):
        found = b""
    if found is None or len(found) < size:
        raise Lost("the process has ended")
    return found
