"""Answers to homework 05."""

import copy

import numpy as np
import torch
from torch import nn

from nmtlib.model import MultiHeadAttention


def by_unflatten(x, n_heads):
    if x.shape[-1] % n_heads != 0:
        raise ValueError
    return x.unflatten(2, (n_heads, x.shape[-1] // n_heads)).permute(0, 2, 1, 3)


def by_chunks(x, n_heads):
    if x.size(2) % n_heads:
        raise ValueError("not divisible")
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


def head_by_head(x, n_heads):
    size, rest = divmod(x.size(-1), n_heads)
    if rest:
        raise ValueError(rest)
    out = x.new_empty(x.size(0), n_heads, x.size(1), size)
    for h in range(n_heads):
        out[:, h] = x[:, :, h * size : (h + 1) * size]
    return out


def with_numpy(x, n_heads):
    b, s, d = x.shape
    if d % n_heads:
        raise ValueError(f"{d} % {n_heads}")
    return torch.from_numpy(np.swapaxes(x.numpy().reshape(b, s, n_heads, d // n_heads), 1, 2))


def with_view(x, n_heads):
    b, s, d = x.size()
    if d % n_heads != 0:
        raise ValueError("no")
    return x.contiguous().view(b, s, n_heads, d // n_heads).transpose(1, 2).contiguous()


def with_einsum(query, memory, weights, n_heads, mask=None):
    def cut(w):
        return w.reshape(w.size(0), n_heads, -1)

    q = torch.einsum("btd,dhk->bhtk", query, cut(weights["query"]))
    k = torch.einsum("bsd,dhk->bhsk", memory, cut(weights["key"]))
    v = torch.einsum("bsd,dhk->bhsk", memory, cut(weights["value"]))
    scores = torch.einsum("bhtk,bhsk->bhts", q, k) / q.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    out = weights["output"].reshape(n_heads, -1, query.size(-1))
    return torch.einsum("bhts,bhsk,hkd->btd", scores.softmax(-1), v, out)


def with_our_module(query, memory, weights, n_heads, mask=None):
    module = MultiHeadAttention(query.size(-1), n_heads).to(query.dtype)
    for name, weight in weights.items():
        getattr(module, name).load_state_dict(
            {"weight": weight.T, "bias": torch.zeros(len(weight))}
        )
    return module(query, memory, memory, mask)


def by_state_dict(module):
    d = module.embed_dim
    ours = MultiHeadAttention(d, module.num_heads).to(module.in_proj_weight.dtype)
    given = module.state_dict()
    zeros = torch.zeros(3 * d)
    bias = given.get("in_proj_bias", zeros)
    new = {
        "output.weight": given["out_proj.weight"],
        "output.bias": given.get("out_proj.bias", zeros[:d]),
    }
    for number, name in enumerate(("query", "key", "value")):
        new[f"{name}.weight"] = given["in_proj_weight"][number * d : (number + 1) * d]
        new[f"{name}.bias"] = bias[number * d : (number + 1) * d]
    ours.load_state_dict(new)
    return ours


def with_data(module):
    ours = MultiHeadAttention(module.embed_dim, module.num_heads)
    q, k, v = module.in_proj_weight.data.split(module.embed_dim)
    for name, weight in (("query", q), ("key", k), ("value", v)):
        getattr(ours, name).weight.data = weight.clone()
        getattr(ours, name).bias.data = torch.zeros(len(q), dtype=q.dtype)
    if module.in_proj_bias is not None:
        for number, name in enumerate(("query", "key", "value")):
            own = module.in_proj_bias.data.view(3, -1)[number]
            getattr(ours, name).bias.data = own.clone()
    ours.output.weight.data = module.out_proj.weight.data.clone()
    ours.output.bias.data = torch.zeros(len(q), dtype=q.dtype)
    if module.out_proj.bias is not None:
        ours.output.bias.data = module.out_proj.bias.data.clone()
    return ours


@torch.no_grad()
def with_deep_copies(module):
    theirs = copy.deepcopy(module)
    ours = MultiHeadAttention(theirs.embed_dim, theirs.num_heads)
    ours.output = torch.nn.Linear(theirs.embed_dim, theirs.embed_dim)
    ours.to(theirs.in_proj_weight.dtype)
    torch.nn.init.zeros_(ours.output.bias)
    for p, q in zip(ours.output.parameters(), theirs.out_proj.parameters(), strict=False):
        p.copy_(q)
    for layer, i in ((ours.query, 0), (ours.key, 1), (ours.value, 2)):
        layer.weight.copy_(theirs.in_proj_weight.unflatten(0, (3, -1))[i])
        layer.bias.zero_()
        if theirs.in_proj_bias is not None:
            layer.bias += theirs.in_proj_bias.unflatten(0, (3, -1))[i]
    return ours


def as_float64_first(module):
    ours = MultiHeadAttention(module.embed_dim, module.num_heads).double()
    d = module.embed_dim
    with torch.no_grad():
        for i, layer in enumerate([ours.query, ours.key, ours.value]):
            layer.weight[:] = module.in_proj_weight[i * d : i * d + d].double()
            layer.bias[:] = (
                0 if module.in_proj_bias is None else module.in_proj_bias[i * d : i * d + d]
            )
        ours.output.weight[:] = module.out_proj.weight
        ours.output.bias[:] = 0 if module.out_proj.bias is None else module.out_proj.bias
    return ours.to(module.in_proj_weight.dtype)


def with_one_projection(query, memory, weights, n_heads, mask=None):
    b, t, d = query.shape
    both = memory @ torch.cat([weights["key"], weights["value"]], 1)
    k, v = both.view(b, -1, 2, n_heads, d // n_heads).permute(2, 0, 3, 1, 4)
    q = (query @ weights["query"]).unflatten(-1, (n_heads, -1)).movedim(2, 1)
    scores = q @ k.mT / (d // n_heads) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return (scores.softmax(-1) @ v).movedim(1, 2).flatten(2) @ weights["output"]


def parts_of_one_tensor(module):
    ours = MultiHeadAttention(module.embed_dim, module.num_heads)
    weight = module.in_proj_weight.detach().clone()
    ours.to(weight.dtype).load_state_dict(by_state_dict(module).state_dict())
    for linear, part in zip((ours.query, ours.key, ours.value), weight.chunk(3), strict=True):
        linear.weight = nn.Parameter(part)
    return ours


RIGHT = {
    "05.1": [by_unflatten, by_chunks, head_by_head, with_numpy, with_view],
    "05.2": [with_our_module, with_einsum, with_one_projection],
    "05.3": [by_state_dict, with_data, with_deep_copies, as_float64_first, parts_of_one_tensor],
    "05.4": ["A", "a"],
}


def in_double(query, memory, weights, n_heads, mask=None):
    double = {name: weight.double() for name, weight in weights.items()}
    return with_einsum(query.double(), memory.double(), double, n_heads, mask).to(query.dtype)


RIGHT["05.2"] += [in_double]
