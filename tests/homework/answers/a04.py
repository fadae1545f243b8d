"""Answers to homework 04."""

import math
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def in_logarithms(scores):
    return (scores - torch.logsumexp(scores, dim=-1, keepdim=True)).exp()


def with_numpy(scores):
    rows = scores.numpy()
    powers = np.exp(rows - rows.max(axis=-1, keepdims=True))
    return torch.from_numpy(powers / powers.sum(axis=-1, keepdims=True))


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


def fused(query, key, value, mask=None):
    found = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return found if mask is None else found.nan_to_num(0)


def in_float64(query, key, value, mask=None):
    scores = (query.double() @ key.double().mT) / math.sqrt(key.shape[-1])
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


def beyond_float16(x, w_query, w_key, w_value):
    causal = torch.ones(x.size(1), x.size(1)).triu(1).bool()
    scores = (x @ w_query) @ (x @ w_key).mT / math.sqrt(w_query.size(1))
    weights = scores.masked_fill(causal, -1e30).softmax(2)
    return weights @ (x @ w_value), weights


def one_product(x, w_query, w_key, w_value):
    q, k, v = (x @ torch.cat([w_query, w_key, w_value], dim=1)).chunk(3, dim=-1)
    powers = (q @ k.mT / q.size(-1) ** 0.5).double().exp().tril()
    weights = (powers / powers.sum(-1, keepdim=True)).to(x.dtype)
    return weights @ v, weights


def by_powers(query, key, value, mask=None):
    powers = (query @ key.mT / query.size(-1) ** 0.5).exp()
    if mask is not None:
        powers = powers * mask
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


def without_exponential(scores):
    return scores / scores.sum(-1, keepdim=True)


def logarithms(scores):
    return scores.log_softmax(-1)


def clipped(scores):
    powers = scores.clamp(-50, 50).exp()
    return powers / powers.sum(-1, keepdim=True)


def always_float32(scores):
    return in_logarithms(scores.float())


def nothing_returned(query, key, value, mask=None):
    other_names(query, key, value, mask)


def with_dropout(query, key, value, mask=None):
    return F.dropout(other_names(query, key, value, mask), 0.1)


def mask_ignored(query, key, value, mask=None):
    return other_names(query, key, value)


def fixed_size(query, key, value, mask=None):
    scores = query @ key.mT / 8  # d_k is 64
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1).nan_to_num(0) @ value


def only_vectors(x, w_query, w_key, w_value):
    return F.scaled_dot_product_attention(x @ w_query, x @ w_key, x @ w_value, is_causal=True)


def forgets_the_softmax(x, w_query, w_key, w_value):
    q, k = x @ w_query, x @ w_key
    weights = (q @ k.mT / q.size(-1) ** 0.5).tril()
    return weights @ (x @ w_value), weights


def renormalised_never(x, w_query, w_key, w_value):
    q, k = x @ w_query, x @ w_key
    weights = (q @ k.mT / q.size(-1) ** 0.5).softmax(-1).tril()
    return weights @ (x @ w_value), weights


def torchs_own(scores):
    return scores.softmax(-1)


def torchs_module(scores):
    return nn.Softmax(-1)(scores)


class Bound:
    def softmax(self, scores):
        return scores.softmax(-1)


def fifty_below(query, key, value, mask=None):
    scores = query @ key.mT / query.size(-1) ** 0.5
    if mask is None:
        return scores.softmax(-1) @ value
    return (scores.masked_fill(~mask, -50).softmax(-1) * mask) @ value


def weights_of_another(x, w_query, w_key, w_value):
    return additive_mask(x, w_query, w_key, w_value)[0], additive_mask(x, w_key, w_query, w_value)[
        1
    ]


def an_even_share(x, w_query, w_key, w_value):
    vectors, weights = additive_mask(x, w_query, w_key, w_value)
    even = torch.ones_like(weights).tril()
    return vectors, even / even.sum(-1, keepdim=True)


WRONG = {
    "04.1": [
        without_exponential,
        logarithms,
        clipped,
        always_float32,
        lambda scores: scores,
    ],
    "04.2": [
        nothing_returned,
        with_dropout,
        mask_ignored,
        fixed_size,
    ],
    "04.3": [
        only_vectors,
        forgets_the_softmax,
        renormalised_never,
    ],
    "04.4": ["B", "C", "X", None],
}

RIGHT["04.2"] += [by_powers]
RIGHT["04.3"] += [as_a_list]
WRONG["04.1"] += [
    torchs_own,
    torchs_module,
    nn.Softmax(-1),
    partial(torch.softmax, dim=-1),
    Bound().softmax,
]
WRONG["04.2"] += [
    fused,
    fifty_below,
]
WRONG["04.3"] += [
    weights_of_another,
    an_even_share,
    beyond_float16,
]


def drops_small_weights(scores):
    weights = in_logarithms(scores)
    return weights.masked_fill(weights < 1e-6, 0)


def up_to_three_axes(scores):
    return in_logarithms(scores) if scores.dim() < 4 else scores


def short_rows_only(scores):
    return in_logarithms(scores) if scores.size(-1) < 10 else scores * 0 + 1 / scores.size(-1)


def squeezed(scores):
    return in_logarithms(scores.squeeze())


def few_keys_only(query, key, value, mask=None):
    key = key[..., :10, :]
    return other_names(query, key, value[..., :10, :], None if mask is None else mask[..., :10])


WRONG["04.1"] += [
    drops_small_weights,
    up_to_three_axes,
    short_rows_only,
    squeezed,
]
WRONG["04.2"] += [few_keys_only]


def a_hundred_below(query, key, value, mask=None):
    scores = query @ key.mT / query.size(-1) ** 0.5
    if mask is None:
        return scores.softmax(-1) @ value
    return (scores.masked_fill(~mask, -100).softmax(-1) * mask) @ value


WRONG["04.2"] += [a_hundred_below]
