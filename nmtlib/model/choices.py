"""What a model can be, and which of it each consumer of models can express: one table.

A model is not only trained and decoded here.  Programs above this package write it in other formats
or compute it anew, and one that does not know a choice would make another model without a word.  So
whoever adds a value to `CHOICES` says below who can express it; all others refuse it by name, and
tests/test_choices.py demands of every cell the logits of the model itself, or that refusal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Choices = Mapping[str, tuple[str, ...]]

# The values of each choice of a `TransformerConfig`, where its meanings are documented.
CHOICES: Choices = {
    "norm": ("pre", "post"),
    "positions": ("sinusoidal", "learned", "rotary"),
    "tied": ("none", "target", "all"),
    "embedding_init": ("xavier", "normal"),
    "linear_init": ("xavier", "torch"),
}

# How weights begin does not show in a finished model, so no consumer of one can object.
BEGINNINGS: Choices = {name: CHOICES[name] for name in ("embedding_init", "linear_init")}
NORMS, TABLES, TIES = CHOICES["norm"], ("sinusoidal", "learned"), CHOICES["tied"]

CONSUMERS: Mapping[str, Choices] = {
    # Those that run the model itself can do all that it can.
    "training": CHOICES,
    "step-by-step decoding": CHOICES,
    "batched search": CHOICES,
    "record_attention": CHOICES,
    "nmtcheck": CHOICES,
    "safetensors": CHOICES,
    "onnx": CHOICES,
    # Those that compute it with a program of their own can do what that program can.
    "ctranslate2": {"norm": NORMS, "positions": TABLES, "tied": TIES, **BEGINNINGS},
    "marian": {"norm": ("post",), "positions": ("sinusoidal",), "tied": TIES, **BEGINNINGS},
    "pegasus": {"norm": ("pre",), "positions": ("sinusoidal",), "tied": ("all",), **BEGINNINGS},
    "nn.Transformer": {"norm": NORMS, "positions": TABLES, "tied": TIES, **BEGINNINGS},
    "explorer": {"norm": NORMS, "positions": TABLES, "tied": TIES, **BEGINNINGS},
}
FORMATS = ("safetensors", "onnx", "ctranslate2", "marian", "pegasus")  # a model can be exported to


def inexpressible(config: Any, consumer: str) -> list[str]:
    """The choices of a `TransformerConfig` that a consumer cannot express."""
    able = CONSUMERS[consumer]
    return [name for name in CHOICES if getattr(config, name) not in able[name]]


def require_expressible(config: Any, consumer: str) -> None:
    """Raise ValueError naming the first choice of a configuration that a consumer lacks.

    >>> from nmtlib.model.config import TransformerConfig
    >>> try: require_expressible(TransformerConfig(positions="rotary"), "explorer")
    ... except ValueError as error: print(error)
    explorer cannot hold a model with positions='rotary', only with 'sinusoidal' or 'learned'; \
export can write this one as safetensors or onnx
    """
    for name in inexpressible(config, consumer):
        able = " or ".join(map(repr, CONSUMERS[consumer][name]))
        others = " or ".join(to for to in FORMATS if not inexpressible(config, to))
        raise ValueError(
            f"{consumer} cannot hold a model with {name}={getattr(config, name)!r}, only with "
            f"{able}; export can write this one as {others}"
        )
