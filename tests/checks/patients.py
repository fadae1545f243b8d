"""A stranger's Transformer with a loop and a search, and the mistakes that it can be given."""

import math
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from nmtcheck import Adapter, called

PAD, BOS, EOS = 0, 1, 2


class Heads(nn.Module):
    def __init__(self, size, count, mistake):
        super().__init__()
        self.count, self.mistake = count, mistake
        inner = size // count if mistake == "slices of heads" else size
        self.q, self.k, self.v = (nn.Linear(inner, inner) for _ in range(3))
        self.out = nn.Linear(size, size)
        if mistake == "scale in the weights":
            self.q.weight.data /= math.sqrt(size // count)

    def map(self, linear, x):
        if self.mistake == "slices of heads":
            return linear(x.unflatten(-1, (self.count, -1))).flatten(-2)
        if "keyword" in self.mistake:
            return F.linear(input=x, weight=linear.weight, bias=linear.bias)
        return linear(x)

    def split(self, x):
        if self.mistake == "heads split by a view":
            return x.reshape(x.size(0), self.count, x.size(1), -1)
        return x.unflatten(-1, (self.count, -1)).transpose(1, 2)

    def forward(self, x, memory, mask):
        q, k, v = (
            self.split(self.map(f, y))
            for f, y in zip((self.q, self.k, self.v), (x, memory, memory), strict=True)
        )
        if self.mistake == "half turned" and memory is x:
            q, k = turned_half(q), turned_half(k)
        if self.mistake in ROTARY and memory is x:
            q, k = rotated(q), k if self.mistake == "only queries turn" else rotated(k)
            found = F.scaled_dot_product_attention(q, k, v, mask)
            return self.out(found.transpose(1, 2).reshape(x.shape))
        unscaled = dict.fromkeys(["no scale", "no scale, a bias", "scale in the weights"], 1.0)
        divisors = {**unscaled, "scaled by the embedding size": math.sqrt(x.size(-1))}
        scores = q @ k.mT / divisors.get(self.mistake, math.sqrt(q.size(-1)))
        scores = scores + (self.mistake == "no scale, a bias") * torch.arange(scores.size(-1)) / 9
        scores = scores + (self.mistake == "one relative position")
        if self.mistake == "a mask of another" and mask.dim() == 4:
            mask = mask.repeat(self.count, 1, 1, 1).view(len(x), self.count, *mask.shape[2:])
        scores = scores.masked_fill(~mask, -2.0 if self.mistake == "small fill" else -1e9)
        found = scores.softmax(-2 if self.mistake == "softmax over queries" else -1) @ v
        if self.mistake != "heads joined by a view":
            found = found.transpose(1, 2)
        return self.out(found.reshape(x.shape))


ROTARY = ("turned", "only queries turn")
UNPLACED = (*ROTARY, "half turned", "one relative position")


def rotated(x):
    """Pairs of a half each are turned by their place."""
    size = x.size(-1)
    angle = torch.arange(x.size(-2))[:, None] * 1e4 ** (-torch.arange(0, size, 2) / size)
    (first, second), c, s = x.chunk(2, -1), angle.cos(), angle.sin()
    return torch.cat([first * c - second * s, first * s + second * c], -1)


def turned_half(x):
    """Halves are turned into each other, by the angles of neighbours."""
    angle = torch.arange(x.size(-2))[:, None] * 1e4 ** (
        -torch.arange(0, x.size(-1), 2) / x.size(-1)
    )
    angle = angle.repeat_interleave(2, -1)
    first, second = x.chunk(2, -1)
    return x * angle.cos() + torch.cat([-second, first], -1) * angle.sin()


class RowNorm(nn.Module):
    """A norm of one's own."""

    def __init__(self, size, mistake):
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))
        self.power = 2 if mistake == "norm by the variance" else 1
        self.axis = -2 if mistake == "norm over positions" else -1

    def forward(self, x):
        spread = x.std(self.axis, keepdim=True) + 1e-6
        return self.gain * (x - x.mean(self.axis, keepdim=True)) / spread**self.power + self.bias


