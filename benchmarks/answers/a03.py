"""Answers to homework 03."""

import math

import numpy as np
import torch
from torch import nn

from nmtlib.model.embeddings import sinusoidal_table


def in_loops(length, d_model):
    if d_model % 2 == 1:
        raise ValueError("odd")
    table = torch.zeros(length, d_model)
    for p in range(length):
        for i in range(d_model // 2):
            table[p, 2 * i] = math.sin(p / 10000 ** (2 * i / d_model))
            table[p, 2 * i + 1] = math.cos(p / 10000 ** (2 * i / d_model))
    return table


def with_exponential(length, d_model):
    if d_model % 2 != 0:
        raise ValueError("must be even")
    table = torch.zeros(length, d_model)
    position = torch.arange(0, length, dtype=torch.float).unsqueeze(1)
    steps = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
    table[:, 0::2] = torch.sin(position * steps)
    table[:, 1::2] = torch.cos(position * steps)
    return table


def with_numpy(length, d_model):
    if d_model % 2:
        raise ValueError
    angle = np.arange(length)[:, None] / np.power(10000, np.arange(0, d_model, 2) / d_model)
    table = np.empty((length, d_model), dtype=np.float32)
    table[:, ::2], table[:, 1::2] = np.sin(angle), np.cos(angle)
    return torch.from_numpy(table)


def with_complex_numbers(length, d_model):
    if d_model & 1:
        raise ValueError("D is odd")
    speed = 10000.0 ** (-torch.arange(d_model // 2).double() / (d_model / 2))
    turned = torch.polar(
        torch.ones(length, d_model // 2).double(), torch.outer(torch.arange(length).double(), speed)
    )
    return torch.view_as_real(turned).flip(-1).flatten(1).float()


def with_a_phase(length, d_model):
    if d_model % 2:
        raise ValueError("odd D")
    column = torch.arange(d_model, dtype=torch.float64)
    speed = 10000 ** (-(column - column % 2) / d_model)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * speed + (column % 2) * math.pi / 2
    return angle.sin().float()


def from_blocks(k, d_model):
    blocks = []
    for speed in 10000.0 ** (-np.arange(0, d_model, 2) / d_model):
        a = k * speed
        blocks.append(
            torch.tensor(
                [[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]], dtype=torch.float64
            )
        )
    return torch.block_diag(*blocks)


def by_power(k, d_model):
    one = from_blocks(1, d_model)
    return torch.linalg.matrix_power(one, k) if k >= 0 else torch.linalg.matrix_power(one.T, -k)


def with_diagonals(k, d_model):
    angle = k * 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    sines = torch.zeros(d_model - 1, dtype=torch.float64)
    sines[::2] = angle.sin()
    return (
        torch.diag(angle.cos().repeat_interleave(2)) + torch.diag(sines, 1) - torch.diag(sines, -1)
    )


def by_matrix_exponential(k, d_model):
    generator = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i in range(d_model // 2):
        generator[2 * i, 2 * i + 1] = 10000 ** (-2 * i / d_model)
        generator[2 * i + 1, 2 * i] = -generator[2 * i, 2 * i + 1]
    return torch.linalg.matrix_exp(k * generator)


class WithEmbedding(nn.Module):
    def __init__(self, d_model, max_length, kind="sinusoidal"):
        super().__init__()
        if kind not in ("sinusoidal", "learned"):
            raise ValueError(kind)
        self.max_length = max_length
        if kind == "learned":
            self.weights = nn.Embedding(max_length, d_model)
        else:
            self.register_buffer("fixed", sinusoidal_table(max_length, d_model), persistent=False)

    def forward(self, embedded, start=0):
        places = torch.arange(start, start + embedded.shape[1])
        if int(places[-1]) >= self.max_length:
            raise ValueError("too long")
        table = self.weights(places) if hasattr(self, "weights") else self.fixed[places]
        return embedded + table.unsqueeze(0)


class WithNarrow(nn.Module):
    def __init__(self, d_model, max_length, kind="sinusoidal"):
        super().__init__()
        tables = {
            "sinusoidal": sinusoidal_table,
            "learned": lambda n, d: nn.Parameter(torch.randn(n, d)),
        }
        if kind not in tables:
            raise ValueError(f"no {kind}")
        table = tables[kind](max_length, d_model)
        if kind == "learned":
            self.register_parameter("pe", table)
        else:
            self.register_buffer("pe", table, False)

    def forward(self, embedded, start=0):
        length = embedded.size(-2)
        if start + length > self.pe.size(0):
            raise ValueError
        return self.pe.narrow(0, start, length) + embedded


class TwoClasses(nn.Module):
    def __new__(cls, d_model, max_length, kind="sinusoidal"):
        if kind == "sinusoidal":
            return WithNarrow(d_model, max_length, kind)
        return WithEmbedding(d_model, max_length, kind)


class Expanded(WithNarrow):
    def forward(self, embedded, start=0):
        if embedded.size(1) + start > len(self.pe):
            raise ValueError("beyond")
        return torch.stack([row + self.pe[start : start + len(row)] for row in embedded])


class OnTheFly(nn.Module):
    def __init__(self, d_model, max_length, kind="sinusoidal"):
        super().__init__()
        if kind not in ("sinusoidal", "learned"):
            raise ValueError(kind)
        self.longest, self.learned = max_length, None
        if kind == "learned":
            self.learned = nn.Parameter(torch.randn(max_length, d_model))

    def forward(self, embedded, start=0):
        end = start + embedded.size(1)
        if end > self.longest:
            raise ValueError(end)
        table = self.learned
        if table is None:
            table = sinusoidal_table(end, embedded.size(-1)).to(embedded)
        return embedded + table[start:end]


class WithPlaces(nn.Module):
    def __init__(self, d_model, max_length, kind="sinusoidal"):
        super().__init__()
        if kind not in ("sinusoidal", "learned"):
            raise ValueError(kind)
        self.register_buffer("places", torch.arange(max_length), persistent=False)
        if kind == "learned":
            self.table = nn.Parameter(torch.randn(max_length, d_model))
        else:
            table = sinusoidal_table(max_length, d_model)
            self.register_buffer("table", table, persistent=False)

    def forward(self, embedded, start=0):
        places = self.places[start : start + embedded.size(1)]
        if len(places) < embedded.size(1):
            raise ValueError(start)
        return embedded + self.table[places]


RIGHT = {
    "03.1": [in_loops, with_exponential, with_numpy, with_complex_numbers, with_a_phase],
    "03.2": [from_blocks, by_power, with_diagonals, by_matrix_exponential],
    "03.3": [WithEmbedding, WithNarrow, TwoClasses, Expanded],
    "03.4": ["B", "b"],
}


RIGHT["03.3"] += [OnTheFly, WithPlaces]
