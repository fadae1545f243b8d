"""What one training step costs, in operations and in bytes, from the sizes alone.

Symbols: B sentences, S and T padded positions of source and decoder input, D d_model, F d_ff.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch.profiler import ProfilerActivity, profile

from nmtlib.errors import require, require_one_of
from nmtlib.model.transformer import Transformer, TransformerConfig

FLOAT32 = 4  # bytes
STATISTICS = 2 * FLOAT32  # mean and deviation, which a LayerNorm keeps for each position


def training_flops(
    config: TransformerConfig, sentences: int, source_length: int, target_length: int
) -> int:
    """Floating-point operations of a batch, forward and backward: the sum of `flop_terms`."""
    return sum(flop_terms(config, sentences, source_length, target_length).values())


def flop_terms(
    config: TransformerConfig, sentences: int, source_length: int, target_length: int
) -> dict[str, int]:
    """Floating-point operations by kind of matrix product; multiplying and adding counts as two.

    Backward costs twice what forward does: one product for the gradient of each of the two factors.
    `target_length` is that of the decoder input, one less than that of the target from BOS to EOS.
    Raises ValueError for a batch without positions.  After Kaplan et al. 2020, 2.1.
    """
    B, S, T = _sizes(sentences, source_length, target_length)
    D, encoder, decoder = config.d_model, config.n_encoder_layers, config.n_decoder_layers
    products = {
        # Four D x D maps an attention; in cross-attention two read the target, two the source.
        "projections": B * D * D * (encoder * 4 * S + decoder * (4 * T + 2 * T + 2 * S)),
        # Scores and weighted sum: two products of D multiplications for each pair of positions.
        "attention": B * D * 2 * (encoder * S * S + decoder * (T * T + T * S)),
        "feed-forward": B * D * config.d_ff * 2 * (encoder * S + decoder * T),
        "vocabulary": B * T * D * config.target_vocab_size,
    }
    # Multiply and add; once forward, twice backward.
    return {name: 2 * 3 * count for name, count in products.items()}


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes that a training step needs, by purpose.

    `weight_copies` are the matrices in bfloat16, `activations` what forward keeps for backward,
    `recomputed` the largest layer that checkpointing makes again, `logits` the log-probabilities
    and the gradients that the loss makes of them.
    """

    weights: int
    gradients: int
    moments: int
    weight_copies: int
    activations: int
    recomputed: int
    logits: int

    @property
    def peak(self) -> int:
        """The most there is at one moment: while backward runs, activations go, gradients come.

        That is for one batch an update; accumulated gradients of earlier batches are to be added.
        """
        held = self.weight_copies + self.activations
        backward = max(held + max(self.logits, self.recomputed), self.gradients)
        return self.weights + self.moments + backward


def training_memory(
    config: TransformerConfig,
    sentences: int,
    source_length: int,
    target_length: int,
    *,
    precision: torch.dtype,
    checkpointing: bool = False,
    device: str = "cpu",
) -> TrainingMemory:
    """Bytes of one training step with Adam.

    `precision` is torch.float32, or torch.bfloat16 for autocast; `device` is 'cpu' or 'cuda', whose
    fused attention keeps no weights.  With `checkpointing` a layer keeps only its input (Chen et
    al. 2016); where sources are two or more times as long as targets, measured peaks were then up
    to 15 % higher, because the decoder's gradients are there while an encoder layer is made again.
    Raises ValueError for a batch without positions or another precision or device.
    """
    sizes = _sizes(sentences, source_length, target_length)
    half = precision == torch.bfloat16
    known = half or precision == torch.float32
    require(known, "precision", "torch.float32 or torch.bfloat16", precision)
    require_one_of("device", ("cpu", "cuda"), device)
    saved = _Kept(config, *sizes, half, device == "cuda")
    copies, activations, recomputed = saved.layers(checkpointing)
    with torch.device("meta"):  # shapes without values
        parameters = sum(Transformer(config).parameter_table().values())
    return TrainingMemory(
        weights=parameters * FLOAT32,
        gradients=parameters * FLOAT32,
        moments=2 * parameters * FLOAT32,  # Adam's means of the gradients and of their squares
        weight_copies=copies + saved.copy * config.d_model * config.target_vocab_size,
        activations=activations + saved.outside_layers(checkpointing),
        recomputed=recomputed,
        logits=saved.logits(),
    )


