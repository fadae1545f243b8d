"""The sizes and choices of a model: `TransformerConfig`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from nmtlib.errors import require, require_one_of
from nmtlib.model.choices import CHOICES

# No machine builds a larger model; it would try until it is stopped.
LARGEST = {
    **dict.fromkeys(("source_vocab_size", "target_vocab_size"), 10_000_000),
    **dict.fromkeys(("d_model", "n_heads", "d_ff"), 65_536),
    **dict.fromkeys(("n_encoder_layers", "n_decoder_layers"), 1_000),
    "max_length": 1_000_000,
}


@dataclass(frozen=True)
class TransformerConfig:
    """All that is needed to rebuild a model; every checkpoint contains it.

    The defaults are a model that two CPU cores can train; `base` is that of Vaswani et al. 2017.

    - A vocabulary size of 0 means that the data decides it.
    - `norm` is 'post' (the paper) or 'pre'.
    - `positions` are 'sinusoidal' (the paper) or 'learned' tables, or 'rotary' (RoFormer).
    - `tied` tables are one tensor: 'none', 'target' (target embedding = output projection) or
      'all' (also the source embedding, which needs one joint vocabulary).
    - `embedding_init` is 'xavier' (uniform, standard deviation sqrt(2 / (V + D))) or 'normal'
      (standard deviation 1 / sqrt(D): after the scaling 1, for any vocabulary).
    - `linear_init` is 'xavier' (uniform, with zero biases) or 'torch' (as `nn.Linear` does).

    Raises ValueError for a value that no model can have.
    """

    source_vocab_size: int = 0
    target_vocab_size: int = 0
    d_model: int = 256
    n_heads: int = 4
    n_encoder_layers: int = 3
    n_decoder_layers: int = 3
    d_ff: int = 1024
    dropout: float = 0.1
    attention_dropout: float = 0.0
    max_length: int = 256
    norm: str = "pre"
    positions: str = "sinusoidal"
    tied: str = "none"
    embedding_init: str = "xavier"
    linear_init: str = "xavier"

    @classmethod
    def base(cls, source_vocab_size: int = 0, target_vocab_size: int = 0, **more: Any) -> Self:
        """The base model of Vaswani et al. 2017, table 3; `more` changes other fields."""
        layers = {"n_encoder_layers": 6, "n_decoder_layers": 6, "max_length": 512, "norm": "post"}
        sizes: dict[str, Any] = {"d_model": 512, "n_heads": 8, "d_ff": 2048, **layers, **more}
        return cls(source_vocab_size, target_vocab_size, **sizes)

    def __post_init__(self) -> None:
        for name, most in LARGEST.items():
            least, size = 0 if name.endswith("vocab_size") else 1, getattr(self, name)
            require(type(size) is int, name, "a whole number (int)", size)
            require(least <= size <= most, name, f"at least {least}, at most {most:,}", size)
        whole = self.d_model % self.n_heads == 0
        require(whole, "d_model", f"a multiple of n_heads ({self.n_heads})", self.d_model)
        for name in ("dropout", "attention_dropout"):
            rate = getattr(self, name)
            require(type(rate) in (float, int), name, "a number", rate)
            require(0 <= rate < 1, name, "a probability in [0, 1)", rate)
        for name, values in CHOICES.items():
            require_one_of(name, values, getattr(self, name))
        if self.positions == "rotary":
            pairs = self.d_model // self.n_heads % 2 == 0
            expected = f"a multiple of 2 * n_heads ({2 * self.n_heads}) with positions='rotary'"
            require(pairs, "d_model", f"{expected}, which turns pairs", self.d_model)
        if self.tied == "all" and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                f"tied='all' needs one joint vocabulary, but the sizes are "
                f"{self.source_vocab_size} and {self.target_vocab_size}; use tied='target', or a "
                f"joint tokenizer"
            )
