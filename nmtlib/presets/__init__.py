"""The presets, one TOML file each: recipes that are known to work, to start from."""

from __future__ import annotations

import tomllib
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from nmtlib.arguments import PathLike, checked
from nmtlib.errors import did_you_mean
from nmtlib.files import names_a_file
from nmtlib.settings import Settings


def _files() -> dict[str, Traversable]:
    """The file of each preset."""
    files = resources.files(__name__).iterdir()
    return {f.name.removesuffix(".toml"): f for f in files if f.name.endswith(".toml")}


def presets() -> list[str]:
    """Names of the presets."""
    return sorted(_files())


@checked(preset=PathLike)
def load_settings(preset: str | Path) -> Settings:
    """Settings of a preset by name, or of your own TOML file by path.

    Paths in a TOML file are relative to that file.
    Raises ValueError for an unknown name, FileNotFoundError for a missing file.
    """
    preset, known = str(preset), _files()
    path = Path(preset) if preset.endswith(".toml") else None
    if path and not names_a_file(path):
        raise FileNotFoundError(f"no such preset file: {path}")
    if not path and preset not in known:
        raise ValueError(
            f"unknown preset {preset!r}{did_you_mean(preset, known)}; the presets are "
            f"{', '.join(sorted(known))}, or give the path of a .toml file"
        )
    text = path.read_bytes() if path else known[preset].read_bytes()
    try:
        settings = Settings().changed(tomllib.loads(text.decode("utf-8-sig")), where=preset)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        cure = "; write a path with / or in single quotes: 'C:\\data'" if b"\\" in text else ""
        raise ValueError(f"{preset} is not valid TOML in UTF-8: {error}{cure}") from None
    settings.corpus.require_one_origin()
    return settings.located(path.parent) if path else settings  # a preset knows no folder