class Block(nn.Module):
    def __init__(self, sizes, mistake, cross):
        super().__init__()
        self.mistake, self.own = mistake, Heads(sizes.d_model, sizes.n_heads, mistake)
        self.cross = Heads(sizes.d_model, sizes.n_heads, mistake) if cross else None
        own = partial(RowNorm, mistake=mistake) if mistake.startswith("norm ") else nn.LayerNorm
        self.norms = nn.ModuleList(own(sizes.d_model) for _ in range(3))
        self.norms[1] = self.norms[1] if cross else nn.Identity()
        self.wide, self.narrow = nn.Linear(sizes.d_model, 24), nn.Linear(24, sizes.d_model)
        self.drop = nn.Dropout(sizes.dropout)

    def forward(self, x, mask, memory=None, seen=None):
        if self.mistake == "no residual":
            x = self.own(self.norms[0](x), self.norms[0](x), mask)
            x = x if memory is None else self.cross(self.norms[1](x), memory, seen)
            return self.narrow(self.wide(self.norms[2](x)).relu())
        norms = {"one norm": [0, 0, 0], "a norm of another": [0, 0, 2]}.get(self.mistake, [0, 1, 2])
        first, second, third = (self.norms[n] for n in norms)
        y = first(x)
        x = y if self.mistake == "residual behind the norm" else x
        x = x + self.drop(self.own(y, y, mask))
        if memory is not None:
            x = x + self.drop(self.cross(second(x), memory, seen))
            if self.mistake == "fixed dropout in the decoder":
                x = F.dropout(x, 0.1, self.training)
        wide = self.wide(third(x))
        if self.mistake == "in place":
            return x + self.drop(self.narrow(wide.relu_()))
        return x + self.drop(self.narrow(wide if self.mistake == "no activation" else wide.relu()))


class Stranger(nn.Module):
    def __init__(self, sizes, mistake=""):
        super().__init__()
        self.mistake, size = mistake, sizes.d_model
        self.tables = nn.ModuleList(
            nn.Embedding(n, size) for n in (sizes.source_vocab_size, sizes.target_vocab_size)
        )
        if mistake == "small embeddings":
            for table in self.tables:
                nn.init.normal_(table.weight, std=0.02)
        angle = torch.arange(60)[:, None] * 1e4 ** (-torch.arange(0, size, 2) / size)
        places = torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)
        if mistake == "exponents of all columns":
            angle = torch.arange(60)[:, None] * 1e4 ** (-2 * torch.arange(size) / size)
            places = torch.where(torch.arange(size) % 2 == 0, angle.sin(), angle.cos())
        if mistake == "table is an attribute":
            self.places = torch.tensor(places.tolist(), device="cpu")
        else:
            self.register_buffer("places", places)
        self.scale = 1.0 if mistake == "small embeddings" else math.sqrt(size)
        self.encoder, self.decoder = (
            nn.ModuleList(Block(sizes, mistake, cross) for _ in range(sizes.n_layers))
            for cross in (False, True)
        )
        if mistake == "one block":
            self.encoder = nn.ModuleList([self.encoder[0]] * 2)
        if mistake == "plain list":
            blocks = [*self.encoder]
            del self.encoder
            self.encoder = blocks
        self.ends = nn.ModuleList(nn.LayerNorm(size) for _ in range(2))
        self.last = nn.Linear(size, sizes.target_vocab_size)
        if mistake == "tied":
            self.last.weight = self.tables[1].weight
        if mistake == "tied by data":
            self.last.weight.data = self.tables[1].weight.data

    def embed(self, side, ids):
        scale = 1.0 if side and self.mistake == "decoder not scaled" else self.scale
        scale = math.sqrt(ids.size(1)) if self.mistake == "scaled by the length" else scale
        places = self.places[: ids.size(1)] * (self.mistake not in UNPLACED)
        return self.tables[side](ids) * scale + places

    def seen(self, source):
        seen = source != PAD
        if self.mistake == "PAD for words":
            seen = ~seen
        if self.mistake == "one PAD too many":
            seen = seen | F.pad(seen, (1, -1))
        return seen[:, None, None]

    def encode(self, source):
        x, mask = self.embed(0, source), self.seen(source)
        for block in self.encoder:
            x = block(x, mask)
        return self.ends[0](x)

    def decode(self, target, memory, seen):
        x, past = self.embed(1, target), torch.ones(2 * (target.size(1),), dtype=torch.bool).tril()
        if self.mistake == "off by one":
            past = past | past.roll(1, 1).tril(1)
        past = past | (self.mistake == "no mask in eval mode" and not self.training)
        for block in self.decoder:
            x = block(x, past, memory, seen)
        return self.last(self.ends[1](x))

    def forward(self, source, target):
        seen = self.seen(source) | self.mistake.startswith("no memory mask")
        table = self.decode(target, self.encode(source), seen)
        if self.mistake == "unused padding":  # what stands at PAD is nobody's business
            noise = torch.randn(table.shape, dtype=table.dtype)
            return torch.where((target == PAD)[..., None], noise, table)
        return table * (3.0 if self.mistake == "a factor at the end" else 1.0)


