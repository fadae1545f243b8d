"""Read a loss from its gradient at the logits, whatever computes it.

For every cross-entropy d loss / d logits = w (p - q): w says which positions count and how much,
q which label was meant and how much smoothing.  Both follow from p and the gradient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nmtcheck.connect.standins import Batch

EXACT = 0.02  # of the gradient: what does not fit better is no cross-entropy


@dataclass(frozen=True)
class Rows:
    """The N positions of a pass that count, in the order of the logits."""

    place: Tensor  # (N,): the number of the row among those of the logits
    shape: tuple[int, ...]  # of the logits, without the vocabulary
    label: Tensor  # (N,)
    weight: Tensor  # (N,): w
    share: Tensor  # (N,): what the label gets of q
    pad_share: Tensor  # (N,): what PAD gets of q where it is not the label
    off: float  # the part of the gradient that w (p - q) does not explain


def read_rows(table: Tensor, gradient: Tensor, pad: int) -> Rows:
    """What counts of logits or log-probabilities (..., V), told by their gradient (..., V).

    Where `pad` is negative, the word whose share fits the others' least is taken for PAD.
    """
    x, g = (t.detach().double().reshape(-1, t.size(-1)) for t in (table, gradient))
    p = x.softmax(-1)
    g = g - p * g.sum(-1, keepdim=True)  # that of the logits, if these are log-probabilities
    size = g.abs().amax(-1)
    place = (size > 1e-6 * size.max()).nonzero()[:, 0]
    p, g = p[place], g[place]
    label = g.argmin(-1)
    rest = torch.ones_like(p, dtype=torch.bool).scatter(1, label[:, None], False)
    if pad < 0:
        _, off = line(p, g, rest)
        pad = int((off / g.abs().amax(-1, keepdim=True)).sum(0).argmax()) if len(off) else 0
    rest[:, pad] = False
    weight, off = line(p, g, rest)
    off = off.amax(-1) / g.abs().amax(-1)
    q = p - g / weight[:, None]
    share = q.gather(1, label[:, None])[:, 0]
    pad_share = torch.where(label == pad, 0.0, q[:, pad])
    worst = float(off.max()) if len(off) else 1.0
    return Rows(place, tuple(table.shape[:-1]), label, weight, share, pad_share, worst)


def line(p: Tensor, g: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """The weight w (N,) of each position, and how far the words (N, V) are off.

    All words of the `rest` have the same share u of q, so that g = w p - w u: a straight line.
    """
    count = rest.sum(-1)
    mean_p, mean_g = ((t * rest).sum(-1) / count for t in (p, g))
    dp, dg = (p - mean_p[:, None]) * rest, (g - mean_g[:, None]) * rest
    weight = (dp * dg).sum(-1) / (dp * dp).sum(-1)
    return weight, (dg - weight[:, None] * dp).abs()


@dataclass(frozen=True)
class Meant:
    """What a pass takes for its labels: its name, and (sentence, position) -> label."""

    kind: str
    places: dict[tuple[int, int], int]
    agree: int = 0  # labels that stand where the kind says


def meant(rows: Rows, batch: Batch) -> Meant:
    """Which labels of a batch are learned: 'right', 'input', 'next' (one too far) or 'source'.

    The rows may be sentences or time steps first, in one axis or two.
    """
    sentences, whole = len(batch.source), batch.target
    best, most = Meant("", {}), -1
    total = math.prod(rows.shape)
    if total % sentences:
        return best
    length = total // sentences
    orders = [lambda n: divmod(n, length), lambda n: divmod(n, sentences)[::-1]]
    if len(rows.shape) == 2 and rows.shape[0] != rows.shape[1]:
        orders = orders[:1] if rows.shape[0] == sentences else orders[1:]
    for order in orders:
        places = [order(n) for n in rows.place.tolist()]
        known = dict(zip(places, rows.label.tolist(), strict=True))
        for kind, table, shift in (
            ("right", whole, 1),
            ("input", whole, 0),
            ("next", whole, 2),
            ("source", batch.source, 0),
        ):
            agree = sum(
                t + shift < table.size(1) and int(table[b, t + shift]) == label
                for (b, t), label in known.items()
            )
            if agree > most:
                best, most = Meant(kind, known, agree), agree
    return best


class Learned(NamedTuple):
    """The pairs of a pass: what was read of the source, what was read and learned of the target."""

    source: Tensor | None  # (B, S)
    read: Tensor  # (B, T)
    labels: dict[tuple[int, int], int]  # (sentence, position) -> label
    kind: str  # of the labels: see `meant`


def counts(ids: Tensor) -> bool:
    """Whether a table holds numbers of positions: each row goes on by one, or stands still."""
    steps = ids.diff(dim=-1)
    return ids.size(-1) > 1 and bool(((steps == 1) | (steps == 0)).all())


def learned(rows: Rows | None, reads: list[Tensor]) -> Learned | None:
    """The pairs of a pass, sentences first; None where labels or tables could not be read."""
    if rows is None or not len(rows.place):
        return None
    total = math.prod(rows.shape)
    tables = [x for x in reads if x.dim() == 2 and not counts(x) and not counts(x.t())]
    found = list[tuple[int, int, Tensor, Any]]()
    for number, ids in enumerate(tables):
        for table in (ids, ids.t()):
            if total % len(table) == 0 and total // len(table) in (
                table.size(1),
                table.size(1) - 1,
            ):
                told = meant(rows, Batch(table, table))
                found.append((told.agree / max(1, len(told.places)), number, table, told))
    if not found:
        return None
    _, number, read, told = max(found, key=lambda each: each[:2])
    size = len(read)
    others = [x if len(x) == size else x.t() for n, x in enumerate(tables) if n != number]
    others = [x for x in others if len(x) == size]
    kind = "input" if told.kind == "source" else told.kind
    return Learned(others[0] if others else None, read, told.places, kind)
