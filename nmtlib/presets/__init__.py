"""The presets, one TOML file each: recipes that are known to work, to start from."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from importlib import resources
from pathlib import Path

from nmtlib.errors import did_you_mean
from nmtlib.settings import Settings


def presets() -> list[str]:
    """Names of the presets that come with nmtlib."""
    files = resources.files(__name__).iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def load_settings(preset: str | Path) -> Settings:
    """Settings of a preset by name, or of one's own TOML file by path.

    Paths in a TOML file are relative to that file.
    Raises ValueError for an unknown name, FileNotFoundError for a missing file.
    """
    preset = str(preset)
    if preset.endswith(".toml"):
        path = Path(preset)
        if not path.is_file():
            raise FileNotFoundError(f"no such preset file: {path}")
        text = path.read_bytes()
    elif preset in presets():
        path, text = None, (resources.files(__name__) / f"{preset}.toml").read_bytes()
    else:
        raise ValueError(
            f"unknown preset {preset!r}{did_you_mean(preset, presets())}; the presets are "
            f"{', '.join(presets())}, or give the path of a .toml file"
        )
    try:
        settings = Settings.from_dict(tomllib.loads(text.decode("utf-8-sig")), where=preset)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{preset} is not valid TOML in UTF-8: {error}") from None
    settings.corpus.require_one_origin()
    if path is None:  # a preset names corpora and runs, and knows no folder
        return settings
    corpus = settings.corpus.located(path.parent)
    return replace(settings, corpus=corpus, training=settings.training.located(path.parent))


def overview() -> list[tuple[str, ...]]:
    """A table of the presets, headings first: corpus, size, and the best result on record.

    The records are those of `benchmarks/results`, which `make readme` sums up in records.json.
    """
    records = json.loads((resources.files(__name__) / "records.json").read_text("utf-8"))
    rows: list[tuple] = [("preset", "corpus", "parameters", "minutes", "best recorded score")]
    for name in presets():
        found = records.get(name, {})
        best = (found.get(key, "not measured") for key in ("parameters", "minutes", "score"))
        rows.append((name, load_settings(name).corpus.name, *best))
    return rows
