"""Read a loss from its gradient at the logits, whatever computes it.

For every cross-entropy d loss / d logits = w (p - q): w says which positions count and how much,
q which label was meant and how much smoothing.  Both follow from p and the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

from nmtcheck.connect.standins import Batch
from nmtcheck.measure.helpers import still

KEPT = 2_000  # tables at most
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


class Logits(TorchFunctionMode):
    """Keeps every table (..., V) that a loss may be computed of, with its gradient."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        self.chains = list[list[Tensor]]()  # each begins with a table made of no other one
        self.number = dict[int, int]()  # of the chain of a table, by its id

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        # Nothing else is asked of other tensors: it might disturb views of parameters.
        if not (isinstance(output, Tensor) and output.dim() > 1 and output.size(-1) == self.width):
            return output
        if torch.is_grad_enabled() and output.requires_grad and not output.is_leaf:
            before = [self.number[id(x)] for x in args if id(x) in self.number]
            if not before:
                self.chains.append([])
            number = before[0] if before else len(self.chains) - 1
            if id(output) not in self.number and len(self.number) < KEPT:
                output.retain_grad()
                self.chains[number].append(output)
                self.number[id(output)] = number
        return output


@contextmanager
def watch_logits(width: int) -> Iterator[Logits]:
    """See the logits of every pass, without dropout, while the block runs."""
    with still(), Logits(width) as seen:
        yield seen


def losses(seen: Logits, pad: int, first: int = 0) -> list[Rows]:
    """What counts in each pass that a backward pass followed, from the chain `first` on."""
    read = list[Rows]()
    for chain in seen.chains[first:]:
        tables = [t for t in chain if t.grad is not None and t.grad.any()]
        rows = [read_rows(t, t.grad, pad) for t in tables]
        if rows:
            read.append(min(rows, key=lambda each: (each.off > EXACT, -len(each.shape))))
    return read


@dataclass(frozen=True)
class Meant:
    """What a pass takes for its labels: its name, and (sentence, position) -> label."""

    kind: str
    places: dict[tuple[int, int], int]


def meant(rows: Rows, batch: Batch) -> Meant:
    """Which labels of a batch are learned: 'right', 'input', 'next' (one too far) or 'source'.

    The rows may be sentences or time steps first, in one axis or two.
    """
    sentences, whole = len(batch.source), batch.target
    best, most = Meant("", {}), -1
    total = 1
    for size in rows.shape:
        total *= size
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
                best, most = Meant(kind, known), agree
    return best


@dataclass
class Update:
    """The passes between two steps of the optimizer, as far as a backward pass followed them."""

    passes: list[Rows]
    dtypes: set[torch.dtype]  # of the weights at the step


@dataclass
class Seen:
    """What was seen of a run: its updates, and the passes that no step used."""

    updates: list[Update]
    left: list[Rows]


@contextmanager
def watch_updates(model: nn.Module, width: int, pad: int) -> Iterator[Seen]:
    """See what each update of a model learns while the block runs; its logits are `width` wide."""
    own, seen, chain = {id(p): p for p in model.parameters()}, Seen([], []), 0
    with watch_logits(width) as logits:

        def stepped(optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
            nonlocal chain
            if any(id(p) in own for group in optimizer.param_groups for p in group["params"]):
                dtypes = {p.dtype for p in own.values()}
                seen.updates.append(Update(losses(logits, pad, chain), dtypes))
                chain = len(logits.chains)

        handle = register_optimizer_step_pre_hook(stepped)
        try:
            yield seen
        finally:
            handle.remove()
        seen.left = losses(logits, pad, chain)
