"""How to connect a Transformer that is not ours: torch's `nn.Transformer`, and what it leaves out.

It serves as an example of an `Adapter`, and as the proof that the checks do not ask for nmtlib's
design.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from nmtcheck.adapter import Adapter, Hypothesis, IdBatch, IdPair, Sizes, Updates

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
def greedy(model: TorchTransformer, source: Tensor, max_length: int) -> list[list[int]]:
    """The most probable next token of every sentence, until all have said EOS; without a cache."""
    memory, said = model.encode(source), torch.full((len(source), 1), BOS)
    for _ in range(max_length):
        said = torch.cat([said, model.decode(said, memory, source)[:, -1:].argmax(-1)], dim=1)
        if (said == EOS).any(1).all():
            break
    rows = [row[1:] for row in said.tolist()]
    return [row[: row.index(EOS)] if EOS in row else row for row in rows]


def beam_search(
    model: TorchTransformer, source: Tensor, beam: int, penalty: float, max_length: int
) -> list[list[Hypothesis]]:
    """Sentence after sentence, by `search_one`."""
    sentences = [row[row != PAD][None] for row in source]
    return [search_one(model, sentence, beam, penalty, max_length) for sentence in sentences]


@torch.no_grad()
def search_one(
    model: TorchTransformer, sentence: Tensor, beam: int, penalty: float, max_length: int
) -> list[Hypothesis]:
    """The hypotheses of one sentence (1, S), ranked by log p / words^penalty.

    A finished hypothesis keeps its place in the beam.
    """
    memory, going, finished = model.encode(sentence), [(0.0, [BOS])], list[tuple]()
    while going and len(going[0][1]) <= max_length + 1:
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
    ranked = sorted(finished or [(score, ids[1:]) for score, ids in going], reverse=True)
    return [(ids, score) for score, ids in ranked]


def make_batch(pairs: list[IdPair]) -> IdBatch:
    """Pad pairs, and shift the target once."""
    source = pad_sequence([torch.tensor([*s, EOS]) for s, _ in pairs], batch_first=True)
    target = pad_sequence([torch.tensor([BOS, *t, EOS]) for _, t in pairs], batch_first=True)
    return source, target[:, :-1], target[:, 1:]


def loss(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """torch's cross-entropy, which gives PAD its share of the smoothing."""
    options = {"ignore_index": PAD, "label_smoothing": smoothing}
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), **options)


def schedule(update: int) -> float:
    """Linear rise over four updates, then decay with the root of their number."""
    return 0.01 * min(update / 4, (4 / update) ** 0.5)


class Loop:
    """The optimizer and its schedule, and what they do in one update."""

    def __init__(self, model: TorchTransformer, clip: float):
        self.model, self.clip = model, clip
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=schedule(1))
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda n: schedule(n + 1) / schedule(1)
        )

    def update(self, micro_batches: list[list[IdPair]]) -> None:
        """One step on the micro-batches, each token weighing the same."""
        batches = [make_batch(pairs) for pairs in micro_batches]
        counts = [int((labels != PAD).sum()) for *_, labels in batches]
        self.model.train()
        self.optimizer.zero_grad()
        for (source, target, labels), count in zip(batches, counts, strict=True):
            mean = loss(self.model(source, target), labels, 0.1)
            (mean * count / sum(counts)).backward()  # the mean over the tokens of all micro-batches
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.scheduler.step()


def train(model: TorchTransformer, updates: Updates, clip: float) -> None:
    """One optimizer step for each update."""
    loop = Loop(model, clip)
    for update in updates:
        loop.update(update)


@torch.no_grad()
def validate(model: TorchTransformer, pairs: list[IdPair]) -> float:
    """Perplexity, without smoothing, of all pairs in one batch."""
    model.eval()
    source, target, labels = make_batch(pairs)
    return math.exp(loss(model(source, target), labels, 0.0))


def fit(
    model: TorchTransformer, training: list[IdPair], validation: list[IdPair], epochs: int
) -> tuple[nn.Module, list[float]]:
    """Train, and go back to the weights of the epoch that validates best."""
    loop, history, best = Loop(model, clip=1.0), [], None
    for _ in range(epochs):
        for first in range(0, len(training), 4):
            loop.update([training[first : first + 4]])
        history.append(validate(model, validation))
        if history[-1] == min(history):
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    return model, history


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
        fixed_positions=not learned,
        scaled_embedding=scaled,
        pad_unsmoothed=False,
        positions=lambda d_model, max_length: Positions(d_model, max_length, learned),
        make_model=lambda sizes: TorchTransformer(sizes, learned=learned, scaled=scaled, **design),
        loss=loss,
        schedule=schedule,
        train=train,
        validate=validate,
        fit=fit,
        greedy=greedy,
        beam=beam_search,
        make_batch=make_batch,
    )
