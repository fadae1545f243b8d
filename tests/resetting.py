"""Runs with other settings, as if they had been trained with them."""

from pathlib import Path
from typing import Any

from nmtlib.run import Run
from nmtlib.training.checkpoint import load_model, read_checkpoint, save_checkpoint


def reset(folder: Path, key: str, value: Any) -> None:
    """Change one setting of a run, and the digest of them in its weights."""
    run = Run(folder)
    run.settings_file.write_text(run.settings().with_value(key, value).to_json(), "utf-8")
    for file in run.folder.glob("*.safetensors"):
        notes = read_checkpoint(file)[2]
        notes["identity"] |= run.digests()
        if "progress" not in notes:
            save_checkpoint(file, load_model(file), **notes)
