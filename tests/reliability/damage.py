"""Ways to damage a file: any file, JSON, and checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save

from nmtlib.training.checkpoint import HEADER

Change = Callable[[Path], object]
DEEP = b"[" * 100_000


def put(data: bytes) -> Change:
    """Write this in place of what the file holds."""
    return lambda path: path.write_bytes(data)


def cut(share: float) -> Change:
    """Keep only the first part of a file."""
    return lambda path: path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 64
    path.write_bytes(data)


def folder_instead(path: Path) -> None:
    """A folder of the same name."""
    path.unlink()
    path.mkdir()
    (path / "note.txt").write_text("a folder now")


def link_to_itself(path: Path) -> None:
    """A link that leads nowhere."""
    path.unlink()
    path.symlink_to(path.name)


# JSON files


def edit(change: Callable[[Any], Any]) -> Change:
    """Change what a JSON file says; `change` returns the new value, or None to have kept it."""

    def write(path: Path) -> None:
        data = json.loads(path.read_bytes())
        new = change(data)
        path.write_text(json.dumps(data if new is None else new), "utf-8")

    return write


def setting(section: str, key: str, value: Any) -> Change:
    """One setting changed in settings.json."""
    return edit(lambda data: data[section].__setitem__(key, value))


# Checkpoints


class Checkpoint:
    """What a safetensors file holds, to be changed."""

    def __init__(self, path: Path):
        with safe_open(path, framework="pt") as file:
            self.metadata = dict(file.metadata())
            self.tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        self.header = json.loads(self.metadata[HEADER])

    def write(self, path: Path) -> None:
        """Write it, with the header as it is now."""
        if HEADER in self.metadata:
            self.metadata[HEADER] = json.dumps(self.header)
        path.write_bytes(save(self.tensors, metadata=self.metadata or None))


def rewrite(change: Callable[[Checkpoint], object]) -> Change:
    """Change a checkpoint."""

    def write(path: Path) -> None:
        checkpoint = Checkpoint(path)
        change(checkpoint)
        checkpoint.write(path)

    return write


# The history, and whole folders


def table(change: Callable[[list[str]], list[str]]) -> Change:
    """Change the lines of a CSV file."""
    return lambda path: path.write_text("\n".join(change(path.read_text().split("\n"))))


def unlink(*names: str) -> Change:
    """Remove some files of a folder."""
    return lambda folder: [(folder / name).unlink() for name in names]
