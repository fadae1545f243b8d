"""The encoder-decoder Transformer, assembled.  Vaswani et al. 2017, figure 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nmtlib.errors import require, require_one_of
from nmtlib.model.cache import DecoderState
from nmtlib.model.dropout import Dropout
from nmtlib.model.embeddings import Positions, TokenEmbedding
from nmtlib.model.layers import DecoderLayer, EncoderLayer
from nmtlib.model.masks import padding_mask, target_mask
from nmtlib.specials import PAD


@dataclass(frozen=True)
class TransformerConfig:
    """Everything that is needed to rebuild a model; it is stored inside each checkpoint.

    The defaults are the base model of Vaswani et al. 2017, table 3.  `norm` is 'post' (the paper)
    or 'pre'; `positions` 'sinusoidal' or 'learned'; `tied` says which tables are one and the same
    tensor: 'none', 'target' (target embedding = output projection) or 'all' (source embedding too:
    one joint vocabulary). `embedding_start` says how the embeddings are drawn: 'xavier' (uniform,
    standard deviation sqrt(2 / (V + D))) or 'normal' (standard deviation 1 / sqrt(D), so that words
    times sqrt(D) have size 1 for any vocabulary).  Vocabulary sizes of 0 stand for "not known yet":
    the data decides them.  Raises ValueError for a value that no model can have.
    """

    source_vocab_size: int = 0
    target_vocab_size: int = 0
    d_model: int = 512
    n_heads: int = 8
    n_encoder_layers: int = 6
    n_decoder_layers: int = 6
    d_ff: int = 2048
    dropout: float = 0.1
    attention_dropout: float = 0.0
    max_length: int = 512
    norm: str = "post"
    positions: str = "sinusoidal"
    tied: str = "none"
    embedding_start: str = "xavier"

    def __post_init__(self):
        for name in ("source_vocab_size", "target_vocab_size"):
            require(getattr(self, name) >= 0, name, "0 or more", getattr(self, name))
        sizes = ("d_model", "n_heads", "n_encoder_layers", "n_decoder_layers", "d_ff", "max_length")
        for name in sizes:
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        for name in ("dropout", "attention_dropout"):
            rate = getattr(self, name)
            require(0 <= rate < 1, name, "a probability in [0, 1)", rate)
        require_one_of("norm", ("pre", "post"), self.norm)
        require_one_of("positions", ("sinusoidal", "learned"), self.positions)
        require_one_of("tied", ("none", "target", "all"), self.tied)
        require_one_of("embedding_start", ("xavier", "normal"), self.embedding_start)
        if self.d_model % self.n_heads:
            raise ValueError(
                f"d_model must be a multiple of n_heads, but {self.d_model} is not divisible by "
                f"{self.n_heads}"
            )
        if self.tied == "all" and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                f"tied='all' needs one joint vocabulary, but the sizes are "
                f"{self.source_vocab_size} and {self.target_vocab_size}; use tied='target', or a "
                f"joint tokenizer"
            )


class Transformer(nn.Module):
    """Source ids (B, S) and target ids (B, T) -> logits (B, T, V) for the token after each target
    position.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        for side in ("source_vocab_size", "target_vocab_size"):
            require(getattr(config, side) >= 1, side, "at least 1", getattr(config, side))
        self.config = config
        self.checkpoint_activations = (
            False  # a matter of training, so it is no part of the configuration
        )
        d_model, pre_norm = config.d_model, config.norm == "pre"
        layer = (
            d_model,
            config.n_heads,
            config.d_ff,
            config.dropout,
            config.attention_dropout,
            config.norm,
        )

        self.source_embedding = TokenEmbedding(config.source_vocab_size, d_model, PAD)
        self.target_embedding = TokenEmbedding(config.target_vocab_size, d_model, PAD)
        self.source_positions = Positions(d_model, config.max_length, config.positions)
        self.target_positions = Positions(d_model, config.max_length, config.positions)
        self.dropout = Dropout(config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(*layer) for _ in range(config.n_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(*layer) for _ in range(config.n_decoder_layers))
        # Pre-norm leaves the sum of the residual stream un-normalised, so one more norm closes each
        # stack.
        self.encoder_norm = nn.LayerNorm(d_model) if pre_norm else nn.Identity()
        self.decoder_norm = nn.LayerNorm(d_model) if pre_norm else nn.Identity()
        self.output = nn.Linear(d_model, config.target_vocab_size)
        self.reset_parameters()
        if config.tied != "none":
            self.output.weight = self.target_embedding.weight
        if config.tied == "all":
            self.source_embedding.weight = self.target_embedding.weight

    def reset_parameters(self) -> None:
        """Xavier-uniform matrices (Glorot and Bengio 2010), zero biases, zero PAD rows; embeddings
        as configured.

        The logits then start near zero, so the first loss is about ln V: the model guesses evenly.
        With a tied table that starts 'normal' they start at size 1, which costs half a nat more.
        """
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        for embedding in (self.source_embedding, self.target_embedding):
            if self.config.embedding_start == "normal":
                nn.init.normal_(embedding.weight, std=1 / math.sqrt(self.config.d_model))
            nn.init.zeros_(embedding.weight[PAD].detach())

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Teacher forcing: all target positions at once, each seeing only those before it and
        itself.
        """
        source_mask = padding_mask(source, PAD)  # (B, 1, 1, S)
        return self.decode(target, self.encode(source, source_mask), source_mask)  # (B, T, V)

    def encode(self, source: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """Source ids (B, S) -> memory (B, S, D); the mask defaults to the padding mask of `source`."""
        mask = padding_mask(source, PAD) if source_mask is None else source_mask
        x = self.dropout(self.source_positions(self.source_embedding(source)))  # (B, S, D)
        for layer in self.encoder:
            x = self.run(layer, x, mask)
        return self.encoder_norm(x)

    def decode(self, target: Tensor, memory: Tensor, memory_mask: Tensor | None) -> Tensor:
        """Target ids (B, T) and memory (B, S, D) -> logits (B, T, V); True in the mask = may
        attend.
        """
        mask = target_mask(target, PAD)  # (B, 1, T, T)
        x = self.dropout(self.target_positions(self.target_embedding(target)))  # (B, T, D)
        for layer in self.decoder:
            x = self.run(layer, x, memory, mask, memory_mask)
        return self.output(self.decoder_norm(x))  # (B, T, V)

    def run(self, layer: nn.Module, *inputs: Tensor | None) -> Tensor:
        """The layer's output; with `checkpoint_activations`, backward computes all that is inside
        it once more.

        That saves memory for a third more computation (Chen et al. 2016); dropout draws the same
        numbers again.
        """
        if self.checkpoint_activations and self.training:
            return checkpoint(layer, *inputs, use_reentrant=False)
        return layer(*inputs)

    def start(self, source: Tensor) -> DecoderState:
        """Encode the source (B, S) and prepare decoding with one hypothesis per sentence."""
        mask = padding_mask(source, PAD)
        memory = self.encode(source, mask)  # (B, S, D)
        return DecoderState([layer.start(memory) for layer in self.decoder], mask)

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Read the newest token (N,) of each hypothesis -> logits (N, V) for the next; `state`
        moves on by one.
        """
        x = self.target_embedding(tokens[:, None])  # (N, 1, D)
        x = self.dropout(self.target_positions(x, start=state.length))
        for layer, cache in zip(self.decoder, state.layers, strict=True):
            x = layer.step(x, cache, state.memory_mask)
        state.length += 1
        return self.output(self.decoder_norm(x)).squeeze(1)  # (N, V)

    def parameter_table(self) -> dict[str, int]:
        """Number of trained values in each part, every tensor counted once; their sum is the
        model's size.
        """
        table: dict[str, int] = {}
        # A tied tensor comes once, under its first name.
        for name, parameter in self.named_parameters():
            parts = name.split(".")
            part = ".".join(parts[:2]) if parts[0] in ("encoder", "decoder") else parts[0]
            table[part] = table.get(part, 0) + math.prod(parameter.shape)
        return table
