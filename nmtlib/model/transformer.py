"""The encoder-decoder Transformer, assembled.  Vaswani et al. 2017, figure 1."""

from __future__ import annotations

import math
from functools import partial

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nmtlib.errors import require
from nmtlib.model.attention import (
    AttentionClass,
    Mask,
    MultiHeadAttention,
    padding_mask,
    target_mask,
)
from nmtlib.model.config import TransformerConfig
from nmtlib.model.embeddings import (
    GENERATOR,
    Dropout,
    Positions,
    TokenEmbedding,
    drawing_again,
)
from nmtlib.model.layers import DecoderLayer, DecoderState, EncoderLayer
from nmtlib.model.rotary import RotaryPositions
from nmtlib.specials import PAD


def make_positions(config: TransformerConfig) -> nn.Module:
    """What tells the words of a sentence apart by where they are."""
    if config.positions == "rotary":
        return RotaryPositions(config.max_length)
    return Positions(config.d_model, config.max_length, config.positions)


class Transformer(nn.Module):
    """Source ids (B, S) and target ids (B, T) -> logits (B, T, V) for the token after each.

    `attention` is the class of every attention, `MultiHeadAttention` or a subclass: override
    `weighted_values` for other weights, and training and decoding follow, and `record_attention` as
    long as it calls that of its base class; what depends on positions takes them from its argument
    `start`.  With `positions="rotary"` it must be a subclass of `RotaryAttention`.
    """

    def __init__(self, config: TransformerConfig, attention: AttentionClass = MultiHeadAttention):
        super().__init__()
        for side in ("source_vocab_size", "target_vocab_size"):
            require(getattr(config, side) >= 1, side, "at least 1", getattr(config, side))
        self.config, self.attention = config, attention
        self.checkpoint_activations = False  # of the training, so not in the configuration
        d_model, pre_norm = config.d_model, config.norm == "pre"

        self.source_embedding = TokenEmbedding(config.source_vocab_size, d_model, PAD)
        self.target_embedding = TokenEmbedding(config.target_vocab_size, d_model, PAD)
        self.source_positions = make_positions(config)
        self.target_positions = make_positions(config)
        self.dropout = Dropout(config.dropout)
        encoder = [EncoderLayer(config, attention) for _ in range(config.n_encoder_layers)]
        decoder = [DecoderLayer(config, attention) for _ in range(config.n_decoder_layers)]
        self.encoder, self.decoder = nn.ModuleList(encoder), nn.ModuleList(decoder)
        # Pre-norm leaves the residual stream un-normalised, so one more norm closes each stack.
        self.encoder_norm = nn.LayerNorm(d_model) if pre_norm else nn.Identity()
        self.decoder_norm = nn.LayerNorm(d_model) if pre_norm else nn.Identity()
        self.output = nn.Linear(d_model, config.target_vocab_size)
        self.reset_parameters()
        if config.tied != "none":
            self.output.weight = self.target_embedding.weight
        if config.tied == "all":
            self.source_embedding.weight = self.target_embedding.weight

    def reset_parameters(self) -> None:
        """Xavier-uniform matrices (Glorot and Bengio 2010), zero biases, zero PAD rows.

        With `linear_init="torch"` linear maps are uniform within 1 / sqrt(inputs), biases too.
        Logits start near zero, so the first loss is about ln V; with a tied table and 'normal'
        embeddings they start at size 1, which costs half a nat more.
        """
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        for embedding in (self.source_embedding, self.target_embedding):
            if self.config.embedding_init == "normal":
                nn.init.normal_(embedding.weight, std=1 / math.sqrt(self.config.d_model))
            nn.init.zeros_(embedding.weight[PAD].detach())
        if self.config.linear_init == "torch":
            for module in self.modules():
                if isinstance(module, nn.Linear):
                    module.reset_parameters()

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Teacher forcing: all target positions at once, each seeing itself and those before.

        Raises ValueError where source and target are not of as many sentences.
        """
        # Not len(): torch.export takes it for a number, and the exported batch would have one size.
        if source.dim() != 2 or target.dim() != 2 or source.size(0) != target.size(0):
            shapes = f"{tuple(source.shape)} and {tuple(target.shape)}"
            raise ValueError(f"source and target are ids (B, S) and (B, T), not {shapes}")
        source_mask = padding_mask(source, PAD)  # (B, 1, 1, S)
        return self.decode(target, self.encode(source, source_mask), source_mask)  # (B, T, V)

    def encode(self, source: Tensor, source_mask: Mask = None) -> Tensor:
        """Source ids (B, S) -> memory (B, S, D); the mask defaults to that of the padding."""
        mask = padding_mask(source, PAD) if source_mask is None else source_mask
        x = self.dropout(self.source_positions(self.source_embedding(source)))  # (B, S, D)
        for layer in self.encoder:
            x = self.run(layer, x, mask)
        return self.encoder_norm(x)  # (B, S, D)

    def decode(self, target: Tensor, memory: Tensor, memory_mask: Mask) -> Tensor:
        """Target ids (B, T), memory (B, S, D), its mask (B, 1, 1, S) -> logits (B, T, V)."""
        mask = target_mask(target, PAD)  # (B, 1, T, T)
        x = self.dropout(self.target_positions(self.target_embedding(target)))  # (B, T, D)
        for layer in self.decoder:
            x = self.run(layer, x, memory, mask, memory_mask)
        return self.output(self.decoder_norm(x))  # (B, T, V)

    def run(self, layer: nn.Module, *inputs: Tensor | None) -> Tensor:
        """The layer's output; with `checkpoint_activations`, backward computes its inside again.

        It saves memory for a third more computation (Chen et al. 2016); dropout is the same again.
        """
        if not (self.checkpoint_activations and self.training):
            return layer(*inputs)
        again = partial(drawing_again, GENERATOR.get())
        return checkpoint(layer, *inputs, use_reentrant=False, context_fn=again)

    def start(self, source: Tensor) -> DecoderState:
        """Encode the source (B, S) and prepare decoding with one hypothesis per sentence."""
        mask = padding_mask(source, PAD)  # (B, 1, 1, S)
        memory = self.encode(source, mask)  # (B, S, D)
        return DecoderState([layer.start(memory) for layer in self.decoder], mask)

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """The newest token (N,) of each hypothesis -> logits (N, V) for the next; moves `state`."""
        x = self.target_embedding(tokens[:, None])  # (N, 1, D)
        x = self.dropout(self.target_positions(x, start=state.length))
        for layer, cache in zip(self.decoder, state.layers, strict=True):
            x = layer.step(x, cache, state.memory_mask)
        state.length += 1
        return self.output(self.decoder_norm(x)).squeeze(1)  # (N, V)

    def parameter_table(self) -> dict[str, int]:
        """The number of trained values in each part; their sum is the model's size."""
        table: dict[str, int] = {}
        for name, parameter in self.named_parameters():  # a tied tensor comes once
            parts = name.split(".")
            part = ".".join(parts[:2]) if parts[0] in ("encoder", "decoder") else parts[0]
            table[part] = table.get(part, 0) + math.prod(parameter.shape)
        return table
