"""Checks of scaled dot-product and multi-head attention."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter
from nmtcheck.measure.helpers import TOLERANCE, close, distance, of_the_part, tensor
from nmtcheck.registry import Finding, check
from nmtlib.model.attention import Mask

INVERTED = "The mask is inverted: in the adapter, True must mean *may attend*."


def random_input() -> tuple[Tensor, ...]:
    """query (2, 3, 4, 8), key and value (2, 3, 5, 8)."""
    return tuple(torch.randn(2, 3, n, 8) for n in (4, 5, 5))


def attend(
    adapter: Adapter, query: Tensor, key: Tensor, value: Tensor, mask: Mask = None, p: float = 0.0
) -> Tensor:
    """The result of attention with dropout p, found to be of the right shape and finite."""
    found = adapter.attention(query, key, value, mask, p)
    result = found[0] if isinstance(found, tuple | list) else found
    return tensor(result, "the result of attention", (*query.shape[:-1], value.size(-1)))


def weights(adapter: Adapter, query: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    """The weights (B, H, T, S), read from the result: the value of key s is the unit vector s."""
    one_hot = torch.eye(key.size(-2), key.size(-1), dtype=key.dtype).expand(key.shape)
    return attend(adapter, query, key, one_hot, mask)[..., : key.size(-2)]


@check("attention.rows_sum_to_one", "attention")
def rows_sum_to_one(adapter: Adapter, seed: int) -> str:
    """The weights of each query are not negative and sum to one."""
    query, key, _ = random_input()
    found = weights(adapter, query, key)
    sums = found.sum(-1)
    off = float((sums - 1).abs().max())
    if off > TOLERANCE or found.min() < 0:
        columns = float((found.sum(-2) - 1).abs().max())
        over_queries = "The softmax runs over the queries: it is the columns that sum to one."
        message = f"rows sum to {sums.min():.3f} to {sums.max():.3f}, expected 1"
        raise Finding(message, over_queries if columns < TOLERANCE else "")
    return f"rows sum to 1 within {off:.0e}"


@check("attention.scale", "attention")
def scale(adapter: Adapter, seed: int) -> str:
    """Scores are divided by the root of the head size d_k."""
    query, key, _ = (0.3 * x for x in random_input())
    found = weights(adapter, query, key).clamp(min=1e-12).log()  # (B, H, T, S)
    scores = query @ key.transpose(-2, -1)
    # Softmax ignores a shift, so only differences between keys can be compared.
    raw, softened = (scores - scores[..., :1]).flatten(), (found - found[..., :1]).flatten()
    divisor = float((raw @ raw) / (raw @ softened))
    if not abs(divisor - math.sqrt(8)) < 0.05:
        said = f"scores are divided by {divisor:.3f}, expected sqrt(8) = 2.828"
        raise Finding(said, divided_by(divisor, 8, 24))
    return f"scores are divided by {divisor:.3f}, the root of d_k = 8"


def divided_by(divisor: float, size: int, width: int) -> str:
    """What scores of heads of this size, in a model of this width, were divided by; '' for none."""
    known = {
        1.0: "The scores are not scaled.",
        size: "The scores are divided by d_k, not by its root.",
        math.sqrt(width): "The scores are divided by the root of d_model, not of d_k.",
        math.sqrt(size) ** -1: "The scores are multiplied by the root of d_k.",
    }
    return next((text for value, text in known.items() if abs(divisor / value - 1) < 0.02), "")


def find_leak(adapter: Adapter, dtype: torch.dtype) -> str:
    """Hide the last two keys, which match each query best; one line about the weight they keep."""
    key = torch.randn(2, 3, 5, 8)
    key[..., 3:, :] = 2.0
    query = 1 + 0.3 * torch.randn(2, 3, 4, 8)
    mask = torch.tensor([True, True, True, False, False]).expand(2, 1, 4, 5)
    found = weights(adapter, query.to(dtype), key.to(dtype), mask).float()
    leak, kept = float(found[..., 3:].abs().max()), float(found[..., :3].abs().max())
    if leak > 1e-6:
        high = "The fill value of masked scores is too high: use the lowest of their dtype."
        ignored = distance(found, weights(adapter, query.to(dtype), key.to(dtype)).float()) < 1e-3
        cause = INVERTED if kept < 1e-6 else "The mask is not applied." if ignored else high
        raise Finding(f"a masked key keeps the weight {leak:.3f}, expected 0", cause)
    return f"masked keys keep at most {leak:.0e}"


@check("attention.mask", "attention")
def mask_respected(adapter: Adapter, seed: int) -> str:
    """A masked key gets weight zero, however well it matches."""
    return find_leak(adapter, torch.float32)


@check("attention.mask_half", "attention")
def mask_half(adapter: Adapter, seed: int) -> str:
    """Masks work in half precision: no overflow, no NaN, no leak."""
    try:
        said = [find_leak(adapter, dtype) for dtype in (torch.float16, torch.bfloat16)]
    except Exception as error:  # where nobody runs in half precision it is no mistake
        found = error if isinstance(error, Finding) else Finding(f"in half precision: {error}")
        raise found if adapter.strict else NotImplementedError(str(found)) from None
    return f"in float16 and bfloat16 {said[-1]}"


@check("attention.masked_row", "attention")
def masked_row(adapter: Adapter, seed: int) -> str:
    """A query that may not attend to any key gets finite numbers, and so do all gradients."""
    query, key, value = random_input()
    mask = torch.ones(2, 1, 4, 5, dtype=torch.bool)
    mask[1, :, 2] = False
    try:
        result = attend(adapter, query.requires_grad_(), key, value, mask)
        result.sum().backward()
        tensor(query.grad, "the gradient of a query next to one that may not attend to any key")
    except Finding as found:
        raise of_the_part(adapter, found, "masks.padded_queries") from None
    return f"finite; the row without keys has at most {result[1, :, 2].abs().max():.2f}"


@check("attention.reference", "attention")
def reference(adapter: Adapter, seed: int) -> str:
    """Attention equals softmax(Q K^T / sqrt(d_k)) V."""
    query, key, value = random_input()
    mask = torch.rand(2, 1, 4, 5) < 0.6
    mask[..., 0] = True
    scores = (query @ key.transpose(-2, -1) / math.sqrt(8)).masked_fill(~mask, -1e9)
    found = attend(adapter, query, key, value, mask)
    off = close(found, scores.softmax(-1) @ value, "formula and attention")
    return f"equals the formula within {off:.0e}, with a random mask"


@check("attention.dropout", "attention")
def dropout_on_weights(adapter: Adapter, seed: int) -> str:
    """Dropout removes weights after the softmax and keeps their mean."""
    query, key = torch.randn(40, 4, 6, 8), torch.randn(40, 4, 6, 8)
    result = attend(adapter, query, key, torch.ones(40, 4, 6, 8), None, 0.5)  # (B, H, T, K)
    if result.std(-1).max() > TOLERANCE:
        message = "values of one query differ although all keys have the same value"
        raise Finding(message, "Dropout acts on the result, not on the weights.")
    spread, mean = float(result.std()), float(result.mean())
    if spread < 0.05:
        raise Finding(f"with dropout 0.5 all weights still sum to one: the spread is {spread:.3f}")
    if abs(mean - 1) > 0.1:
        message = f"with dropout 0.5 the weights sum to {mean:.2f} on average, expected 1"
        raise Finding(message, "The weights that dropout keeps must be divided by 1 - p.")
    return f"with dropout 0.5 the sums of weights spread by {spread:.2f} around {mean:.2f}"


def heads(adapter: Adapter) -> nn.Module:
    """A multi-head attention of 16 dimensions and 4 heads, with biases that are not zero."""
    module = adapter.multi_head(16, 4)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module.eval()


@torch.no_grad()
def run_heads(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Mask = None
) -> Tensor:
    """The result of multi-head attention, checked to have the shape of `query`."""
    result = module(query, key, value, mask)
    return tensor(result, "the result of multi-head attention", tuple(query.shape))


@check("multi_head.tokens_apart", "multi_head")
def tokens_apart(adapter: Adapter, seed: int) -> str:
    """Heads split the dimensions of a token; they never mix tokens."""
    module, x = heads(adapter), torch.randn(2, 6, 16)
    only_itself = torch.eye(6, dtype=torch.bool).expand(2, 1, 6, 6)
    changed = x.clone()
    changed[:, 3] = torch.randn(2, 16)
    before, after = (run_heads(module, y, y, y, only_itself) for y in (x, changed))
    others = [0, 1, 2, 4, 5]
    if distance(after[:, others], before[:, others]) > TOLERANCE:
        raise Finding("tokens attend only to themselves, yet an unchanged token changes")
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    plain, shuffled = run_heads(module, x, x, x), run_heads(module, x, x[:, order], x[:, order])
    off = close(shuffled, plain, "a different order of the keys changes the result")
    return f"tokens stay apart; reordered keys agree within {off:.0e}"


@check("multi_head.key_value", "multi_head")
def key_value(adapter: Adapter, seed: int) -> str:
    """Keys determine the weights, values the content."""
    module, query, key = heads(adapter), torch.randn(2, 4, 16), torch.randn(2, 5, 16)
    same = torch.randn(1, 1, 16).expand(2, 5, 16)
    seen = run_heads(module, query, key, same)
    message = "all values are the same vector, yet the results are not"
    close(seen, seen[:1, :1].expand_as(seen), message)
    looked = run_heads(module, query, same, torch.randn(2, 5, 16))
    close(looked, looked[:, :1].expand_as(looked), "equal keys do not give the mean value")
    return "equal values give one result; equal keys give the mean value"


@check("multi_head.loop", "multi_head", "projections")
def loop_over_heads(adapter: Adapter, seed: int) -> str:
    """Multi-head attention equals a loop over its heads."""
    module, query, memory = heads(adapter), torch.randn(2, 4, 16), torch.randn(2, 5, 16)
    linear = adapter.projections(module)

    def project(name: str, x: Tensor) -> Tensor:
        return nn.functional.linear(x, *linear[name])

    projected = [project("query", query), project("key", memory), project("value", memory)]
    result = run_heads(module, query, memory, memory)
    # Head h may use adjacent dimensions (the usual layout) or every fourth one.
    layouts = torch.arange(16).view(4, 4), torch.arange(16).view(4, 4).T
    off = []
    for layout in layouts:
        joined = torch.zeros(2, 4, 16)
        for own in layout:
            q, k, v = (x[..., own] for x in projected)
            joined[..., own] = (q @ k.transpose(1, 2) / 2).softmax(-1) @ v
        off.append(distance(project("output", joined), result))
    if min(off) > TOLERANCE:
        raise Finding(f"a loop over the heads gives a different result, off by {min(off):.2g}")
    return f"equals a loop over 4 heads within {min(off):.0e}"
