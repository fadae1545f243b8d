"""How to connect a Transformer that is not ours: torch's `nn.Transformer`, and what it leaves out.

It serves as an example of an `Adapter`, and as the proof that the checks do not ask for nmtlib's
design.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcheck.adapter import Adapter, Sizes

PAD, BOS, EOS = 0, 1, 2


class Positions(nn.Module):
    """All sines first, then all cosines (another order than in the paper), or trained vectors."""

    def __init__(self, d_model: int, max_length: int, learned: bool):
        super().__init__()
        speed = 10000.0 ** (-torch.arange(d_model // 2) / (d_model // 2))
        angle = torch.arange(max_length)[:, None] * speed
        sines = torch.cat([angle.sin(), angle.cos()], dim=1)  # (max_length, D)
        self.register_buffer("sines", None if learned else sines)
        self.trained = nn.Parameter(torch.randn_like(sines)) if learned else None

    def forward(self, x: Tensor) -> Tensor:
        table = self.sines if self.trained is None else self.trained
        return x + table[: x.size(1)]


def layer_options(sizes: Sizes, pre_norm: bool, bias: bool) -> dict[str, Any]:
    """What torch wants to know of each of its layers."""
    options = {"d_model": sizes.d_model, "nhead": sizes.n_heads, "dim_feedforward": sizes.d_ff}
    design = {"batch_first": True, "norm_first": pre_norm, "bias": bias}
    return {**options, "dropout": sizes.dropout, **design}


class EncoderLayer(nn.Module):
    """One layer of torch's encoder with our kind of mask, (B, 1, 1, S) with True = may attend."""

    def __init__(self, sizes: Sizes, pre_norm: bool, bias: bool):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(**layer_options(sizes, pre_norm, bias))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.layer(x, src_key_padding_mask=~mask[:, 0, 0])


class TorchTransformer(nn.Module):
    """`nn.Transformer` between embeddings and an output layer; its masks say True = *hidden*."""

    def __init__(self, sizes: Sizes, *, pre_norm: bool, learned: bool, scaled: bool, bias: bool):
        super().__init__()
        d_model, n_layers = sizes.d_model, sizes.n_layers
        self.source_embedding = nn.Embedding(sizes.source_vocab_size, d_model, padding_idx=PAD)
        self.target_embedding = nn.Embedding(sizes.target_vocab_size, d_model, padding_idx=PAD)
        self.positions = Positions(d_model, sizes.max_length, learned)
        self.scale = math.sqrt(d_model) if scaled else 1.0
        self.dropout = nn.Dropout(sizes.dropout)
        options = layer_options(sizes, pre_norm, bias)
        layer, norm = nn.TransformerEncoderLayer(**options), nn.LayerNorm(d_model, bias=bias)
        encoder = nn.TransformerEncoder(layer, n_layers, norm, enable_nested_tensor=False)
        depths = {"num_encoder_layers": n_layers, "num_decoder_layers": n_layers}
        self.transformer = nn.Transformer(**options, **depths, custom_encoder=encoder)
        self.output = nn.Linear(d_model, sizes.target_vocab_size, bias=bias)

    def embed(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        """Ids (B, S) -> word + position (B, S, D)."""
        return self.dropout(self.positions(table(ids) * self.scale))

    def encode(self, source: Tensor) -> Tensor:
        """Source ids (B, S) -> memory (B, S, D)."""
        x = self.embed(self.source_embedding, source)
        return self.transformer.encoder(x, src_key_padding_mask=source == PAD)

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """Target ids (B, T) and the memory (B, S, D) of source ids (B, S) -> logits (B, T, V)."""
        length = target.size(1)
        future = torch.ones(length, length, dtype=torch.bool, device=target.device).triu(1)
        x = self.transformer.decoder(
            self.embed(self.target_embedding, target),
            memory,
            tgt_mask=future,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
        )
        return self.output(x)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(target, self.encode(source), source)


@torch.no_grad()
def search(
    model: TorchTransformer, sentence: Tensor, beam: int, penalty: float, max_length: int
) -> list[int]:
    """The ids of the best hypothesis of one sentence (1, S), by log p / words^penalty.

    A finished hypothesis keeps its place in the beam.
    """
    model.eval()
    memory, going, finished = model.encode(sentence), [(0.0, [BOS])], list[tuple]()
    while going and len(finished) < beam and len(going[0][1]) <= max_length:
        target, count = torch.tensor([ids for _, ids in going]), len(going)
        inputs = memory.expand(count, -1, -1), sentence.expand(count, -1)
        logp = model.decode(target, *inputs)[:, -1].log_softmax(-1)  # (N, V)
        scores = torch.tensor([[score] for score, _ in going]) + logp
        best = scores.flatten().topk(min(beam - len(finished), scores.numel()))
        grown = [
            (score, [*going[i // scores.size(1)][1], i % scores.size(1)])
            for score, i in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]
        ended = [(score, ids[1:-1]) for score, ids in grown if ids[-1] == EOS]
        finished += [(score / max(len(ids), 1) ** penalty, ids) for score, ids in ended]
        going = [(score, ids) for score, ids in grown if ids[-1] != EOS]
    return max(finished or [(score, ids[1:]) for score, ids in going])[1]


def translate(model: TorchTransformer, words: list[str], longest: int) -> list[str]:
    """A beam search for the words w4, w5, and so on."""
    source = torch.tensor([[*(int(word[1:]) for word in words), EOS]])
    return [f"w{i}" for i in search(model, source, 3, 1.0, longest)]


def loss(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """torch's cross-entropy, which gives PAD its share of the smoothing."""
    options = {"ignore_index": PAD, "label_smoothing": smoothing}
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), **options)


def epoch(model: TorchTransformer, batches: list[Any], training: bool) -> float:
    """The mean loss over the tokens of some batches; with `training`, an update after each."""
    model.train(training)
    optimizer, total, count = torch.optim.AdamW(model.parameters(), lr=0.005), 0.0, 0
    for batch in batches:
        with torch.set_grad_enabled(training):
            mean = loss(model(batch.src, batch.trg[:, :-1]), batch.labels, 0.1 * training)
        if training:
            optimizer.zero_grad()
            mean.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        words = int((batch.labels != PAD).sum())
        total, count = total + float(mean) * words, count + words
    return total / count


def torch_transformer(
    *, pre_norm: bool = False, learned: bool = False, scaled: bool = True, bias: bool = True
) -> Adapter:
    """The adapter of `nn.Transformer` in one of several designs, without a cache."""
    design = {"pre_norm": pre_norm, "bias": bias}
    return Adapter(
        name="torch.nn.Transformer",
        pad=PAD,
        bos=BOS,
        eos=EOS,
        source_eos=True,
        fixed_positions=not learned,
        scaled_embedding=scaled,
        make_model=lambda sizes: TorchTransformer(sizes, learned=learned, scaled=scaled, **design),
        epoch=epoch,
        translate=translate,
    )
