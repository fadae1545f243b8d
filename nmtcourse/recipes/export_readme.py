"""The README.md of an exported model: how to load it, in code that runs in its folder as it is."""

from __future__ import annotations

import re
from importlib import resources
from string import Template

from nmtlib.model.transformer import Transformer
from nmtlib.specials import SPECIALS

NAMES = ("PAD", "BOS", "EOS", "UNK")


def readme(to: str, model: Transformer) -> str:
    """The text for a model exported in the format `to`: its template in `readmes`, filled in."""
    template = "hugging_face" if to in ("marian", "pegasus") else to
    folder = resources.files("nmtcourse.recipes") / "readmes"
    text = "\n".join((folder / f"{name}.md").read_text("utf-8") for name in ("head", template))
    ids = {name: str(number) for number, name in enumerate(NAMES)}
    tokens = {f"{name}_TOKEN": token for name, token in zip(NAMES, SPECIALS, strict=True)}
    specials = ", ".join(f"{token} {number}" for number, token in enumerate(SPECIALS))
    facts = {"format": to, "specials": specials, "max_length": str(model.config.max_length)}
    return Template(text).substitute(ids | tokens | facts | describe_weights(model))


def describe_weights(model: Transformer) -> dict[str, str]:
    """What the names and shapes of a model's tensors mean; layers of one stack count once."""
    config = model.config
    shapes = {
        re.sub(r"^(\w+)\.\d+\.", r"\1.N.", name): tuple(parameter.shape)
        for name, parameter in model.named_parameters()
    }
    tied = {
        "none": "No tensor is tied to another.",
        "target": "`output.weight` is `target_embedding.weight`.",
        "all": "`source_embedding.weight` is also the target's embedding and `output.weight`.",
    }
    positions = {
        "learned": "`source_positions.table` and `target_positions.table`",
        "sinusoidal": "sin and cos of position / 10000 ** (2i / d_model), in dimensions 2i, 2i + 1",
    }
    return {
        "table": "\n".join(f"| `{name}` | {shape} |" for name, shape in shapes.items()),
        "tied": tied[config.tied],
        "positions": positions[config.positions],
        "block": "x + sublayer(norm(x))" if config.norm == "pre" else "norm(x + sublayer(x))",
    }
