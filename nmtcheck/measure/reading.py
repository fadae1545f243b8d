"""Read the attentions of any model at their softmaxes, and repair one thing in them.

Which part an attention belongs to, and which of its rows to which sentence, is found by changing
the words of one side, or of one sentence: what moves belongs to them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcheck.adapter import Adapter, IdPair
from nmtcheck.measure.graph import Change, Graph, Softmax, record_graph
from nmtcheck.measure.helpers import another_word, batch, build, pairs, silence, source_frame, still

PARTS = {
    "encoder": "the encoder's self-attention",
    "decoder": "the decoder's self-attention",
    "cross": "cross-attention",
}
MOVED = 1e-6  # more than rounding


@dataclass(frozen=True)
class Attention:
    """One attention of a pass: B sentences, H heads, T queries, S keys, heads of the size d."""

    part: str  # a key of PARTS
    number: int  # among the softmaxes of a pass
    module: str  # that holds its linear maps
    product: int  # among the products of two tensors in a pass
    weights: Tensor  # (B, H, T, S)
    scores: Tensor  # (B, H, T, S), as the softmax reads them
    rows: Tensor  # (B, H): which of the B * H rows of the operation these are
    size: int  # d, or 0 where no product was seen
    factor: float  # of the scores, since queries and keys were made; NaN if unknown
    added: Tensor  # (B, H, T, S): what the scores are beyond the product, such as a mask

    @property
    def name(self) -> str:
        """For messages: the part, and the module in which it is computed."""
        return f"{PARTS[self.part]}" + (f" ({self.module!r})" if self.module else "")


@dataclass(frozen=True)
class Reading:
    """What could be read of a model's attentions, with the batch that it read."""

    model: nn.Module
    source: Tensor  # (B, S)
    target: Tensor  # (B, T)
    attentions: tuple[Attention, ...]
    graph: Graph
    seen: int  # attentions of the pass, read or not


def uneven_batch(adapter: Adapter, seed: int, padded: bool = True) -> tuple[Tensor, Tensor]:
    """Three sources of at most 7 ids and decoder inputs of 5: no two sizes are equal."""
    frame = sum(map(len, source_frame(adapter)))
    lengths = [(7 - frame, 4), (5 - frame, 3), (3 - frame, 1)]
    lengths = lengths if padded else lengths[:1] * 3
    examples: list[IdPair] = pairs(adapter, seed, lengths)
    return batch(adapter, examples)[:2]


def run(adapter: Adapter, model: nn.Module, *ids: Tensor, change: Change | None = None) -> Graph:
    """The graph of one pass without dropout; raises what `record` raises."""
    torch.manual_seed(0)
    with still():
        return record(adapter, model, *ids, change=change)


def record(adapter: Adapter, model: nn.Module, *ids: Tensor, change: Change | None = None) -> Graph:
    """The graph of one pass.

    Raises what the model raises, and NotImplementedError where it fails only while it is recorded.
    """
    try:
        with torch.no_grad(), record_graph(model, change) as graph:
            graph.result = adapter.logits(model, *ids)
    except Exception as error:
        with torch.no_grad():
            adapter.logits(model, *ids)
        reason = f"{type(error).__name__}: {error}"
        raise NotImplementedError(f"nmtcheck could not record the model: {reason}") from error
    return graph


def other_words(adapter: Adapter, ids: Tensor, row: int | None = None) -> Tensor:
    """The ids (B, L) with all words exchanged for others, of one sentence or of all."""
    changed = torch.where(ids < adapter.first_word, ids, another_word(adapter, ids))
    keep = torch.arange(len(ids)) != row if row is not None else torch.zeros(len(ids)) > 0
    return torch.where(keep[:, None], ids, changed)


def moved(a: Tensor | None, b: Tensor | None) -> Tensor:
    """Which rows (N,) of two tables (N, ...) differ; all where their shapes do."""
    if a is None or b is None or a.shape != b.shape:
        return torch.ones(1 if a is None else len(a), dtype=torch.bool)
    return (a - b).abs().flatten(1).amax(1) > MOVED


def part_of(plain: Softmax, source: Softmax, target: Softmax) -> str:
    """The part of an attention, told by what moves its queries and keys; '' if nothing tells."""
    key_source, key_target = (bool(moved(plain.key, x.key).any()) for x in (source, target))
    query_target = bool(moved(plain.query, target.query).any())
    if key_target:
        return "decoder"
    return ("cross" if query_target else "encoder") if key_source else ""


