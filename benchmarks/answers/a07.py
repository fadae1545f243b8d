"""Answers to homework 07."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from nmtlib.model import Transformer
from nmtlib.model.attention import causal_mask, padding_mask, target_mask
from nmtlib.model.embeddings import Positions, TokenEmbedding
from nmtlib.model.layers import DecoderLayer, EncoderLayer
from nmtlib.model.layers import Residual as Ours


class ByHand(nn.Module):
    def __init__(self, d_model, dropout, norm):
        super().__init__()
        self.gain, self.shift = (
            nn.Parameter(torch.ones(d_model)),
            nn.Parameter(torch.zeros(d_model)),
        )
        self.p, self.post = dropout, norm == "post"

    def normal(self, x):
        centre = x - x.mean(-1, keepdim=True)
        return (
            self.gain * centre / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
            + self.shift
        )

    def drop(self, x):
        if not self.training:
            return x
        return x * (torch.rand_like(x) >= self.p) / (1 - self.p)

    def forward(self, x, f):
        if self.post:
            return self.normal(x + self.drop(f(x)))
        return x + self.drop(f(self.normal(x)))


class Functional(nn.Module):
    def __init__(self, d_model, dropout, norm):
        super().__init__()
        self.d, self.p, self.kind = d_model, dropout, norm

    def forward(self, x, f):
        given = F.layer_norm(x, (self.d,)) if self.kind == "pre" else x
        total = torch.add(x, F.dropout(f(given), self.p, self.training))
        return total if self.kind == "pre" else F.layer_norm(total, (self.d,))


def factory(d_model, dropout, norm):
    return Ours(d_model, dropout, norm)


class TwoKinds(nn.Module):
    def __init__(self, d_model, dropout, norm):
        super().__init__()
        self.before = nn.LayerNorm(d_model) if norm == "pre" else nn.Identity()
        self.after = nn.LayerNorm(d_model) if norm == "post" else nn.Identity()
        self.drop = nn.Dropout(p=dropout)

    def forward(self, x, f):
        return self.after(self.drop(f(self.before(x))) + x)


class Inherits(Ours):
    pass


def part_by_part(config):
    d = config.d_model

    def linear(a, b):
        return a * b + b

    attention = 4 * linear(d, d)
    feed = linear(d, config.d_ff) + linear(config.d_ff, d)
    total = config.n_encoder_layers * (attention + feed + 4 * d)
    total += config.n_decoder_layers * (2 * attention + feed + 6 * d)
    total += config.source_vocab_size * d * (config.tied != "all")
    total += config.target_vocab_size * d
    total += (
        config.target_vocab_size if config.tied != "none" else linear(d, config.target_vocab_size)
    )
    if config.norm == "pre":
        total += 4 * d
    if config.positions == "learned":
        total += 2 * config.max_length * d
    return total


def by_shapes(config):
    c, d = config, config.d_model
    norm, attention = [(2, d)], [(d + 1, d)] * 4
    feed = [(d + 1, c.d_ff), (c.d_ff + 1, d)]
    shapes = (attention + feed + 2 * norm) * c.n_encoder_layers
    shapes += (2 * attention + feed + 3 * norm) * c.n_decoder_layers
    shapes += norm * 2 * (c.norm == "pre") + [(c.max_length, d)] * 2 * (c.positions == "learned")
    tables = {"none": (c.source_vocab_size, c.target_vocab_size, c.target_vocab_size)}
    tables |= {"target": (c.source_vocab_size, c.target_vocab_size), "all": (c.target_vocab_size,)}
    shapes += [(v, d) for v in tables[c.tied]] + [(1, c.target_vocab_size)]
    return sum(a * b for a, b in shapes)


def in_vectors(config):
    c, d = config, config.d_model
    attention = torch.tensor([4 * d + 4]) * d
    feed = (2 * d + 1) * c.d_ff + d
    stacks = c.n_encoder_layers * (attention + feed + 4 * d) + c.n_decoder_layers * (
        2 * attention + feed + 6 * d
    )
    v = {
        "none": c.source_vocab_size + 2 * c.target_vocab_size,
        "target": c.source_vocab_size + c.target_vocab_size,
    }
    tables = v.get(c.tied, c.target_vocab_size) * d + c.target_vocab_size
    extra = 4 * d * (c.norm == "pre") + 2 * c.max_length * d * (c.positions == "learned")
    return int(stacks + tables + extra)


def in_numpy(config):
    return np.int64(part_by_part(config))


class Inherited(Transformer):
    pass


class Encoded(nn.Module):
    def __init__(self, config):
        super().__init__()
        d = config.d_model
        for side in ("source", "target"):
            size = getattr(config, f"{side}_vocab_size")
            setattr(self, f"{side}_embedding", TokenEmbedding(size, d))
            setattr(self, f"{side}_positions", Positions(d, config.max_length, config.positions))
        self.dropout = nn.Dropout(config.dropout)
        self.encoder, self.decoder = nn.ModuleList(), nn.ModuleList()
        for _ in range(config.n_encoder_layers):
            self.encoder.append(EncoderLayer(config))
        for _ in range(config.n_decoder_layers):
            self.decoder.append(DecoderLayer(config))
        closing = nn.LayerNorm if config.norm == "pre" else nn.Identity
        self.encoder_norm, self.decoder_norm = closing(d), closing(d)
        self.output = nn.Linear(d, config.target_vocab_size)

    def encode(self, source):
        x = self.dropout(self.source_positions(self.source_embedding(source)))
        for layer in self.encoder:
            x = layer(x, (source != 0)[:, None, None])
        return self.encoder_norm(x)

    def forward(self, source, target):
        memory = self.encode(source)
        y = self.dropout(self.target_positions(self.target_embedding(target)))
        own = (target != 0)[:, None, None] & causal_mask(target.size(1))
        for layer in self.decoder:
            y = layer(y, memory, own, (source != 0)[:, None, None])
        return self.output(self.decoder_norm(y))


class Functions(Encoded):
    def forward(self, source, target):
        drop = F.dropout
        x = drop(
            self.source_positions(self.source_embedding(source)), self.dropout.p, self.training
        )
        y = drop(
            self.target_positions(self.target_embedding(target)), self.dropout.p, self.training
        )
        keys, past = padding_mask(source), target_mask(target)
        for layer in self.encoder:
            x = layer(x, keys)
        x = self.encoder_norm(x)
        for layer in self.decoder:
            y = layer(y, x, past, keys)
        return F.linear(self.decoder_norm(y), self.output.weight, self.output.bias)


class OneByOne(Encoded):
    def forward(self, source, target):
        pairs = zip(source, target, strict=True)
        return torch.cat([super(OneByOne, self).forward(s[None], t[None]) for s, t in pairs])


RIGHT = {
    "07.1": [ByHand, Functional, factory, TwoKinds, Inherits],
    "07.2": [by_shapes, part_by_part, in_vectors, in_numpy],
    "07.3": [Inherited, Encoded, Functions, OneByOne],
    "07.4": ["B", "b"],
}


class WithAMask(Functional):
    def forward(self, x, f):
        y = f(F.layer_norm(x, (self.d,)) if self.kind == "pre" else x)
        if self.training and self.p:
            y = y * torch.bernoulli(torch.full_like(y, 1 - self.p)) / (1 - self.p)
        return x + y if self.kind == "pre" else F.layer_norm(x + y, x.shape[-1:])


class AsTwo(nn.ModuleList):
    def __init__(self, d_model, dropout, norm):
        super().__init__([nn.LayerNorm(d_model), nn.Dropout(dropout)])
        self.kind = norm

    def forward(self, x, f):
        norm, drop = self
        return x + drop(f(norm(x))) if self.kind == "pre" else norm(x + drop(f(x)))


RIGHT["07.1"] += [WithAMask, AsTwo]