@dataclass(frozen=True)
class _Kept:
    """Bytes that each part of the model keeps for backward, in the order of its forward."""

    config: TransformerConfig
    B: int
    S: int
    T: int
    half: bool  # under bfloat16 autocast
    gpu: bool

    @property
    def number(self) -> int:
        """Bytes of a value that a matrix product makes."""
        return 2 if self.half else FLOAT32

    @property
    def copy(self) -> int:
        """Bytes of the copy that autocast makes of a weight."""
        return 2 if self.half else 0

    def layers(self, checkpointing: bool) -> tuple[int, int, int]:
        """Of all layers: copies of weights, activations, and what checkpointing makes again."""
        D, F = self.config.d_model, self.config.d_ff
        encoder, decoder = self.config.n_encoder_layers, self.config.n_decoder_layers
        encoder_copy = self.copy * (4 * D * D + 2 * D * F)
        decoder_copy = self.copy * (8 * D * D + 2 * D * F)
        encoder_layer, decoder_layer = self.encoder_layer(), self.decoder_layer()
        if checkpointing:
            inputs = D * FLOAT32 * self.B * (encoder * self.S + decoder * self.T)
            return 0, inputs, max(encoder_layer + encoder_copy, decoder_layer + decoder_copy)
        copies = encoder * encoder_copy + decoder * decoder_copy
        return copies, encoder * encoder_layer + decoder * decoder_layer, 0

    def encoder_layer(self) -> int:
        """Bytes that one encoder layer keeps."""
        source = self.B * self.S
        inputs = self.linear_input(source, maps=3)  # of query, key and value
        attention = self.attention(self.S, self.S, mask=source)
        return inputs + attention + self.feed_forward(source) + 2 * self.residual(source)

    def decoder_layer(self) -> int:
        """Bytes that one decoder layer keeps."""
        source, target = self.B * self.S, self.B * self.T
        inputs = self.linear_input(target, maps=3) + self.linear_input(target, maps=1)
        if self.half:  # in float32 all layers read one memory, see `outside_layers`
            inputs += self.linear_input(source, maps=2)
        attention = self.attention(self.T, self.T, mask=target * self.T)
        attention += self.attention(self.T, self.S, mask=source)
        return inputs + attention + self.feed_forward(target) + 3 * self.residual(target)

    def outside_layers(self, checkpointing: bool) -> int:
        """Embeddings, memory, last norms, and the input of the output projection."""
        source, target, D = self.B * self.S, self.B * self.T, self.config.d_model
        saved = 8 * (source + target + self.B)  # token ids; the last of the target is kept too
        saved += self.dropout((source + target) * D, FLOAT32)
        if self.config.norm == "pre":
            saved += (source + target) * (D * FLOAT32 + STATISTICS)
        if checkpointing or not self.half:
            saved += source * D * FLOAT32  # the memory
        if checkpointing:
            saved += source + target * self.T  # both masks, for all layers
        return saved + self.linear_input(target, maps=1)

    def logits(self) -> int:
        """Log-probabilities and two gradients that autograd adds, of the loss, all in float32."""
        return 3 * FLOAT32 * self.B * self.T * self.config.target_vocab_size

    def linear_input(self, positions: int, maps: int) -> int:
        """What linear maps of one input (positions, D) keep: shared, but autocast copies it."""
        return positions * self.config.d_model * (2 * maps if self.half else FLOAT32)

    def attention(self, queries: int, keys: int, mask: int) -> int:
        """Projected queries, keys and values, the heads' result, and the weights where they are
        written out.
        """
        saved = 2 * self.B * (queries + keys) * self.config.d_model * self.number
        rows = self.B * self.config.n_heads * queries
        if self.gpu:  # the log-sum of each row; the mask as numbers to add
            return saved + rows * FLOAT32 + mask * self.number
        # After softmax and after masked rows were emptied; each fill keeps the mask, in bytes.
        weights = rows * keys
        saved += 2 * weights * self.number + 2 * mask
        return saved + self.dropout(weights, self.number, attention=True)

    def feed_forward(self, positions: int) -> int:
        """The input, and d_ff values after the ReLU and again after dropout."""
        hidden = positions * self.config.d_ff
        outputs = hidden * self.number * (2 if self.config.dropout else 1)
        return self.linear_input(positions, 1) + outputs + self.dropout(hidden, self.number)

    def residual(self, positions: int) -> int:
        """The input of the norm in float32, its statistics, and the dropout mask."""
        values = positions * self.config.d_model
        return values * FLOAT32 + positions * STATISTICS + self.dropout(values, self.number)

    def dropout(self, values: int, number: int, attention: bool = False) -> int:
        """The mask: ours for the CPU holds factors of the values' type, torch's one byte each."""
        p = self.config.attention_dropout if attention else self.config.dropout
        return values * (1 if self.gpu else number) if p else 0


def _sizes(sentences: int, source_length: int, target_length: int) -> tuple[int, int, int]:
    """The three sizes, checked."""
    sizes = sentences, source_length, target_length
    require(min(sizes) >= 1, "(sentences, source, target length)", "at least 1 each", sizes)
    return sizes


def peak_memory(work: Callable[[], object], device: torch.device) -> int:
    """The most bytes of tensors that `work` had at one moment, beyond those that were there."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    # torch keeps no account of a CPU's memory, but its profiler notes what is taken and given back.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # or it says on stderr that it starts and stops
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        work()
    events = [e for e in recorded.profiler.kineto_results.events() if e.name() == "[memory]"]
    changes = (e.nbytes() for e in sorted(events, key=lambda e: e.start_ns()))
    return max(accumulate(changes, initial=0))
