import math
from enum import Enum

import torch
from torch import nn


class Norm(Enum):
    PRE = "pre"
    POST = "post"


class Attention(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.to_v, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, context, blocked=None):
        b, t, d = x.shape

        def split(y):
            return y.reshape(b, -1, self.heads, d // self.heads).transpose(1, 2)

        q, k, v = split(self.to_q(x)), split(self.to_k(context)), split(self.to_v(context))
        scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d // self.heads)
        if blocked is not None:
            scores = scores.masked_fill(blocked, float("-inf"))
        weights = self.drop(scores.softmax(-1))
        return self.out(torch.einsum("bhts,bhsd->bhtd", weights, v).transpose(1, 2).reshape(b, t, d))


class Residual(nn.Module):
    """A residual connection around a sublayer, with its norm before or after."""

    def __init__(self, dim, dropout, norm):
        super().__init__()
        self.norm, self.drop, self.place = nn.LayerNorm(dim), nn.Dropout(dropout), norm

    def forward(self, x, sublayer):
        if self.place is Norm.PRE:
            return x + self.drop(sublayer(self.norm(x)))
        return self.norm(x + self.drop(sublayer(x)))


class Layer(nn.Module):
    def __init__(self, dim, heads, hidden, dropout, norm, cross):
        super().__init__()
        self.attn = Attention(dim, heads, dropout)
        self.cross = Attention(dim, heads, dropout) if cross else None
        self.ff = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.around = nn.ModuleList([Residual(dim, dropout, norm) for _ in range(2 + cross)])

    def forward(self, x, blocked, memory=None, memory_blocked=None):
        x = self.around[0](x, lambda y: self.attn(y, y, blocked))
        if self.cross is not None:
            x = self.around[1](x, lambda y: self.cross(y, memory, memory_blocked))
        return self.around[-1](x, self.ff)
