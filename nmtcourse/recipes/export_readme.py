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
    speeds = "position / 10000 ** (2i / {}), in dimensions 2i, 2i + 1"
    positions = {
        "learned": "then positions are added: `source_positions.table`, `target_positions.table`",
        "sinusoidal": f"then positions are added: sin and cos of {speeds.format('d_model')}",
        "rotary": "and no positions are added. In self-attention, each query and key is turned: of "
        "the angle a = " + speeds.format("d_k") + ", x becomes x cos a + y sin a, and y becomes "
        "y cos a - x sin a",
    }
    return {
        "table": "\n".join(f"| `{name}` | {shape} |" for name, shape in shapes.items()),
        "tied": tied[config.tied],
        "positions": positions[config.positions],
        "block": "x + sublayer(norm(x))" if config.norm == "pre" else "norm(x + sublayer(x))",
    }