@torch.no_grad()
def read(adapter: Adapter, model: nn.Module, source: Tensor, target: Tensor) -> Reading:
    """The attentions of one pass of a model, in its present mode."""
    plain = run(adapter, model, source, target)
    swaps = [(other_words(adapter, source), target), (source, other_words(adapter, target))]
    for row in range(len(source)):
        swaps.append(tuple(other_words(adapter, ids, row) for ids in (source, target)))
    graphs = [run(adapter, model, *ids).attentions for ids in swaps]
    attentions = []
    for number, softmax in enumerate(plain.attentions):
        others = [graph[number] for graph in graphs if len(graph) == len(plain.attentions)]
        if len(others) == len(graphs) and softmax.weights is not None and softmax.query is not None:
            view = placed(number, softmax, others, len(source))
            if view:
                module = holder_of(model, plain, softmax)
                attentions.append(replace(view, module=module))
    seen = len(plain.attentions) + len(silent_attentions(model, plain))
    return Reading(model, source, target, tuple(attentions), plain, seen)


def holder_of(model: nn.Module, graph: Graph, softmax: Softmax) -> str:
    """The name of the module that holds the linear maps of an attention; '' where none is seen."""
    names = [graph.linears[maker].name for maker in softmax.makers if maker >= 0]
    parts = [name.split(".")[:-1] for name in names]
    shared = list[str]()
    for places in zip(*parts, strict=False):
        if len({*places}) > 1:
            break
        shared.append(places[0])
    modules = dict(model.named_modules())
    while shared and isinstance(modules.get(".".join(shared)), nn.ModuleList):
        shared.pop()
    return ".".join(shared)


def silent_attentions(model: nn.Module, graph: Graph) -> list[str]:
    """The modules called an attention that were read and that compute no softmax over scores."""
    owners = {node.owner for node in graph.nodes} - {""}
    computing = {holder_of(model, graph, softmax) for softmax in graph.attentions}

    def near(one: str, two: str) -> bool:
        """Whether one of two modules holds the other."""
        return f"{one}.".startswith(f"{two}.") or f"{two}.".startswith(f"{one}.")

    called = [name for name, m in model.named_modules() if "attention" in type(m).__name__.lower()]
    read = [name for name in called if any(owner.startswith(f"{name}.") for owner in owners)]
    return [name for name in read if not any(near(name, holder) for holder in computing if holder)]


