"""A student's Transformer: it runs, it can be trained, and makes three silent mistakes.  Which?"""

import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h, self.d = n_heads, d_model // n_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, memory, mask):
        def split(t):
            return t.view(t.size(0), -1, self.h, self.d).transpose(1, 2)

        q, k, v = split(self.q(x)), split(self.k(memory)), split(self.v(memory))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d)
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = scores.softmax(-1)
        return self.o((weights @ v).transpose(1, 2).reshape(x.size(0), -1, self.h * self.d))


class Layer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, decoder):
        super().__init__()
        self.self_attention = Attention(d_model, n_heads)
        self.cross_attention = Attention(d_model, n_heads) if decoder else None
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3 if decoder else 2))

    def forward(self, x, mask, memory=None):
        x = self.norms[0](x + self.self_attention(x, x, mask))
        if memory is not None:
            x = self.norms[1](x + self.cross_attention(x, memory, None))
        return self.norms[-1](x + self.ff(x))


class MyTransformer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        d = sizes.d_model
        self.src = nn.Embedding(sizes.source_vocab_size, d)
        self.tgt = nn.Embedding(sizes.target_vocab_size, d)
        self.pos = nn.Parameter(0.1 * torch.randn(sizes.max_length, d))
        self.encoder = nn.ModuleList(
            Layer(d, sizes.n_heads, sizes.d_ff, False) for _ in range(sizes.n_layers)
        )
        self.decoder = nn.ModuleList([Layer(d, sizes.n_heads, sizes.d_ff, True)] * sizes.n_layers)
        self.out = nn.Linear(d, sizes.target_vocab_size)

    def forward(self, source, target):
        mask = (source != 0)[:, None, None]
        memory = self.src(source) + self.pos[: source.size(1)]
        for layer in self.encoder:
            memory = layer(memory, mask)
        x = self.tgt(target) + self.pos[: target.size(1)]
        causal = torch.ones(target.size(1), target.size(1), dtype=torch.bool).tril(1)
        for layer in self.decoder:
            x = layer(x, causal, memory)
        return self.out(x)


def make(sizes):
    return MyTransformer(sizes)
