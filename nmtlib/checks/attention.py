"""Checks of scaled dot-product and multi-head attention."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nmtlib.checks.adapter import Adapter
from nmtlib.checks.helpers import TOLERANCE, close, distance, tensor
from nmtlib.checks.registry import Finding, check

SCALED = "04_scaled_dot_product_attention"
HEADS = "05_multi_head_attention"
MASKING = "06_masking"


def random_input(
    adapter: Adapter, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    """query (2, 3, 4, 8), key and value (2, 3, 5, 8)."""
    return tuple(torch.randn(2, 3, n, 8).to(dtype) for n in (4, 5, 5))


def attend(adapter: Adapter, query, key, value, mask=None, dropout=0.0) -> Tensor:
    """The result of attention, found to be of the right shape and finite."""
    found = adapter.attention(query, key, value, mask, dropout)
    result = found[0] if isinstance(found, tuple | list) else found
    return tensor(result, "the result of attention", (*query.shape[:-1], value.size(-1)))


def weights(adapter: Adapter, query: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    """The weights (B, H, T, S), read off the result: the value of key number s is the unit vector
    s.
    """
    one_hot = torch.eye(key.size(-2), key.size(-1), dtype=key.dtype).expand(key.shape)
    return attend(adapter, query, key, one_hot, mask)[..., : key.size(-2)]


@check(
    "attention.rows_sum_to_one",
    cause="The softmax runs over another axis than that of the keys, or is missing.",
    notebook=SCALED,
    needs=("attention",),
)
def rows_sum_to_one(adapter: Adapter, seed: int) -> str:
    """The weights of each query are not negative and sum to one."""
    query, key, _ = random_input(adapter)
    found = weights(adapter, query, key)
    off = float((found.sum(-1) - 1).abs().max())
    if off > TOLERANCE or found.min() < 0:
        columns = float((found.sum(-2) - 1).abs().max())
        over_queries = "The softmax runs over the queries: it is the columns that sum to one."
        raise Finding(
            f"rows sum to {found.sum(-1).min():.3f} to {found.sum(-1).max():.3f}, expected 1",
            over_queries if columns < TOLERANCE else "",
        )
    return f"rows sum to 1 within {off:.0e}"


@check(
    "attention.weights_returned",
    cause="The weights shown are taken before the softmax or before the mask, or "
    "with their axes exchanged.",
    notebook=SCALED,
    needs=("attention",),
)
def weights_returned(adapter: Adapter, seed: int) -> str:
    """The weights that are returned are those that the values are averaged with."""
    query, key, value = random_input(adapter)
    found = adapter.attention(query, key, value, None, 0.0)
    if not isinstance(found, tuple | list) or found[1] is None:
        raise NotImplementedError("no weights are returned")
    found = tensor(found[1], "the table of weights", (2, 3, 4, 5))
    off = close(found, weights(adapter, query, key), "the weights returned are not those used")
    return f"returned and used weights agree within {off:.0e}"


@check(
    "attention.scale",
    cause="The division by sqrt(K) is missing or uses another size.",
    notebook=SCALED,
    needs=("attention",),
)
def scale(adapter: Adapter, seed: int) -> str:
    """Scores are divided by the root of the head size K."""
    query, key, _ = (0.3 * x for x in random_input(adapter))
    found = weights(adapter, query, key).clamp(min=1e-12).log()  # (B, H, T, S)
    scores = query @ key.transpose(-2, -1)
    # Softmax forgets a shift, so only differences between keys can be compared.
    raw, softened = (scores - scores[..., :1]).flatten(), (found - found[..., :1]).flatten()
    divisor = float((raw @ raw) / (raw @ softened))
    if not abs(divisor - math.sqrt(8)) < 0.05:
        known = {
            1.0: "There is no division.",
            8.0: "The scores are divided by K, not by its root.",
            math.sqrt(24): "The scores are divided by the root of d_model = H * K, not of K.",
        }
        cause = next((text for value, text in known.items() if abs(divisor - value) < 0.05), "")
        raise Finding(f"scores are divided by {divisor:.3f}, expected sqrt(8) = 2.828", cause)
    return f"scores are divided by {divisor:.3f}, the root of K = 8"


def masked_input(
    adapter: Adapter, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    """query, key and a mask that hides the last two keys, which match each query best."""
    key = torch.randn(2, 3, 5, 8)
    key[..., 3:, :] = 2.0
    query = 1 + 0.3 * torch.randn(2, 3, 4, 8)
    mask = torch.tensor([True, True, True, False, False]).expand(2, 1, 4, 5)
    return query.to(dtype), key.to(dtype), mask


def find_leak(found: Tensor) -> str:
    """One line about weights of which the last two must be 0."""
    leak, kept = float(found[..., 3:].abs().max()), float(found[..., :3].abs().max())
    if leak > 1e-6:
        inverted = "The mask is inverted: True must mean *may attend* at the border of the adapter."
        small = "Masked scores are filled with a number that is not low enough; use the lowest of their type."
        raise Finding(
            f"a masked key keeps the weight {leak:.3f}, expected 0",
            inverted if kept < 1e-6 else small,
        )
    return f"masked keys keep at most {leak:.0e}"


@check(
    "attention.mask",
    cause="The mask is not applied before the softmax.",
    notebook=MASKING,
    needs=("attention",),
)
def mask_respected(adapter: Adapter, seed: int) -> str:
    """A masked key gets weight zero, however well it matches."""
    query, key, mask = masked_input(adapter)
    return find_leak(weights(adapter, query, key, mask))


@check(
    "attention.mask_half",
    cause="Masked scores are filled with a constant such as -1e9 or -1e12, which float16 "
    "cannot hold; use torch.finfo(scores.dtype).min.",
    notebook=MASKING,
    needs=("attention",),
)
def mask_half(adapter: Adapter, seed: int) -> str:
    """Masks work in half precision: no overflow, no NaN, no leak."""
    for dtype in (torch.float16, torch.bfloat16):
        query, key, mask = masked_input(adapter, dtype)
        said = find_leak(weights(adapter, query, key, mask).float())
    return f"in float16 and bfloat16 {said}"


@check(
    "attention.masked_row",
    cause="-inf in a whole row becomes -inf - (-inf) = NaN in the softmax; fill "
    "with the lowest finite number.",
    notebook=MASKING,
    needs=("attention",),
)
def masked_row(adapter: Adapter, seed: int) -> str:
    """A query that may attend to nothing gets numbers, and so do all gradients."""
    query, key, value = random_input(adapter)
    mask = torch.ones(2, 1, 4, 5, dtype=torch.bool)
    mask[1, :, 2] = False
    query.requires_grad_()
    result = attend(adapter, query, key, value, mask)
    result.sum().backward()
    tensor(query.grad, "the gradient of a query beside one that may attend to nothing")
    return f"finite; the row without any key has at most {result[1, :, 2].abs().max():.2f}"


@check(
    "attention.equivariance",
    cause="Axes are flattened in a wrong order, or keys and values are paired wrongly.",
    notebook=SCALED,
    needs=("attention",),
)
def equivariance(adapter: Adapter, seed: int) -> str:
    """Keys may stand in any order, and queries keep their places."""
    query, key, value = random_input(adapter)
    keys, queries = torch.randperm(5), torch.randperm(4)
    plain = attend(adapter, query, key, value)
    off = close(
        attend(adapter, query, key[..., keys, :], value[..., keys, :]),
        plain,
        "another order of the keys changes the result",
    )
    other = attend(adapter, query[..., queries, :], key, value)
    off = max(
        off,
        close(other, plain[..., queries, :], "the results do not follow the order of the queries"),
    )
    return f"reordered keys and queries agree within {off:.0e}"


@check(
    "attention.reference",
    cause="See what the other checks of attention say.",
    notebook=SCALED,
    needs=("attention",),
)
def reference(adapter: Adapter, seed: int) -> str:
    """Attention equals softmax(Q K^T / sqrt(K)) V."""
    query, key, value = random_input(adapter)
    mask = torch.rand(2, 1, 4, 5) < 0.6
    mask[..., 0] = True
    scores = (query @ key.transpose(-2, -1) / math.sqrt(8)).masked_fill(~mask, -1e9)
    off = close(
        attend(adapter, query, key, value, mask),
        scores.softmax(-1) @ value,
        "formula and attention",
    )
    return f"equals the formula within {off:.0e}, with a random mask"


@check(
    "attention.dropout",
    cause="Dropout acts on the scores before the softmax, where 0 is an average key, or not "
    "at all.",
    notebook=SCALED,
    needs=("attention",),
)
def dropout_on_weights(adapter: Adapter, seed: int) -> str:
    """Dropout removes weights after the softmax and keeps their mean."""
    query, key = torch.randn(40, 4, 6, 8), torch.randn(40, 4, 6, 8)
    result = attend(adapter, query, key, torch.ones(40, 4, 6, 8), None, 0.5)  # (B, H, T, K)
    if result.std(-1).max() > TOLERANCE:
        raise Finding(
            "values of one query differ although all keys hold the same value",
            "Dropout acts on the result, not on the weights.",
        )
    spread, mean = float(result.std()), float(result.mean())
    if spread < 0.05:
        raise Finding(
            f"weights still sum to one with dropout 0.5: their sums spread by {spread:.3f}"
        )
    if abs(mean - 1) > 0.1:
        raise Finding(
            f"with dropout 0.5 the weights sum to {mean:.2f} on average, expected 1",
            "What dropout keeps must be divided by 1 - p.",
        )
    return f"with dropout 0.5 the sums of weights spread by {spread:.2f} around {mean:.2f}"


def heads(adapter: Adapter) -> torch.nn.Module:
    """A multi-head attention of 16 dimensions and 4 heads, with biases that are not zero."""
    module = adapter.multi_head(16, 4)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module.eval()


def run_heads(
    module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Tensor:
    """What a multi-head attention makes of its inputs, of the shape of `query`; Finding where it is
    another.
    """
    with torch.no_grad():
        return tensor(
            module(query, key, value, mask),
            "the result of multi-head attention",
            tuple(query.shape),
        )


@check(
    "multi_head.tokens_apart",
    cause="(B, S, D) is reshaped to (B, H, S, K) directly; make it (B, S, H, K) first, "
    "then exchange two axes.",
    notebook=HEADS,
    needs=("multi_head",),
)
def tokens_apart(adapter: Adapter, seed: int) -> str:
    """Heads divide the dimensions of a token; they never mix tokens."""
    module, x = heads(adapter), torch.randn(2, 6, 16)
    only_itself = torch.eye(6, dtype=torch.bool).expand(2, 1, 6, 6)
    changed = x.clone()
    changed[:, 3] = torch.randn(2, 16)
    before, after = (run_heads(module, y, y, y, only_itself) for y in (x, changed))
    others = [0, 1, 2, 4, 5]
    if distance(after[:, others], before[:, others]) > TOLERANCE:
        raise Finding(
            "a token changes although it attends to itself alone and only another token was changed"
        )
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    plain, shuffled = run_heads(module, x, x, x), run_heads(module, x, x[:, order], x[:, order])
    off = close(shuffled, plain, "another order of the keys changes the result")
    return f"tokens stay apart; reordered keys agree within {off:.0e}"


@check(
    "multi_head.key_value",
    cause="Keys and values are exchanged: on the way in, or between the projections.",
    notebook=HEADS,
    needs=("multi_head",),
)
def key_value(adapter: Adapter, seed: int) -> str:
    """Keys decide where to look, values what is seen."""
    module, query, key = heads(adapter), torch.randn(2, 4, 16), torch.randn(2, 5, 16)
    same = torch.randn(1, 1, 16).expand(2, 5, 16)
    seen = run_heads(module, query, key, same)
    spread = distance(seen, seen[:1, :1].expand_as(seen))
    if spread > TOLERANCE:
        raise Finding(f"all values are the same vector, yet the results differ by {spread:.2g}")
    looked = run_heads(module, query, same, torch.randn(2, 5, 16))
    spread = distance(looked, looked[:, :1].expand_as(looked))
    if spread > TOLERANCE:
        raise Finding(
            f"all keys are alike, so each query should get the mean value; they differ by {spread:.2g}"
        )
    return "equal values give one result; equal keys give the mean value"


@check(
    "multi_head.loop",
    cause="Keys and values are exchanged, the scores are scaled by another size than that of "
    "one head, or the heads are put together in another order.",
    notebook=HEADS,
    needs=("multi_head", "projections"),
)
def loop_over_heads(adapter: Adapter, seed: int) -> str:
    """Multi-head attention equals a loop over its heads."""
    module, query, memory = heads(adapter), torch.randn(2, 4, 16), torch.randn(2, 5, 16)
    linear = {
        name: (w, torch.zeros(16) if b is None else b)
        for name, (w, b) in adapter.projections(module).items()
    }
    projected = {
        name: x @ linear[name][0].T + linear[name][1]
        for name, x in (("query", query), ("key", memory), ("value", memory))
    }
    result = run_heads(module, query, memory, memory)
    # Head h may own neighbouring dimensions (the usual layout) or every fourth one.
    layouts = torch.arange(16).view(4, 4), torch.arange(16).view(4, 4).T
    off = []
    for layout in layouts:
        joined = torch.zeros(2, 4, 16)
        for own in layout:
            q, k, v = (projected[name][..., own] for name in ("query", "key", "value"))
            joined[..., own] = (q @ k.transpose(1, 2) / 2).softmax(-1) @ v
        off.append(distance(joined @ linear["output"][0].T + linear["output"][1], result))
    if min(off) > TOLERANCE:
        raise Finding(f"the loop over the heads gives another result: it differs by {min(off):.2g}")
    return f"equals a loop over 4 heads within {min(off):.0e}"
