"""Paths in the graph of a pass: what a residual connection adds, and what its maps have read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from nmtcheck.measure.graph import DROPS, SCALINGS, SUMS, A, Graph, Node

LIMIT = 200  # nodes of a path that are followed
KEEPS_ONE = {A.relu, A.relu_, A.gelu, A.silu, A.silu_, A.sigmoid, A.tanh, A.leaky_relu, A.elu}
SCALES = {A.mul, A.mul_, A.div, A.div_, A.sub, A.rsub, A.neg, A.native_dropout}
NORMS = {A.native_layer_norm, A.native_group_norm, A._fused_rms_norm}


def made_noise(node: Node | None) -> bool:
    """Whether a tensor is the random mask of a dropout."""
    for _ in range(LIMIT):
        if node is None or node.kind in DROPS:
            return node is not None
        node = node.makers[0] if node.makers else None
    return False


def bare(node: Node | None) -> Node | None:
    """The node whose numbers these are: views and copies are taken off."""
    while node is not None and node.view and node.makers:
        node = node.makers[0]
    return node


def whole_operands(node: Node) -> list[int]:
    """Which of the tensors that a node read are as large as its output, and no dropout's mask."""
    size = first_output(node).numel()
    numbers = range(len(node.read))
    return [n for n in numbers if node.read[n].numel() == size and not made_noise(node.makers[n])]


def first_output(node: Node) -> Tensor:
    """The output of a node; the first one, where it has several."""
    return node.output if isinstance(node.output, Tensor) else node.output[0]


def is_sum(node: Node | None) -> bool:
    """Whether a node adds two tensors of one shape, as a residual connection does."""
    if node is None or node.kind not in SUMS or len(node.read) < 2:
        return False
    x, y = node.read[:2]
    return x.shape == y.shape and x.dim() > 1 and x.is_floating_point() and not node.owner


def undropped(node: Node | None) -> Node | None:
    """The node before views, dropouts and factors."""
    for _ in range(LIMIT):
        node = bare(node)
        if node is None or node.kind not in SCALES or node.owner:
            return node
        operands = whole_operands(node)
        if len(operands) != 1:
            return node
        node = node.makers[operands[0]]
    return None


@dataclass(frozen=True, eq=False)
class Norm:
    """One call of a norm."""

    module: str
    read: Node | None  # views and dropouts taken off
    output: Node


def find_norms(graph: Graph, model: nn.Module) -> list[Norm]:
    """The calls of norms, in order: torch's own, and those whose parameters a module holds."""
    held = {
        f"{name}.{key}".lstrip(".").removesuffix(".weight"): name
        for name, module in model.named_modules()
        if "norm" in type(module).__name__.lower() and not [*module.children()]
        for key in module._parameters
    }
    norms, last = list[Norm](), dict[str, Node]()
    for node in graph.nodes:
        module = held.get(node.owner, "")
        if node.kind in NORMS:
            norms.append(Norm(module, undropped(node.makers[0]), node))
        elif module and not node.view:
            operands = whole_operands(node)
            start = before_statistics(node.makers[operands[0]]) if operands else None
            if module in last and start is last[module]:  # its second parameter
                norms[-1] = Norm(module, norms[-1].read, node)
            elif operands:
                norms.append(Norm(module, undropped(start), node))
            last[module] = node
    readers = dict[int, list[Node]]()
    for node in graph.nodes:
        for maker in node.makers:
            readers.setdefault(id(maker), []).append(node)
    return [replace(norm, output=behind_gain(norm.output, readers)) for norm in norms]


def behind_gain(node: Node, readers: dict[int, list[Node]]) -> Node:
    """The last node of a norm: some multiply by the gain first, and divide by the root then."""
    for _ in range(LIMIT):
        further = [each for each in readers.get(id(node), ()) if divides_rows(each, node)]
        if len(readers.get(id(node), ())) != 1 or not further:
            return node
        node = further[0]
    return node


def divides_rows(node: Node, before: Node) -> bool:
    """Whether a node scales what another one has made by a number for each row."""
    if node.kind not in SCALINGS or len(node.read) != 2 or node.owner:
        return False
    others = [x for x, maker in zip(node.read, node.makers, strict=True) if maker is not before]
    shape = first_output(before).shape
    return len(others) == 1 and others[0].shape == (*shape[:-1], 1)


