"""The record of models that look the next word up among the training pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nmtcourse.teaching.language import say
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
    words = example["next"]
    lines = [
        f"source     {example['source']}",
        f"alone      {example['plain']}",
        f"looking up {example['looked_up']}",
        f"reference  {example['reference']}",
        f"after “{example['before']}”: "
        + ", ".join(
            f"{word} {alone:.2f} → {mixed:.2f}"
            for word, alone, mixed in zip(words, example["alone"], example["mixed"], strict=True)
        ),
    ]
    for entry in example["entries"]:
        lines.append(f"    {entry['before']} [{entry['next']}]    ({entry['source']})")
    return [say(line) for line in lines]
