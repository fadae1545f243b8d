"""A healthy Transformer with the conventions of JoeyNMT, on which no check may raise an alarm.

Norms stand inside the feed-forward block, before or after; masks have the shape (B, 1, S) and fill
with minus infinity; UNK is 0, PAD 1, BOS 2, EOS 3; PAD has no row of its own in the embedding; the
model ends in log_softmax, and smoothing is a Kullback-Leibler divergence; searches never say UNK,
say at least one word, and keep the places of finished hypotheses.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from nmtcheck.adapter import Adapter, Hypothesis, IdBatch, IdPair, Sizes, Updates

UNK, PAD, BOS, EOS = range(4)


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor]:
    """A query that may attend to nothing becomes NaN: no model here has one."""
    scores = query / math.sqrt(query.size(-1)) @ key.transpose(-2, -1)
    scores = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(-1)
    return F.dropout(weights, dropout) @ value, weights


class Attention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0):
        super().__init__()
        self.n_heads, self.p = n_heads, dropout
        self.q, self.k, self.v, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        parts = zip((self.q, self.k, self.v), (query, key, value), strict=True)
        q, k, v = (f(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for f, x in parts)
        result, _ = attend(q, k, v, mask, self.p if self.training else 0.0)
        return self.out(result.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Its norm and its residual connection are its own."""

    def __init__(self, sizes: Sizes, norm: str):
        super().__init__()
        wide, narrow = nn.Linear(sizes.d_model, sizes.d_ff), nn.Linear(sizes.d_ff, sizes.d_model)
        drops = (nn.Dropout(sizes.dropout) for _ in range(2))
        self.layer = nn.Sequential(wide, nn.ReLU(), next(drops), narrow, next(drops))
        self.layer_norm, self.norm = nn.LayerNorm(sizes.d_model, eps=1e-6), norm

    def forward(self, x: Tensor) -> Tensor:
        if self.norm == "pre":
            return x + self.layer(self.layer_norm(x))
        return self.layer_norm(x + self.layer(x))


class Layer(nn.Module):
    """A layer of the encoder, or, given a memory, of the decoder."""

    def __init__(self, sizes: Sizes, norm: str, cross: bool):
        super().__init__()
        self.norm, self.dropout = norm, nn.Dropout(sizes.dropout)
        count = 2 if cross else 1
        shape = sizes.d_model, sizes.n_heads, sizes.dropout
        self.attentions = nn.ModuleList(Attention(*shape) for _ in range(count))
        self.norms = nn.ModuleList(nn.LayerNorm(sizes.d_model, eps=1e-6) for _ in range(count))
        self.feed_forward = FeedForward(sizes, norm)

    def forward(
        self, x: Tensor, mask: Tensor, memory: Tensor | None = None, seen: Tensor | None = None
    ) -> Tensor:
        for attention, norm, read, visible in zip(
            self.attentions, self.norms, (None, memory), (mask, seen), strict=False
        ):
            y = norm(x) if self.norm == "pre" else x
            key = y if read is None else read
            x = x + self.dropout(attention(y, key, key, visible))
            x = norm(x) if self.norm == "post" else x
        return self.feed_forward(x)


class Embedding(nn.Embedding):
    """Vectors times the root of their size."""

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) * math.sqrt(self.embedding_dim)


class Positions(nn.Module):
    """Sines and cosines by turns."""

    def __init__(self, d_model: int, longest: int):
        super().__init__()
        speed = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        angle = torch.arange(longest)[:, None] * speed
        self.register_buffer("pe", torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)[None])

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[:, : x.size(1)]


def padding_mask(ids: Tensor) -> Tensor:
    return (ids != PAD)[:, None, None]  # (B, 1, 1, S)


def causal_mask(length: int) -> Tensor:
    return torch.ones(1, 1, length, length, dtype=torch.bool).tril()


class Recipe(nn.Module):
    """forward(source (B, S), decoder input (B, T)) -> log-probabilities (B, T, V)."""

    def __init__(self, sizes: Sizes, norm: str):
        super().__init__()
        self.source = Embedding(sizes.source_vocab_size, sizes.d_model)
        self.target = Embedding(sizes.target_vocab_size, sizes.d_model)
        for table in (self.source, self.target):
            nn.init.normal_(table.weight, std=sizes.d_model**-0.5)
        self.positions = Positions(sizes.d_model, sizes.max_length)
        self.dropout = nn.Dropout(sizes.dropout)
        count = range(sizes.n_layers)
        self.encoder = nn.ModuleList(Layer(sizes, norm, False) for _ in count)
        self.decoder = nn.ModuleList(Layer(sizes, norm, True) for _ in count)
        ends = nn.LayerNorm if norm == "pre" else lambda size: nn.Identity()
        self.ends = nn.ModuleList(ends(sizes.d_model) for _ in range(2))
        self.output = nn.Linear(sizes.d_model, sizes.target_vocab_size, bias=False)

    def encode(self, source: Tensor) -> Tensor:
        x, mask = self.dropout(self.positions(self.source(source))), padding_mask(source)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.ends[0](x)

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        x = self.dropout(self.positions(self.target(target)))
        mask = padding_mask(target) & causal_mask(target.size(1))
        for layer in self.decoder:
            x = layer(x, mask, memory, padding_mask(source))
        return self.output(self.ends[1](x)).log_softmax(-1)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(target, self.encode(source), source)


