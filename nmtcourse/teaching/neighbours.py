"""The record of models that look the next word up among the training pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nmtcourse.teaching.language import pad, say
from nmtlib.errors import require_one_of

RECORDED = Path(__file__).parent / "recorded" / "neighbours.json"


def recorded(model: str) -> dict[str, Any]:
    """The record of a model that ships, by its name.  Raises ValueError for another name."""
    rows = json.loads(RECORDED.read_text("utf-8"))["models"]
    models = {row["model"]: row for row in rows}
    require_one_of("model", models, model)
    return models[model]


def parting_lines(example: dict[str, Any]) -> list[str]:
    """Where two translations of a sentence part, and which entries spoke for which token."""
    labels = {
        "source": "source",
        "alone": "plain",
        "looking up": "looked_up",
        "reference": "reference",
    }
    lines = [f"{pad(say(label), 11)}{example[key]}" for label, key in labels.items()]
    choices = zip(example["next"], example["alone"], example["mixed"], strict=True)
    words = ", ".join(f"{word} {alone:.2f} → {mixed:.2f}" for word, alone, mixed in choices)
    lines.append(say(f"after “{example['before']}”: {words}"))
    for entry in example["entries"]:
        lines.append(f"    {entry['before']} [{entry['next']}]    ({entry['source']})")
    return lines