def make(mistake=""):
    return partial(Stranger, mistake=mistake)


# Loops


def epoch(model, batches, training, mistake="", every=1, share=0.0):
    model.train(training and mistake != "eval mode never left")
    optimizer, losses, tokens = torch.optim.Adam(model.parameters(), 0.001), 0.0, 0
    with torch.set_grad_enabled(training):
        for number, batch in enumerate(batches, start=1):
            source, target = batch[0], batch[1]
            reads, labels = target[:, :-1], batch.labels.view(-1)
            if mistake == "labels not shifted":
                labels = reads.reshape(-1)
            if mistake == "padded to 40":
                reads, labels = (F.pad(x, (0, 40 - x.size(1))) for x in (reads, batch.labels))
                labels = labels.view(-1)
            table = model(source, reads).flatten(0, 1)
            if mistake == "fixed dropout":
                table = F.dropout(table, 0.1, training)
            ignored = -100 if mistake in ("PAD in the loss", "padded to 40") else PAD
            loss = F.cross_entropy(table, labels, ignore_index=ignored, label_smoothing=share)
            count = int((labels != PAD).sum())
            if mistake == "padded counts":
                loss = loss * count / labels.numel()
            losses, tokens = losses + loss.item() * count, tokens + count
            if training:
                loss.backward()
                if number % every == 0:
                    optimizer.step()
                    optimizer.zero_grad()
    assert len(batches) and (not training or len(batches.dataset) or len(batches) < 3)
    return losses / tokens


# Searches


@torch.no_grad()
def beam(model, source, width, penalty, longest, mistake=""):
    model.eval()
    together = mistake == "no mask in batches"
    every = source.split(1) if together else [row[row != PAD][None] for row in source]
    return [search(model, row, width, penalty, longest, mistake) for row in every]


