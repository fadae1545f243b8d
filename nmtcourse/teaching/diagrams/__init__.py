"""Diagrams of the architecture: NAME.svg to edit, NAME.png to show, texts.toml for alt texts.

Those of Chinese notebooks are in `zh`, made by tools/diagrams.py.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmtcourse.teaching.language import chosen_language
from nmtlib.errors import require_one_of

FOLDER = Path(__file__).parent
TEXTS: dict[str, str] = tomllib.loads((FOLDER / "texts.toml").read_text("utf-8"))
CHINESE: dict[str, str] = tomllib.loads((FOLDER / "zh.toml").read_text("utf-8"))["alt"]
# Read from the bottom to the top: a deck that cuts one shows its lower part first.  In
# residual-and-norm data flow upwards as well, but its columns are named at the top.
UPWARD = frozenset({"attention-head", "multi-head", "whole-model", "whole-model-pre"})


@dataclass(frozen=True)
class Diagram:
    """A stored picture, which a notebook displays with its alternative text."""

    name: str

    def __repr__(self) -> str:
        return TEXTS[self.name] if chosen_language() == "en" else CHINESE[self.name]

    def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
        folder = FOLDER if chosen_language() == "en" else FOLDER / "zh"
        return (folder / f"{self.name}.png").read_bytes(), {"alt": repr(self)}


def show(name: str) -> Diagram:
    """A diagram by its name, such as "whole-model".  Raises ValueError for an unknown name."""
    require_one_of("a diagram", TEXTS, name)
    return Diagram(name)
