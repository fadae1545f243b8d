"""Checks of the order of words in a whole model."""

from __future__ import annotations

import torch
from torch import Tensor

from nmtcheck.adapter import Adapter
from nmtcheck.measure.helpers import build, distance, logits, source_rows
from nmtcheck.registry import Finding, check


def order_matters(adapter: Adapter, seed: int, side: str) -> str:
    """Ask a second model before the first is blamed: attention to one word alone hides an order."""
    try:
        return order_seen(adapter, seed, side)
    except Finding:
        return order_seen(adapter, seed + 1, side, noise=0.0)


def order_seen(adapter: Adapter, seed: int, side: str, *, noise: float = 1.0) -> str:
    """Exchange two words of the source, or two before the last one of the target; replace one."""
    # With two layers even a decoder without positions knows some order, from the causal mask.
    model = build(adapter, seed, noise=noise, n_layers=1)
    words = list(range(adapter.first_word, adapter.first_word + 5))
    # Words of the target change their own logits too: only the last ones count.
    places = slice(None) if side == "source" else slice(-1, None)

    def said(changed: list[int]) -> Tensor:
        source, target = (changed, words) if side == "source" else (words, changed)
        ids = source_rows(adapter, [source]), torch.tensor([[adapter.bos, *target]])
        return logits(adapter, model, *ids)[:, places]

    try:  # what small weights move by 1e-7 is lost in the rounding of float32
        model.double()
        said(words)
        least, share = 1e-8, 1e-6
    except Exception:  # a tensor that does not follow the model: see model.double
        model.float()
        least, share = 1e-4, 1e-3
    exchanged = distance(said([words[2], words[1], words[0], *words[3:]]), said(words))
    replaced = distance(said([words[-1] + 1, *words[1:]]), said(words))
    if replaced == 0 and least < 1e-4:  # in double precision nothing is lost
        never = f"a different first word of the {side} changes no logit"
        raise Finding(never, possible="It is never read.")
    if replaced < least:
        raise NotImplementedError(f"another word of the {side} moves the logits by {replaced:.0e}")
    if exchanged <= share * replaced:
        raise Finding(f"two words of the {side} are exchanged, and no logit changes")
    moved = f"exchanging two words of the {side} moves the logits by {exchanged:.2g}"
    return f"{moved}, a different word by {replaced:.2g}"


@check("positions.source_order", "make_model")
def source_order(adapter: Adapter, seed: int) -> str:
    """The order of the source words matters."""
    return order_matters(adapter, seed, "source")


@check("positions.target_order", "make_model", "resizable")
def target_order(adapter: Adapter, seed: int) -> str:
    """The order of the generated words matters."""
    return order_matters(adapter, seed, "target")