def placed(number: int, plain: Softmax, others: list[Softmax], size: int) -> Attention | None:
    """An attention with its rows sorted by sentence; None where they belong to no sentence."""
    part = part_of(plain, *others[:2])
    weights, product = plain.weights, plain.query
    if not part or weights is None or product is None or len(weights) % size:
        return None
    own = torch.stack([moved(plain.query, x.query) | moved(plain.key, x.key) for x in others[2:]])
    if own.size(1) != len(weights) or not bool((own.sum(1) == len(weights) // size).all()):
        own = torch.eye(size, dtype=torch.bool).repeat_interleave(len(weights) // size, 1)
    rows = torch.stack([row.nonzero()[:, 0] for row in own])  # (B, H)
    depth = product.size(-1)
    same = plain.scores.numel() == weights.numel()
    scores = plain.scores.reshape(weights.shape) if same else torch.full_like(weights, torch.nan)
    tables = weights[rows], scores[rows]
    added = scores - plain.query @ plain.key * plain.after
    named, factor = (part, number, "", plain.product), plain.before * plain.after
    return Attention(*named, *tables, rows, depth, factor, added[rows])


@functools.lru_cache(maxsize=8)
def reading(adapter: Adapter, seed: int, training: bool = False, noise: float = 1.0) -> Reading:
    """The reading of a new model on an uneven batch, without dropout.

    Raises NotImplementedError where no attention could be read.
    """
    model = silence(build(adapter, seed, noise=noise)).train(training)
    view = read(adapter, model, *uneven_batch(adapter, seed))
    if not view.attentions:
        raise NotImplementedError("no attention could be read: no softmax over scores was seen")
    return view


def visible(reading: Reading, adapter: Adapter, attention: Attention) -> tuple[Tensor, Tensor]:
    """Which queries (B, T) and keys (B, S) of an attention are no PAD; a model may add some."""
    sides = {"encoder": (0, 0), "decoder": (1, 1), "cross": (1, 0)}[attention.part]
    ids = [(reading.source, reading.target)[side] != adapter.pad for side in sides]
    sizes = attention.weights.shape[2:]
    queries, keys = (F.pad(x, (0, n - x.size(1))) for x, n in zip(ids, sizes, strict=True))
    return queries, keys


# Repairs: each leaves a sound model as it is

# kind, tensors -> tensors, as a `Change` of one attention of a pass on source and target
Alter = Callable[[str, tuple], tuple]
Alters = Callable[[Adapter, Reading, Attention, Tensor, Tensor], Alter]


def hide(parts: Sequence[str], *, future: bool) -> Alters:
    """Mask the scores of the keys that some parts must not read."""

    def alter(adapter: Adapter, view: Reading, attention: Attention, *ids: Tensor) -> Alter:
        seen = ids[attention.part == "decoder"] != adapter.pad

        def change(kind: str, tensors: tuple) -> tuple:
            if kind != "softmax":
                return tensors
            (scores,) = tensors
            flat = scores.reshape(-1, *scores.shape[-2:])  # (N, T, S)
            hidden = torch.ones(flat.shape[1:], dtype=torch.bool).triu(1)[None]
            if not future:
                keys = F.pad(~seen, (0, flat.size(2) - seen.size(1)), value=True)
                hidden = keys[:, None].repeat_interleave(len(flat) // len(seen), 0)
                if attention.rows[0].diff().gt(1).any():  # heads first, then sentences
                    hidden = keys[:, None].repeat(len(flat) // len(seen), 1, 1)
            low = torch.finfo(scores.dtype).min
            return (flat.masked_fill(hidden, low).view(scores.shape),)

        return change if attention.part in parts else lambda kind, tensors: tensors

    return alter


def over_keys(adapter: Adapter, view: Reading, attention: Attention, *ids: Tensor) -> Alter:
    """Let the softmax run over the keys."""
    scores: list[Tensor] = []

    def change(kind: str, tensors: tuple) -> tuple:
        scores[:] = tensors if kind == "softmax" else scores
        # A composite operation would reach the graph whole.
        return (torch._softmax(scores[0], -1, False),) if kind == "weights" else tensors

    return change


def rescale(adapter: Adapter, view: Reading, attention: Attention, *ids: Tensor) -> Alter:
    """Let the scores be divided by the root of the head size."""
    missing = 1 / (attention.factor * math.sqrt(attention.size)) if attention.size else math.nan

    def change(kind: str, tensors: tuple) -> tuple:
        if kind == "product" and math.isfinite(missing):
            return tensors[0] * missing, tensors[1]
        return tensors

    return change


def by_a_view(view: Reading, attention: Attention) -> tuple[bool, bool]:
    """Whether heads are split, and joined, without an exchange of the axes of heads and tokens."""

    def same(x: Tensor | None, y: Tensor) -> bool:
        """Whether the numbers have one order, but for a factor."""
        if x is None or x.numel() != y.numel() or len(attention.rows[0]) == 1:
            return False
        a, b = (z.flatten() / z.norm() for z in (x, y))
        return float((a - b).abs().max()) < MOVED

    softmax, linears = view.graph.attentions[attention.number], view.graph.linears
    maker, reader = softmax.makers[0], softmax.joined
    split = maker >= 0 and same(softmax.query, linears[maker].output)
    if softmax.weights is None or softmax.value is None or reader >= len(linears):
        return split, False
    return split, same(softmax.weights @ softmax.value, linears[reader].read)


def join(adapter: Adapter, view: Reading, attention: Attention, *ids: Tensor) -> Alter:
    """Exchange the axes of heads and tokens where heads are split, or joined, by a mere view."""
    split, merge = by_a_view(view, attention)

    def swap(x: Tensor, back: bool) -> Tensor:
        rows = x.reshape(len(ids[0]), -1, *x.shape[1:])  # (B, H, L, d)
        sizes = rows.transpose(1, 2).shape
        right = rows.transpose(1, 2) if back else rows.reshape(sizes).transpose(1, 2)
        return right.reshape(x.shape)

    def change(kind: str, tensors: tuple) -> tuple:
        if kind == "product" and split:
            return swap(tensors[0], False), swap(tensors[1].mT, False).mT
        if kind == "value" and split:
            return tensors[0], swap(tensors[1], False)
        return (swap(tensors[0], True),) if kind == "context" and merge else tensors

    return change


def repair_passes(adapter: Adapter, view: Reading, alters: Alters) -> Adapter:
    """The adapter of a model in which every pass is repaired."""

    def logits(model: nn.Module, *ids: Tensor) -> Tensor:
        parts = {a.number: alters(adapter, view, a, *ids) for a in view.attentions}
        products = {a.product: a.number for a in view.attentions}

        def change(kind: str, number: int, tensors: tuple) -> tuple:
            number = products.get(number, -1) if kind == "product" else number
            return parts[number](kind, tensors) if number in parts else tensors

        with torch.no_grad(), record_graph(model, change):
            return adapter.logits(model, *ids)

    return replace(adapter, logits=logits)


def make_repair(alters: Alters, seed: int, training: bool = False) -> Callable[[Adapter], Adapter]:
    """The repair of an adapter's every pass."""
    return lambda adapter: repair_passes(adapter, reading(adapter, seed, training), alters)