def search(model, source, width, penalty, longest, mistake):
    memory, seen = model.encode(source), torch.ones(1, 1, 1, source.size(1), dtype=torch.bool)
    copies = width if mistake == "equal copies" else 1
    going, done = [(0.0, [BOS])] * copies, []
    for length in range(longest + 1):  # noqa: B007 (it is asked for afterwards)
        target, wide = torch.tensor([ids for _, ids in going]), (len(going), -1, -1)
        table = model.decode(target, memory.expand(*wide), seen)[:, -1]
        logp = table if mistake == "raw logits" else table.log_softmax(-1)
        logp = table.softmax(-1) if mistake == "probabilities" else logp
        grown = [
            (score + p, [*ids, word])
            for (score, ids), row in zip(going, logp.tolist(), strict=True)
            for word, p in enumerate(row)
        ]
        order = sorted(grown, key=lambda pair: pair[0], reverse=mistake != "reversed")
        best = order[:width]
        for score, ids in best:
            if ids[-1] == EOS:
                norm = max(len(ids) - 2, 1) ** penalty
                done.append((score / norm, ids))
        going = [(score, ids) for score, ids in best if ids[-1] != EOS]
        if not going or (len(done) >= width and mistake != "last selection"):
            break
    if mistake == "entry 0" and length == longest:
        done = [*going[:1], *[(score - 99, ids) for score, ids in done]]
    ranked = sorted(done or going, reverse=True, key=lambda pair: pair[0])
    ranked = done or going if mistake == "not sorted" else ranked
    return [([i for i in ids if i not in (BOS, EOS)], score) for score, ids in ranked]


@torch.no_grad()
def greedy_batch(model, source, longest, mistake=""):
    """All sources at once; rows that have ended say EOS until the last one ends."""
    model.eval()
    target = torch.full((len(source), 1), BOS)
    ended = torch.zeros(len(source), dtype=torch.bool)
    over = torch.any if mistake == "any" else torch.all
    while target.size(1) <= longest and not over(ended):
        best = model(source, target)[:, -1].argmax(-1)
        best = best.masked_fill(ended, EOS)
        ended |= best == EOS
        target = torch.cat([target, best[:, None]], 1)
    rows = target[:, 1:].tolist()
    return [row[: row.index(EOS)] if EOS in row else row for row in rows]


def count_words(model, pairs, mistake=""):
    """The mean length of translations in batches of four."""
    lengths = []
    for start in range(0, len(pairs), 4):
        rows = [[int(w[1:]) for w in words] + [EOS] for words, _ in pairs[start : start + 4]]
        source = torch.full((len(rows), max(map(len, rows))), PAD)
        for n, row in enumerate(rows):
            source[n, : len(row)] = torch.tensor(row)
        lengths += map(len, greedy_batch(model, source, 30, mistake))
    return sum(lengths) / len(lengths)


def translate(model, words, longest, width=1, end=(EOS,), known=True, texts=False, mistake=""):
    names = {f"w{n}": n for n in range(3, 100)}
    kept = [w for w in words if w in names] if not known else words
    source = torch.tensor([[*(names.get(w, 3) for w in kept), *end]])
    (found,) = beam(model, source, width, 0.0, longest, mistake)
    ids = found[0][0]
    return " ".join(map(str, ids)) if texts else [f"w{i}" for i in ids]


def stranger(mistake="", **parts):
    ids = {"pad": PAD, "bos": BOS, "eos": EOS}
    return Adapter(**{"name": "stranger", "make_model": make(mistake), **ids, **parts})


def turned(model, source, target):
    """The model as one that puts time first."""
    return model.inner(source.t(), target.t()).transpose(0, 1)


class TimeMajor(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.inner = Stranger(sizes)

    def forward(self, source, target):
        return turned(self, source, target)


class Shifting(TimeMajor):
    def forward(self, source, target):
        return self.inner(source, target[:, :-1])


class PaddedTarget(TimeMajor):
    """Its second argument has "pad" in its name, and is no mask."""

    def forward(self, padded_source, padded_target):
        return self.inner(padded_source, padded_target)


class Masked(TimeMajor):
    def forward(self, src, tgt, src_mask, tgt_mask):
        memory = self.inner.embed(0, src)
        for block in self.inner.encoder:
            memory = block(memory, src_mask[:, None])
        memory, x = self.inner.ends[0](memory), self.inner.embed(1, tgt)
        for block in self.inner.decoder:
            x = block(x, tgt_mask[:, None], memory, src_mask[:, None])
        return self.inner.last(self.inner.ends[1](x))


WAYS = {"time_major": TimeMajor, "shifts": Shifting, "masks": Masked}
__all__ = ["WAYS", "called"]
