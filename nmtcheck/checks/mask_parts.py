"""Checks of the functions that make masks."""

from __future__ import annotations

import torch
from torch import Tensor

from nmtcheck.adapter import Adapter
from nmtcheck.measure.helpers import padded_batch
from nmtcheck.registry import Finding, check

INVERTED = "The mask is inverted: in the adapter, True must mean *may attend*."


def bool_mask(mask: object, what: str, shape: tuple[int, ...]) -> Tensor:
    """The mask broadcast to `shape`, where it is a bool tensor that can be."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        cause = "Convert it in the adapter: True = may attend."
        raise Finding(f"{what} is {kind}, expected a bool tensor", cause)
    try:
        return mask.broadcast_to(shape)
    except RuntimeError:
        given = tuple(mask.shape)
        raise Finding(
            f"{what} has the shape {given}, which does not broadcast to {shape}"
        ) from None


def same_mask(found: Tensor, expected: Tensor, what: str, causes: dict[str, Tensor]) -> None:
    """A Finding where two bool masks differ, with the cause whose mask it equals."""
    if not torch.equal(found, expected):
        cause = next((text for text, mask in causes.items() if torch.equal(found, mask)), "")
        wrong = int((found != expected).sum())
        raise Finding(f"{what}: {wrong} of {found.numel()} positions are wrong", cause)


@check("masks.padding", "padding_mask")
def padding(adapter: Adapter, seed: int) -> str:
    """The padding mask hides PAD keys from every query, and nothing else."""
    source, _, _ = padded_batch(adapter, seed)
    rows, length = source.shape
    found = bool_mask(adapter.padding_mask(source), "the padding mask", (rows, 1, length, length))
    keys = (source != adapter.pad)[:, None, None].expand(rows, 1, length, length)
    queries_too = "Padded queries are masked as well, so that their rows are empty."
    causes = {INVERTED: ~keys, queries_too: keys & keys.transpose(2, 3)}
    same_mask(found, keys, "padding mask", causes)
    hidden = int((source == adapter.pad).sum())
    return f"hides {hidden} PAD of {source.numel()} positions, from every query"


@check("masks.causal", "causal_mask")
def causal(adapter: Adapter, seed: int) -> str:
    """The causal mask shows a position itself and everything before it."""
    for length in (1, 2, 6):
        mask, shape = adapter.causal_mask(length), (1, 1, length, length)
        found = bool_mask(mask, "the causal mask", shape)[0, 0]
        every = torch.ones(length, length, dtype=torch.bool)
        causes = {
            "Each position sees the next token as well: the diagonal is off by one.": every.tril(1),
            "No position sees itself: the diagonal is off by one.": every.tril(-1),
            INVERTED: ~every.tril(),
            "The triangle is upside down: positions see the future, not the past.": every.triu(),
        }
        same_mask(found, every.tril(), f"causal mask of {length} tokens", causes)
    return "a triangle with its diagonal, for 1, 2 and 6 tokens"
