"""Answers to homework 04."""

import math

import numpy as np
import torch
from torch import nn


def in_logarithms(scores):
    return (scores - torch.logsumexp(scores, dim=-1, keepdim=True)).exp()


def with_numpy(scores):
    rows = scores.double().numpy()
    powers = np.exp(rows - rows.max(axis=-1, keepdims=True))
    return torch.from_numpy(powers / powers.sum(axis=-1, keepdims=True)).to(scores.dtype)


def row_by_row(scores):
    rows = []
    for row in scores.reshape(-1, scores.size(-1)):
        powers = [math.exp(float(s - row.max())) for s in row]
        rows.append([power / sum(powers) for power in powers])
    return torch.tensor(rows, dtype=scores.dtype).reshape(scores.shape)


def with_a_sorted_maximum(scores):
    powers = torch.exp(scores - scores.sort(dim=-1).values[..., -1:])
    return torch.einsum("...n,...->...n", powers, 1 / powers.sum(-1))


def other_names(q, k, v, allowed=None):
    s = torch.einsum("...td,...sd->...ts", q, k) * q.shape[-1] ** -0.5
    if allowed is None:
        return torch.softmax(s, -1) @ v
    s = torch.where(allowed, s, torch.finfo(s.dtype).min)
    return torch.where(allowed, torch.softmax(s, -1), 0) @ v


def in_float64(query, key, value, mask=None):
    scores = (query.double() @ key.double().mT) / math.sqrt(key.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e300)
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    if mask is not None:
        powers = powers * mask
    total = powers.sum(-1, keepdim=True)
    weights = powers / total.where(total > 0, torch.ones_like(total))
    return (weights @ value.double()).to(query.dtype)


def query_by_query(query, key, value, mask=None):
    rows = []
    for t in range(query.size(-2)):
        scores = (query[..., t : t + 1, :] * key).sum(-1) / query.size(-1) ** 0.5
        if mask is not None:
            allowed = mask[..., min(t, mask.size(-2) - 1), :]
            scores = scores.masked_fill(~allowed, -torch.inf)
        weights = scores.softmax(-1).nan_to_num(0)
        rows.append((weights[..., None] * value).sum(-2))
    return torch.stack(rows, -2)


def additive_mask(x, w_query, w_key, w_value):
    q, k, v = x @ w_query, x @ w_key, x @ w_value
    future = torch.full((x.size(1), x.size(1)), -torch.inf, dtype=x.dtype).triu(1)
    weights = (q @ k.mT / k.size(-1) ** 0.5 + future).softmax(-1)
    return weights @ v, weights


def by_comparing_places(x, w_query, w_key, w_value):
    place = torch.arange(x.size(1))
    scores = torch.einsum("btd,dk,bse,ek->bts", x, w_query, x, w_key) / math.sqrt(w_key.size(1))
    weights = scores.where(place[:, None] >= place, -torch.inf).softmax(-1)
    return torch.einsum("bts,bsd,dk->btk", weights, x, w_value), weights


def linear_layers(x, w_query, w_key, w_value):
    maps = [nn.Linear(*w.shape, bias=False, dtype=w.dtype) for w in (w_query, w_key, w_value)]
    with torch.no_grad():
        for linear, w in zip(maps, (w_query, w_key, w_value), strict=True):
            linear.weight.copy_(w.T)
    q, k, v = (linear(x) for linear in maps)
    causal = torch.tril(torch.ones(x.shape[1], x.shape[1])) == 0
    lowest = torch.finfo(x.dtype).min
    weights = (q @ k.transpose(1, 2) / math.sqrt(q.shape[2])).masked_fill(causal, lowest)
    weights = weights.softmax(2)
    return weights.detach() @ v.detach(), weights.detach()


def one_product(x, w_query, w_key, w_value):
    q, k, v = (x @ torch.cat([w_query, w_key, w_value], dim=1)).chunk(3, dim=-1)
    scores = (q @ k.mT / q.size(-1) ** 0.5).double()
    scores = scores + torch.ones_like(scores).tril().log()
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = (powers / powers.sum(-1, keepdim=True)).to(x.dtype)
    return weights @ v, weights


def by_powers(query, key, value, mask=None):
    scores = query @ key.mT / query.size(-1) ** 0.5
    if mask is not None:
        scores = scores + mask.to(scores.dtype).log()
    powers = (scores - scores.amax(-1, keepdim=True).nan_to_num(neginf=0.0)).exp()
    total = powers.sum(-1, keepdim=True)
    return powers @ value / total.masked_fill(total == 0, 1)


def as_a_list(x, w_query, w_key, w_value):
    return [*additive_mask(x, w_query, w_key, w_value)]


RIGHT = {
    "04.1": [in_logarithms, with_numpy, row_by_row, with_a_sorted_maximum],
    "04.2": [other_names, in_float64, query_by_query],
    "04.3": [additive_mask, by_comparing_places, linear_layers, one_product],
    "04.4": ["A", "a", " A"],
}


RIGHT["04.2"] += [by_powers]
RIGHT["04.3"] += [as_a_list]
