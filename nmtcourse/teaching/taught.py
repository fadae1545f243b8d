"""What `benchmarks/taught.py` recorded: a teacher that hesitates, and those whom it taught."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "recorded" / "taught.json"


def recorded() -> dict[str, Any]:
    """The record."""
    return json.loads(RECORDED.read_text("utf-8"))


def place_lines(place: dict[str, Any]) -> list[str]:
    """A place in a training pair, and what the teacher would say there."""
    lines = [
        f"source            {place['source']}",
        f"after “{place['before']}” the label is {place['label']}",
    ]
    for title, key in (("as it translates", "plain"), ("with dropout", "dropout")):
        said = ", ".join(f"{word} {probability:.2f}" for word, probability in place[key])
        lines.append(f"{title:<18}{said}")
    return lines