def before_statistics(node: Node | None) -> Node | None:
    """What a norm has read: before it was moved and divided by statistics of its rows."""
    for _ in range(LIMIT):
        node = bare(node)
        if node is None or is_sum(node) or node.owner or not node.read:
            return node
        size, shape = first_output(node).numel(), first_output(node).shape
        if size == 0 or shape[-1] == 1:
            return node
        whole = [n for n, x in enumerate(node.read) if x.shape == shape]
        rest = [x for x in node.read if x.shape != shape]
        if len(whole) != 1 or not all(not x.dim() or 1 in x.shape for x in rest):
            return node
        if node.kind not in SCALES:
            return node
        node = node.makers[whole[0]]
    return None


def last_map(node: Node | None, norms: dict[int, Norm]) -> Node | None:
    """The linear map of which a tensor is made, element by element; None for a sum."""
    for _ in range(LIMIT):
        node = bare(node)
        if node is None or node.linear >= 0:
            return node
        if id(node) in norms:  # some normalise what they add
            node = norms[id(node)].read
            continue
        operands = whole_operands(node) if node.read else []
        if is_sum(node) or len(operands) != 1:
            return None
        node = node.makers[operands[0]]
    return None


def first_read(graph: Graph, node: Node) -> Node | None:
    """What the first linear map of a block has read: of the queries, where it is an attention."""
    maps = {each.linear: each for each in graph.nodes if each.linear >= 0}
    for _ in range(LIMIT):
        read = next((n for n, x in enumerate(node.read) if is_input(graph, node, x)), None)
        before = undropped(node.makers[read]) if read is not None else None
        for _ in range(LIMIT):  # an activation, between two maps
            if before is None or before.kind not in KEEPS_ONE:
                break
            before = undropped(before.makers[0])
        if before is None:
            return None
        if is_sum(before):  # of values and of relative positions, both weighed
            weighed = filter(None, map(undropped, before.makers[:2]))
            before = next((each for each in weighed if each.context >= 0), before)
        if before.context >= 0:
            maker = graph.attentions[before.context].makers[0]
            if maker not in maps:
                return None
            node = maps[maker]
        elif before.linear >= 0:
            node = before
        elif before.kind is A.mul and len(whole_operands(before)) == 2:  # a gate
            gated = [last_map(maker, {}) for maker in before.makers[:2]]
            if gated[0] is None or gated[1] is None:
                return None
            node = gated[0]
        else:
            return before
    return None


def is_input(graph: Graph, node: Node, tensor: Tensor) -> bool:
    """Whether a tensor is what a linear map has read, and not its weight or bias."""
    linear = graph.linears[node.linear]
    own = {linear.weight.untyped_storage().data_ptr()}
    if linear.bias is not None:
        own.add(linear.bias.untyped_storage().data_ptr())
    return tensor.untyped_storage().data_ptr() not in own and tensor.dim() > 1


@dataclass(frozen=True, eq=False)
class Residual:
    """A sum of a stream and of what a block makes of it."""

    total: Node
    stream: Node  # views and dropouts taken off
    last: Node  # the last linear map of the block
    read: Node | None  # what its first linear map has read


def find_residuals(graph: Graph, norms: list[Norm]) -> Iterator[Residual]:
    """The residual connections of a pass, in order."""
    by_output = {id(norm.output): norm for norm in norms}
    for node in filter(is_sum, graph.nodes):
        maps = [last_map(maker, by_output) for maker in node.makers[:2]]
        if sum(each is not None for each in maps) != 1:
            continue
        branch = 0 if maps[0] is not None else 1
        stream = undropped(node.makers[1 - branch])
        if stream is not None and maps[branch] is not None:
            yield Residual(node, stream, maps[branch], first_read(graph, maps[branch]))


def comes_from(node: Node | None, other: Node, totals: Collection[int] | None = None) -> bool:
    """Whether one node was made of another: a path in the graph.

    With `totals`, the ids of residual connections, only a path within one block: without a linear
    map, an attention or a residual connection on it.
    """
    return any(each is other for each in ancestors(node, totals))