def make_batch(pairs: list[IdPair]) -> IdBatch:
    """The longest source first."""
    rows = sorted(pairs, key=lambda pair: -len(pair[0]))
    sides = [[*s, EOS] for s, _ in rows], [[BOS, *t] for _, t in rows], [[*t, EOS] for _, t in rows]
    return tuple(pad_sequence([*map(torch.tensor, side)], True, PAD) for side in sides)


def loss(logp: Tensor, labels: Tensor, smoothing: float, reduction: str = "mean") -> Tensor:
    """The divergence from a target that gives PAD nothing; a mean over tokens, or their sum."""
    share = torch.full_like(logp, smoothing / (logp.size(-1) - 2))
    share[..., PAD] = 0.0
    share.scatter_(-1, labels[..., None], 1 - smoothing)
    each = F.kl_div(logp, share, reduction="none").sum(-1).masked_fill(labels == PAD, 0.0)
    return each.sum() / (1 if reduction == "sum" else (labels != PAD).sum())


def schedule(update: int) -> float:
    """The rate of the paper with a warm-up of four updates."""
    return 0.02 * min(update**-0.5, update * 4**-1.5)


def train(model: Recipe, updates: Updates, clip: float) -> None:
    """Each micro-batch is divided by the tokens of its update."""
    optimizer = torch.optim.Adam(model.parameters(), lr=schedule(1))
    model.train()
    for number, update in enumerate(updates, start=1):
        batches = [make_batch(pairs) for pairs in update]
        count = sum(int((labels != PAD).sum()) for *_, labels in batches)
        for source, target, labels in batches:
            (loss(model(source, target), labels, 0.1, "sum") / count).backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.param_groups[0]["lr"] = schedule(number)
        optimizer.step()
        optimizer.zero_grad()


@torch.no_grad()
def validate(model: Recipe, pairs: list[IdPair]) -> float:
    """Perplexity; the model is left in eval mode."""
    source, target, labels = make_batch(pairs)
    return math.exp(loss(model.eval()(source, target), labels, 0.0))


@torch.no_grad()
def beam_search(
    model: Recipe, source: Tensor, beam: int, penalty: float, longest: int
) -> list[list[Hypothesis]]:
    """All sentences at once; what has ended keeps its place and its score."""
    model.eval()
    rows, size = len(source), model.output.out_features
    memory, wide = (x.repeat_interleave(beam, 0) for x in (model.encode(source), source))
    said = torch.full((rows * beam, 1), BOS)
    total = torch.full((rows, beam), -1e9)
    total[:, 0] = 0.0
    for length in range(longest + 1):
        logp = model.decode(said, memory, wide)[:, -1].clone()
        logp[:, [UNK, PAD, BOS]] = -1e9
        logp[:, EOS] += -1e9 if length == 0 else 0.0
        ended = (said == EOS).any(1)
        logp[ended], logp[ended, PAD] = -1e9, 0.0
        lengths = (said[:, 1:] != PAD).sum(1).view(rows, beam, 1) + (~ended).view(rows, beam, 1)
        scores = (total[..., None] + logp.view(rows, beam, size)).flatten(1)
        norm = (((5 + lengths) / 6) ** penalty).expand(-1, -1, size).flatten(1)
        where = (scores / norm).topk(beam).indices
        total = scores.gather(1, where)
        parents = (where // size + torch.arange(rows)[:, None] * beam).flatten()
        said = torch.cat([said[parents], (where % size).view(-1, 1)], dim=1)
        if (said == EOS).any(1).all():
            break
    lengths = (said[:, 1:] != PAD).sum(1).view(rows, beam)
    scores = total / ((5 + lengths) / 6) ** penalty
    words = [[i for i in row if i not in (PAD, BOS, EOS)] for row in said.tolist()]
    found = list(zip(words, scores.flatten().tolist(), strict=True))
    return [found[n : n + beam] for n in range(0, len(found), beam)]


def greedy(model: Recipe, source: Tensor, longest: int) -> list[list[int]]:
    """A beam of one."""
    return [found[0][0] for found in beam_search(model, source, 1, 0.0, longest)]


def recipe(norm: str = "post") -> Adapter:
    """The adapter, pre- or post-norm."""
    parts = (padding_mask, causal_mask, loss, make_batch, schedule, train, validate, greedy)
    return Adapter(
        name=f"recipe, {norm}-norm",
        pad=PAD,
        bos=BOS,
        eos=EOS,
        attention=attend,
        multi_head=Attention,
        embedding=Embedding,
        positions=Positions,
        encoder_layer=lambda sizes: Layer(sizes, norm, False),
        make_model=lambda sizes: Recipe(sizes, norm),
        encode=Recipe.encode,
        decode=Recipe.decode,
        beam=beam_search,
        **{part.__name__: part for part in parts},
    )
