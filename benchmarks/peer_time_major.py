"""A healthy Transformer in another style than nmtlib's, on which no check may raise an alarm.

Tensors are time-major (T, B, D); lengths tell what is padding; one matrix projects queries, keys
and values; the model shifts the target itself; sources begin with BOS; PAD is 1 and BOS is 2;
dropout is 0.1 whatever is asked for; the embedding of the target is the output layer.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcheck.adapter import Adapter, Sizes

UNK, PAD, BOS, EOS = range(4)
DROPOUT, SMOOTHING = 0.1, 0.1


def drop(module: nn.Module, x: Tensor) -> Tensor:
    """Dropout as a function, of a probability that nobody can change."""
    return F.dropout(x, DROPOUT, module.training)


class Attention(nn.Module):
    """Multi-head attention of x (T, B, D) to a memory (S, B, D)."""

    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.inputs = nn.Linear(d_model, 3 * d_model, bias=False)
        self.output = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor, memory: Tensor, visible: Tensor) -> Tensor:
        """`visible` broadcasts to (B, T, S)."""
        kinds = zip((x, memory, memory), self.inputs.weight.chunk(3), strict=True)
        query, key, value = (
            F.linear(y, weight).unflatten(-1, (self.n_heads, -1)) for y, weight in kinds
        )
        scores = torch.einsum("tbhk,sbhk->bhts", query, key) / math.sqrt(query.size(-1))
        weights = scores.masked_fill(~visible[:, None], -1e9).softmax(-1)
        mixed = torch.einsum("bhts,sbhk->tbhk", drop(self, weights), value)
        return self.output(mixed.flatten(2))


class Block(nn.Module):
    """A pre-norm layer of the encoder, or with `cross` of the decoder."""

    def __init__(self, sizes: Sizes, cross: bool):
        super().__init__()
        d_model, d_ff = sizes.d_model, sizes.d_ff
        kinds = 2 if cross else 1
        self.attentions = nn.ModuleList(Attention(d_model, sizes.n_heads) for _ in range(kinds))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(kinds + 1))
        self.feed = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(
        self, x: Tensor, visible: Tensor, memory: Tensor | None = None, seen: Tensor | None = None
    ) -> Tensor:
        y = self.norms[0](x)
        x = x + drop(self, self.attentions[0](y, y, visible))
        if memory is not None:
            x = x + drop(self, self.attentions[1](self.norms[1](x), memory, seen))
        return x + drop(self, self.feed(self.norms[-1](x)))


def places(length: int, d_model: int) -> Tensor:
    """Sines and cosines (T, 1, D) of the positions."""
    speed = 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    angle = torch.arange(length)[:, None, None] * speed
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


def within(lengths: Tensor, longest: int) -> Tensor:
    """Which of the places are no padding: (B, 1, longest)."""
    return (torch.arange(longest) < lengths[:, None])[:, None]


class TimeMajor(nn.Module):
    """forward(source (S, B), lengths, target (T, B) from BOS to EOS) -> logits (T - 1, B, V)."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.read = nn.Embedding(sizes.source_vocab_size, sizes.d_model)
        self.say = nn.Embedding(sizes.target_vocab_size, sizes.d_model)
        for table in (self.read, self.say):
            nn.init.normal_(table.weight, std=sizes.d_model**-0.5)
        self.encoder = nn.ModuleList(Block(sizes, False) for _ in range(sizes.n_layers))
        self.decoder = nn.ModuleList(Block(sizes, True) for _ in range(sizes.n_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(sizes.d_model) for _ in range(2))

    def embed(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        """Ids (T, B) -> vectors (T, B, D)."""
        x = table(ids) * math.sqrt(table.embedding_dim)
        return drop(self, x + places(len(ids), table.embedding_dim).to(x))

    def encode(self, source: Tensor, lengths: Tensor) -> Tensor:
        """Source ids (S, B) -> memory (S, B, D)."""
        x, visible = self.embed(self.read, source), within(lengths, len(source))
        for block in self.encoder:
            x = block(x, visible)
        return self.norms[0](x)

    def decode(self, prefix: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        """Ids so far (T, B) -> logits (T, B, V); padding stands at the end, where nobody looks."""
        past = torch.ones(len(prefix), len(prefix), dtype=torch.bool).tril()[None]
        x, seen = self.embed(self.say, prefix), within(lengths, len(memory))
        for block in self.decoder:
            x = block(x, past, memory, seen)
        return self.norms[1](x) @ self.say.weight.T

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        return self.decode(target[:-1], self.encode(source, lengths), lengths)


def logits(model: TimeMajor, source: Tensor, target: Tensor) -> Tensor:
    """The shape of the checks: the model is given one token more, which it takes off again."""
    longer = F.pad(target, (0, 1), value=EOS)
    return model(source.T, (source != PAD).sum(1), longer.T).transpose(0, 1)


def epoch(model: TimeMajor, batches: list[Any], training: bool) -> float:
    """The mean loss over the tokens of some batches; with `training`, an update after each.

    The loss of a batch is summed, and divided once; the mode is as before afterwards.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005, betas=(0.9, 0.98))
    before, total, count = model.training, 0.0, 0
    model.train(training)
    for batch in batches:
        labels = batch.trg[:, 1:]
        options = {"ignore_index": PAD, "label_smoothing": SMOOTHING * training}
        with torch.set_grad_enabled(training):
            table = model(batch.src.T, (batch.src != PAD).sum(1), batch.trg.T).transpose(0, 1)
            summed = F.cross_entropy(
                table.flatten(0, 1), labels.flatten(), reduction="sum", **options
            )
        words = int((labels != PAD).sum())
        if training:
            optimizer.zero_grad()
            (summed / words).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        total, count = total + float(summed), count + words
    model.train(before)
    return total / count


@torch.no_grad()
def search(model: TimeMajor, words: Tensor, beam: int, longest: int) -> list[int]:
    """The best hypothesis by mean log-probability; a finished one leaves the beam.

    Takes the best 2 * beam continuations at once, so that enough are left of those that end.
    """
    model.eval()
    lengths = torch.tensor([len(words)])
    memory = model.encode(words[:, None], lengths)
    said, scores, finished = torch.full((1, 1), BOS), torch.zeros(1), list[tuple]()
    for length in range(1, longest + 1):
        table = model.decode(said, memory.expand(-1, said.size(1), -1), lengths)[-1]
        total = (scores[:, None] + table.log_softmax(-1)).flatten()
        best, where = total.topk(min(2 * beam, len(total)))
        parents, tokens = where // table.size(-1), where % table.size(-1)
        ends = tokens == EOS
        for score, parent in zip(
            best[:beam][ends[:beam]], parents[:beam][ends[:beam]], strict=True
        ):
            finished.append((float(score) / length, said[1:, parent].tolist()))
        if len(finished) >= beam:
            break
        kept = (~ends).nonzero()[:beam, 0]
        said = torch.cat([said[:, parents[kept]], tokens[kept][None]])
        scores = best[kept]
    return max(finished)[1] if finished else said[1:, 0].tolist()


def translate(model: TimeMajor, words: list[str], longest: int) -> list[str]:
    """A beam search for the words w4, w5, and so on."""
    source = torch.tensor([BOS, *(int(word[1:]) for word in words), EOS])
    return [f"w{i}" for i in search(model, source, 3, longest)]


def time_major() -> Adapter:
    """The adapter."""
    return Adapter(
        name="time-major",
        pad=PAD,
        bos=BOS,
        eos=EOS,
        source_bos=True,
        source_eos=True,
        make_model=TimeMajor,
        logits=logits,
        epoch=epoch,
        translate=translate,
    )
