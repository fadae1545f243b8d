"""Read a loss from its gradient at the logits, whatever computes it.

For every cross-entropy d loss / d logits = w (p - q): w says which positions count and how much,
q which label was meant and how much smoothing.  Both follow from p and the gradient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

EXACT = 0.02  # of the gradient: what does not fit better is no cross-entropy


@dataclass(frozen=True)
class Rows:
    """The N positions of a pass that count, in the order of the logits."""

    place: Tensor  # (N,): the number of the row among those of the logits
    shape: tuple[int, ...]  # of the logits, without the vocabulary
    label: Tensor  # (N,)
    weight: Tensor  # (N,): w
    share: Tensor  # (N,): what the label gets of q
    off: float  # the part of the gradient that w (p - q) does not explain


def read_rows(table: Tensor, gradient: Tensor) -> Rows:
    """What counts of logits or log-probabilities (..., V), told by their gradient (..., V).

    The word whose share fits the others' least is PAD, which smoothing may leave out.
    """
    x, g = (t.detach().double().reshape(-1, t.size(-1)) for t in (table, gradient))
    p = x.softmax(-1)
    g = g - p * g.sum(-1, keepdim=True)  # that of the logits, if these are log-probabilities
    size = g.abs().amax(-1)
    place = (size > 1e-6 * size.max()).nonzero()[:, 0]
    p, g, size = p[place], g[place], size[place, None]
    label = g.argmin(-1)
    rest = torch.ones_like(p, dtype=torch.bool).scatter(1, label[:, None], False)
    rest[:, (line(p, g, rest)[1] / size).sum(0).argmax()] = False
    weight, off = line(p, g, rest)
    share = (p - g / weight[:, None]).gather(1, label[:, None])[:, 0]
    worst = float((off / size).max()) if len(off) else 1.0
    return Rows(place, tuple(table.shape[:-1]), label, weight, share, worst)


def line(p: Tensor, g: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """The weight w (N,) of each position, and how far the words (N, V) are off.

    All words of the `rest` have the same share u of q, so that g = w p - w u: a straight line.
    """
    count = rest.sum(-1)
    mean_p, mean_g = ((t * rest).sum(-1) / count for t in (p, g))
    dp, dg = (p - mean_p[:, None]) * rest, (g - mean_g[:, None]) * rest
    weight = (dp * dg).sum(-1) / (dp * dp).sum(-1)
    return weight, (dg - weight[:, None] * dp).abs()


Labels = dict[tuple[int, int], int]  # (sentence, position) -> label
# The labels are the next words, the words that are read, or those after the next.
SHIFTS = {"right": 1, "input": 0, "next": 2}


def match_labels(rows: Rows, read: Tensor) -> tuple[float, str, Labels]:
    """The labels of targets (B, T), what kind they are (see SHIFTS), and the share that is.

    The rows may be sentences or time steps first, in one axis or two.
    """
    sentences, best = len(read), (-1.0, "", Labels())
    length = math.prod(rows.shape) // sentences
    orders = [lambda n: divmod(n, length), lambda n: divmod(n, sentences)[::-1]]
    if len(rows.shape) == 2 and rows.shape[0] != rows.shape[1]:
        orders = orders[:1] if rows.shape[0] == sentences else orders[1:]
    for order in orders:
        known = dict(zip(map(order, rows.place.tolist()), rows.label.tolist(), strict=True))
        for kind, shift in SHIFTS.items():
            agree = sum(
                t + shift < read.size(1) and int(read[b, t + shift]) == label
                for (b, t), label in known.items()
            )
            best = max(best, (agree / len(known), kind, known), key=lambda each: each[0])
    return best


class Learned(NamedTuple):
    """The pairs of a pass: what was read of the source, what was read and learned of the target."""

    source: Tensor | None  # (B, S)
    read: Tensor  # (B, T)
    labels: Labels
    kind: str  # of the labels: see `match_labels`


def is_counter(ids: Tensor) -> bool:
    """Whether a table holds numbers of positions: each row goes on by one, or stands still."""
    steps = ids.diff(dim=-1)
    return ids.size(-1) > 1 and bool(((steps == 1) | (steps == 0)).all())


def read_pairs(rows: Rows | None, reads: list[Tensor]) -> Learned | None:
    """The pairs of a pass, sentences first; None where labels or tables could not be read."""
    if rows is None or not len(rows.place):
        return None
    total = math.prod(rows.shape)
    tables = [x for x in reads if x.dim() == 2 and not is_counter(x) and not is_counter(x.t())]
    found = list[tuple[float, int, bool, Tensor, str, Labels]]()
    for number, ids in enumerate(tables):
        for turned, table in ((False, ids), (True, ids.t())):
            length, rest = divmod(total, len(table))
            if not rest and length in (table.size(1), table.size(1) - 1):
                share, kind, labels = match_labels(rows, table)
                found.append((share, number, turned, table, kind, labels))
    if not found:
        return None
    _, number, turned, read, kind, labels = max(found, key=lambda each: each[:2])
    # Source and target have time in the same axis, also where both axes would do.
    others = [x.t() if turned else x for n, x in enumerate(tables) if n != number]
    others = [x if len(x) == len(read) else x.t() for x in others]
    others = [x for x in others if len(x) == len(read)]
    return Learned(others[0] if others else None, read, labels, kind)
