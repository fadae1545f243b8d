"""Laws of the graph of a pass: what runs how often, and what is added to what."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcheck.adapter import Adapter, Sizes
from nmtcheck.measure.graph import Graph, Node
from nmtcheck.measure.helpers import build, listed, silence, words_of
from nmtcheck.measure.paths import (
    NORMS,
    Norm,
    comes_from,
    find_added,
    find_norms,
    find_residuals,
    first_output,
    is_sum,
    layer_of,
    undropped,
)
from nmtcheck.measure.reading import reading, run, uneven_batch
from nmtcheck.registry import Finding, check


def passes(maps: Counter[str], name: str) -> int:
    """How often the layer runs that holds a module, told by the linear maps beside it."""
    while name:
        name = name.rpartition(".")[0]
        counts = [count for map, count in maps.items() if map.startswith(f"{name}.")]
        if name and counts:
            return min(counts)
    return 1


@check("layers.own_norms", "make_model")
def own_norms(adapter: Adapter, seed: int) -> str:
    """Every sub-layer has a norm and an attention of its own."""
    model = silence(build(adapter, seed))
    graph = run(adapter, model, *uneven_batch(adapter, seed))
    calls = Counter(norm.module for norm in find_norms(graph, model) if norm.module)
    maps = Counter(linear.name for linear in graph.linears)
    shared = [name for name, count in calls.items() if count > passes(maps, name)]
    if shared:
        most = max(shared, key=lambda name: calls[name])
        times = f"{calls[most]} times in {passes(maps, most)} pass of its layer"
        raise Finding(f"{listed(shared)} is called up to {times}")
    parts: dict[str, set[str]] = {}
    view = reading(adapter, seed)
    for each in view.attentions if calls else ():
        maker = view.graph.attentions[each.number].makers[0]
        if maker >= 0:
            parts.setdefault(view.graph.linears[maker].name, set()).add(each.part)
    double = [name for name, kinds in parts.items() if len(kinds) > 1]
    if double and len(parts) > 1:
        kinds = " and ".join(sorted(parts[double[0]]))
        raise Finding(f"{listed(double)} makes the queries of {kinds} attention")
    return f"{len(calls)} norms, none called twice in one pass of its layer"


def standardised(x: Tensor, axes: tuple[int, ...], power: float = 0.5) -> Tensor:
    """Values (..., D) less their mean over some axes, divided by a power of their variance."""
    return (x - x.mean(axes, keepdim=True)) / x.var(axes, keepdim=True, correction=0) ** power


ROW = (-1,)
NORMED = [  # what a norm makes of a row, before its gain and its bias
    lambda x: standardised(x, ROW),
    lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True),
    lambda x: x / x.pow(2).mean(-1, keepdim=True).sqrt(),
    lambda x: x / x.norm(dim=-1, keepdim=True),
]
NORMED_WRONGLY = {
    "It divides by the variance, not by its root.": lambda x: standardised(x, ROW, 1.0),
    "It divides by the mean square, not by its root.": lambda x: (
        x / x.pow(2).mean(-1, keepdim=True)
    ),
    "Its statistics are those of a sentence, not of a row.": lambda x: standardised(x, (-2, -1)),
    "Its statistics are taken over positions.": lambda x: standardised(x, (-2,)),
    "Its statistics are taken over the batch.": lambda x: standardised(x, (0,)),
    "Nothing is divided: rows keep their size.": lambda x: x - x.mean(-1, keepdim=True),
}


def normalises(
    norm: Norm, module: nn.Module, way: Callable[[Tensor], Tensor], tolerance: float = 0.02
) -> bool:
    """Whether a norm returns what it has read, normalised in this way, times a gain plus a bias.

    One number may be a factor more: some divide by one less than the number of values.
    """
    output = first_output(norm.output)
    x = first_output(norm.read).reshape(output.shape).double()
    parameters = [p.detach().double() for p in module.parameters(recurse=False)]
    gains = [torch.ones(()), *parameters, *(1 + p for p in parameters)]
    biases = [torch.zeros(()), *parameters]
    for gain in gains:
        for bias in biases:
            expected, found = way(x) * gain, output - bias
            factor = (expected * found).sum() / expected.pow(2).sum()
            off = (factor * expected - found).abs().max()
            if 0.5 < factor < 2 and float(off) <= tolerance * float(output.abs().max()):
                return True
    return False


@check("layers.norms", "make_model")
@torch.no_grad()
def norms(adapter: Adapter, seed: int) -> str:
    """A norm gives each row the mean 0 and the variance 1, or the mean square 1."""
    model = silence(build(adapter, seed))
    graph = run(adapter, model, *uneven_batch(adapter, seed, padded=False))
    modules, count = dict(model.named_modules()), 0
    for norm in find_norms(graph, model):
        if norm.module not in modules or norm.read is None or norm.output.kind in NORMS:
            continue  # torch's own norms are right
        if first_output(norm.read).numel() != first_output(norm.output).numel():
            continue
        module = modules[norm.module]
        if any(normalises(norm, module, way) for way in NORMED):
            count += 1
            continue
        for cause, way in NORMED_WRONGLY.items():
            if normalises(norm, module, way):
                found = Finding(f"{norm.module!r} does not normalise its rows", cause)
                found.fits += " So computed, its result is the same."
                found.proved = True
                raise found
    if not count:
        raise NotImplementedError("no norm of one's own was read")
    return f"{count} norms of one's own give each row one mean or mean square"


@check("layers.whole_input", "make_model", "resizable")
def whole_input(adapter: Adapter, seed: int) -> str:
    """Queries, keys and values of every head are made of the whole token."""
    view = reading(adapter, seed)
    width = Sizes().d_model
    sliced = [
        linear.name
        for linear in view.graph.linears
        if any(a.module and linear.name.startswith(a.module) for a in view.attentions)
        and linear.read.size(-1) == view.attentions[0].size < width
    ]
    if sliced:
        names = listed([*dict.fromkeys(sliced)])
        message = f"{names} read {view.attentions[0].size} of {width} values"
        cause = "A head projects its own slice of the token: make it of all d_model."
        raise Finding(message, cause)
    return f"the maps of {len(view.attentions)} attentions read whole tokens"


def factors(adapter: Adapter, graph: Graph, source: Tensor, target: Tensor) -> dict[str, float]:
    """Side -> what its embedding is multiplied by before positions are added."""
    sides = {"source": words_of(adapter, source), "target": words_of(adapter, target)}
    return {
        side: added.factor
        for added in find_added(graph)
        for side, mine in sides.items()
        if words_of(adapter, added.ids) == mine
    }


@check("embedding.sides", "make_model", "scaled_embedding")
def sides(adapter: Adapter, seed: int) -> str:
    """The embeddings of both sides are multiplied by one number, whatever the length."""
    model = silence(build(adapter, seed))
    source, target = uneven_batch(adapter, seed)
    short = factors(adapter, run(adapter, model, source, target), source, target)
    wide = F.pad(source, (0, 4), value=adapter.pad), F.pad(target, (0, 4), value=adapter.pad)
    long = factors(adapter, run(adapter, model, *wide), *wide)
    if len(short) < 2 or not all(map(math.isfinite, short.values())):
        raise NotImplementedError("no embeddings of two sides were seen before positions are added")
    for side, factor in short.items():
        if side in long and abs(long[side] / factor - 1) > 1e-3:
            lengths = f"{factor:.3g}, and with four more positions by {long[side]:.3g}"
            cause = "They are multiplied by the root of the sentence's length, not of d_model."
            raise Finding(f"embeddings of the {side} are multiplied by {lengths}", cause)
    first, second = short.values()
    if abs(first / second - 1) > 1e-3:
        message = f"the source's embeddings are multiplied by {short['source']:.3g}"
        cause = "One side's embeddings are scaled, and the other's are not."
        raise Finding(f"{message}, the target's by {short['target']:.3g}", cause)
    return f"both sides' embeddings are multiplied by {first:.3g}"


@check("layers.one_parameter", "make_model")
def one_parameter(adapter: Adapter, seed: int) -> str:
    """Weights that are shared are one parameter, so that an optimizer changes them once."""
    torch.manual_seed(seed)
    places: dict[int, list[str]] = {}
    model = adapter.make_model(Sizes())
    tables = {n: m.weight for n, m in model.named_modules() if isinstance(m, nn.Embedding)}
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if isinstance(module, nn.Linear) and weight.std() > 0:
            for table, other in tables.items():
                if other.data_ptr() != weight.data_ptr() and torch.equal(other, weight):
                    said = f"the weights of {table!r} and {name!r} are equal, and two tensors"
                    raise Finding(said, "They are tied by a copy: training moves them apart.")
    for name, parameter in model.named_parameters():
        if parameter.numel():
            places.setdefault(parameter.data_ptr(), []).append(name)
    if double := [names for names in places.values() if len(names) > 1]:
        cause = "Tie by assigning the parameter: last.weight = embedding.weight."
        raise Finding(f"{listed(double[0])} are different parameters on one storage", cause)
    return f"{len(places)} parameters, each with a storage of its own"


@check("layers.one_stream", "make_model")
@torch.no_grad()
def one_stream(adapter: Adapter, seed: int) -> str:
    """A residual connection adds to the stream what its block makes of the stream, or of its norm.

    All of a layer start before its norms, or all behind them.
    """
    model = silence(build(adapter, seed))
    graph = run(adapter, model, *uneven_batch(adapter, seed))
    norms = find_norms(graph, model)
    residuals = [each for each in find_residuals(graph, norms) if each.read is not None]
    if not residuals:
        raise NotImplementedError("no residual connection was read")
    by_output = {id(norm.output): norm for norm in norms}
    totals = {id(each.total) for each in residuals}
    layers = {layer_of(each.last.owner) for each in residuals} - {""}
    for each in residuals:
        normed = by_output.get(id(each.read))
        stream, owner = each.stream, each.last.owner
        known = normed is not None or id(each.read) in totals
        if known and stream is not each.read and (normed is None or stream is not normed.read):
            before = normed.read if normed else each.read
            near = comes_from(each.read, stream, totals)  # by a norm of a kind that is not known
            if not near and comes_from(each.read, stream) and not grown(stream, each.read, before):
                said = f"what {owner!r} makes is not added to what its block has read"
                raise Finding(said, "A residual connection adds an earlier tensor: x + f(y).")
        if stream is each.read and normed and layer_of(normed.module) in layers:
            inside = [r for r in residuals if r.total is normed.read]
            if not any(layer_of(r.last.owner) == layer_of(normed.module) for r in inside):
                said = f"what {normed.module!r} makes of its layer's input is added again"
                cause = "A residual connection starts behind its norm: the stream itself is lost."
                raise Finding(f"{said}, and the input is not", cause)
    streams = {id(each.stream) for each in residuals}
    read = {id(norm.read) for norm in norms}
    starting = {layer_of(norm.module) for norm in norms if id(norm.output) not in streams} - {""}
    for norm in norms:
        added = id(norm.output) in streams and is_sum(norm.read)
        if added and id(norm.output) in read and layer_of(norm.module) in starting:
            said = f"{norm.module!r} normalises a sum in a layer that has normalised what it has"
            raise Finding(
                f"{said} read", "A residual block normalises before or behind its sub-layer."
            )
    first = {layer_of(n.module) for n in norms if id(n.output) not in streams}
    first &= {layer_of(n.module) for n in norms if id(n.read) in streams} - {""}
    for norm in norms:
        layer = layer_of(norm.module)
        own = [r for r in residuals if r.stream is norm.output and layer_of(r.last.owner) == layer]
        if own and layer in first and is_sum(norm.read):
            said = f"what {norm.module!r} makes is added to what {own[0].last.owner!r} makes of it"
            cause = "In a layer that normalises what a block reads, the stream itself is added."
            raise Finding(f"{said}, and the sum that it has read is lost", cause)
    return f"{len(residuals)} blocks are added to what they have read, or to what its norm has read"


def grown(stream: Node, *read: Node | None) -> bool:
    """Whether a stream is what a block has read, and what parallel blocks have added to it."""
    node: Node | None = stream
    while is_sum(node):
        operands = [undropped(maker) for maker in node.makers[:2]]
        if any(x is not None and any(x is y for y in read) for x in operands):
            return True
        node = operands[0]
    return False
