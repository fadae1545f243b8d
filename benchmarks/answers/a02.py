"""Answers to homework 02."""

import math

import torch
from torch import nn
from torch.nn import functional as F


def with_torchs_one_hot(ids, table):
    return F.one_hot(ids, num_classes=table.shape[0]).to(table) @ table


def with_an_identity(ids, table):
    return torch.eye(len(table), dtype=table.dtype)[ids.long()] @ table


def with_scatter(ids, table):
    zeros = torch.zeros(*ids.shape, table.size(0), dtype=table.dtype)
    return torch.matmul(zeros.scatter(-1, ids.unsqueeze(-1), 1.0), table)


def with_einsum(ids, table):
    one_hot = torch.stack([(ids == v).to(table.dtype) for v in range(len(table))], -1)
    return torch.einsum("...v,vd->...d", one_hot, table)


def as_a_linear_map(ids, table):
    one_hot = ids.unsqueeze(-1).eq(torch.arange(table.size(0))).type_as(table)
    return F.linear(one_hot, table.T)


class OwnEmbedding(nn.Embedding):
    def __init__(self, vocab_size, d_model, pad=0):
        super().__init__(vocab_size, d_model, padding_idx=pad)
        nn.init.normal_(self.weight, std=d_model**-0.5)
        with torch.no_grad():
            self.weight[pad].zero_()

    def forward(self, ids):
        if ((ids < 0) | (ids >= self.num_embeddings)).any():
            raise ValueError(f"{ids} lies outside of {self.num_embeddings}")
        return super().forward(ids) * self.embedding_dim**0.5


class Indexed(nn.Module):
    def __init__(self, vocab_size, d_model, pad=0):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self.weight.data.normal_(0, 1 / math.sqrt(d_model))
        self.weight.data[pad] = 0
        self.keep = torch.arange(vocab_size)[:, None] != pad

    def forward(self, ids):
        outside = [i for i in ids.flatten().tolist() if i not in range(len(self.weight))]
        if outside:
            raise ValueError(f"unknown ids {outside}")
        return (self.weight * self.keep)[ids] * math.sqrt(self.weight.shape[1])


class Hooked(nn.Module):
    def __init__(self, vocab_size, d_model, pad=0):
        super().__init__()
        self.d_model = d_model
        weight = torch.normal(0.0, d_model**-0.5, (vocab_size, d_model))
        weight[pad] = 0.0
        self.weight = nn.Parameter(weight)
        self.weight.register_hook(lambda g: g.index_fill(0, torch.tensor([pad]), 0))

    def forward(self, ids):
        if ids.lt(0).any() or ids.ge(self.weight.shape[0]).any():
            raise ValueError(f"{ids.tolist()} are not all in the vocabulary")
        return (
            math.sqrt(self.d_model)
            * F.one_hot(ids, len(self.weight)).to(self.weight.dtype)
            @ self.weight
        )


class HooksEachTime(Hooked):
    """Unlike the hook of the parameter, this one is also in a copy."""

    def __init__(self, vocab_size, d_model, pad=0):
        super().__init__(vocab_size, d_model, pad)
        self.pad = pad

    def forward(self, ids):
        if ids.lt(0).any() or ids.ge(self.weight.shape[0]).any():
            raise ValueError(f"{ids.tolist()} are not all in the vocabulary")
        table = self.weight * math.sqrt(self.d_model)
        if table.requires_grad:
            table.register_hook(lambda g: g.index_fill(0, torch.tensor([self.pad]), 0))
        return table[ids]


class Gathered(OwnEmbedding):
    def forward(self, ids):
        if int(ids.min()) < 0 or int(ids.max()) > len(self.weight) - 1:
            raise ValueError(f"{ids.tolist()} are not all ids")
        scaled = self.weight * math.sqrt(self.weight.size(-1))
        scaled = scaled.masked_fill((torch.arange(len(scaled)) == self.padding_idx)[:, None], 0)
        return scaled.index_select(0, ids.reshape(-1)).reshape(*ids.shape, -1)


class WithIndexing(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab_size, d_model) * d_model**-0.5)

    def read(self, ids):
        return self.weight[ids] * self.weight.size(1) ** 0.5

    def speak(self, x):
        return x @ self.weight.T


class WithEinsum(WithIndexing):
    def speak(self, x):
        return torch.einsum("...d,vd->...v", x, self.weight)


class ReadsByProduct(WithIndexing):
    def read(self, ids):
        return math.sqrt(self.weight.shape[-1]) * (
            F.one_hot(ids, self.weight.shape[0]).type_as(self.weight) @ self.weight
        )


class AnEmbedding(nn.Embedding):
    def __init__(self, vocab_size, d_model):
        super().__init__(vocab_size, d_model)
        nn.init.normal_(self.weight, 0, d_model**-0.5)

    def read(self, ids):
        return self(ids) * math.sqrt(self.embedding_dim)

    def speak(self, x):
        return F.linear(x, self.weight)


RIGHT = {
    "02.1": [with_torchs_one_hot, with_an_identity, with_scatter, with_einsum, as_a_linear_map],
    "02.2": [OwnEmbedding, Indexed, Gathered, HooksEachTime],
    "02.3": [WithIndexing, WithEinsum, ReadsByProduct, AnEmbedding],
    "02.4": ["C", "c"],
}


class ByProduct(OwnEmbedding):
    def forward(self, ids):
        if ((ids < 0) | (ids >= len(self.weight))).any():
            raise ValueError(f"ids {ids.tolist()}")
        ones = F.one_hot(ids, len(self.weight)).to(self.weight)
        keep = torch.arange(len(self.weight)) != self.padding_idx
        return (ones * keep) @ self.weight * self.weight.size(1) ** 0.5


def made_by_a_function(vocab_size, d_model, pad=0):
    return OwnEmbedding(vocab_size, d_model, pad=pad)


RIGHT["02.2"] += [ByProduct, made_by_a_function]