def layer_of(owner: str) -> str:
    """The layer in a list that a parameter belongs to: 'encoder.0'; '' for none."""
    layer = re.match(r".*?\.\d+(?=\.)", owner)
    return layer[0] if layer else ""


def find_dropouts(graph: Graph) -> list[tuple[Node, Node | None]]:
    """Every dropout that drops: the node of its output, and the one of what it has read.

    Factors are taken off what it has read: some divide by 1 - p behind the mask.
    """
    result = list[tuple[Node, Node | None]]()
    for node in graph.nodes:
        if node.kind is A.native_dropout:
            result.append((node, unscaled(node.makers[0])))
        elif node.kind in (A.mul, A.mul_, A.where) and any(map(made_noise, node.makers)):
            whole = whole_operands(node)
            result.append((node, unscaled(node.makers[whole[0]]) if whole else None))
    return result


def unscaled(node: Node | None) -> Node | None:
    """The node before views and factors that are numbers."""
    for _ in range(LIMIT):
        node = bare(node)
        if node is None or node.kind not in SCALINGS or len(node.read) != 1:
            return node
        node = node.makers[0]
    return None


def find_lookups(graph: Graph) -> list[Tensor]:
    """The tables of ids that embeddings have read, in order."""
    return [node.read[1] for node in graph.nodes if is_lookup(node)]


def is_lookup(node: Node) -> bool:
    """Whether a node looks rows of a table up."""
    if node.kind not in (A.embedding, A.index) or len(node.read) != 2:
        return False
    table, ids = node.read
    return table.dim() == 2 and ids.dtype in (torch.int64, torch.int32)


@dataclass(frozen=True, eq=False)
class Added:
    """What is added to the vectors of ids, once they are multiplied by a factor."""

    ids: Tensor
    factor: float
    vectors: Tensor  # of the shape of the sum
    learned: bool  # they are made of a parameter
    total: Tensor


def find_added(graph: Graph) -> Iterator[Added]:
    """What is added to the vectors that embeddings return, such as positions."""
    for node in graph.nodes:
        if node.kind not in SUMS or len(node.read) < 2:
            continue
        for number in (0, 1):
            start = undropped(node.makers[number])
            if start is not None and is_lookup(start) and start.read[1].dim() > 1:
                other = node.read[1 - number]
                learned = any(each.owner for each in ancestors(node.makers[1 - number]))
                learned = learned or isinstance(other, nn.Parameter)
                factor = factor_between(node.makers[number], start)
                vectors = other.expand(node.shape)
                yield Added(start.read[1], factor, vectors, learned, first_output(node))


def factor_between(node: Node | None, start: Node) -> float:
    """By what the output of a node was multiplied until it became that of a later one."""
    factor = 1.0
    while node is not None and node is not start:
        whole = [0] if node.view else whole_operands(node)
        if node.kind in SCALINGS:
            numbers = [x for x in node.options if isinstance(x, int | float)]
            numbers += [float(x) for n, x in enumerate(node.read) if n not in whole]
            for number in numbers:
                factor *= number ** SCALINGS[node.kind]
        node = node.makers[whole[0]]
    return factor


def ancestors(node: Node | None, totals: Collection[int] | None = None) -> Iterator[Node]:
    """A node, and all that it was made of; with `totals`, within its own block."""
    seen, ahead = set[int](), [node]
    while ahead:
        node = ahead.pop()
        if node is not None and id(node) not in seen:
            seen.add(id(node))
            ends = totals is not None and (node.linear >= 0 or node.context >= 0)
            if not ends and id(node) not in (totals or ()):
                ahead += node.makers
            yield node


def rows_of(ids: Tensor) -> list[list[int]]:
    """The rows of a table of ids, and its columns: some put time first."""
    if not ids.dim():
        return []
    table = ids.reshape(-1, ids.size(-1))
    return [*table.tolist(), *table.t().tolist()]


def find_tables(graph: Graph, width: int, most: int = 300) -> list[Tensor]:
    """The tables (..., width) of real numbers that were made, at most so many of them."""
    outputs = (node.output for node in graph.nodes if isinstance(node.output, Tensor))
    fits = (x for x in outputs if x.is_floating_point() and x.dim() and x.numel())
    return [x for x in fits if x.size(-1) == width][:most]
