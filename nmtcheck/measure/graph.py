"""One recorder of everything that somebody's code computes: its operations, as a graph.

Below torch's modules and functions every model is made of a few operations.  Each of them becomes a
`Node`: what it read, which nodes made that, and what came out.  A node belongs to the parameter
that it read, not to the module that was running: `self.attention.forward(...)` calls no hook.  What
the checks ask is a question to this graph.

A `Listener` sees the operations while they happen, and may exchange what they read or make: a
repair, or the recording of a search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

A = torch.ops.aten
PRODUCTS = {A.mm, A.bmm, A.addmm, A.baddbmm}
SOFTMAXES = {A._softmax, A._safe_softmax}
COPIES = {A.clone, A._unsafe_view, A._to_copy, A.detach, A.lift_fresh, A.contiguous}
JOINS = {A.cat, A.stack}
SUMS = {A.add, A.add_}
SCALINGS = {A.mul: 1, A.mul_: 1, A.div: -1, A.div_: -1}
# What draws at random for each value; what shuffles sentences draws one number at a time.
DROPS = {A.native_dropout, A.bernoulli, A.bernoulli_, A.rand, A.rand_like, A.random_}
# change(kind, number, tensors) -> the tensors to go on with.  Kinds: "product" (query, key) of an
# attention, "softmax" (scores), "weights", "value" (weights, value) and "context"; "embedded"
# (vectors that were looked up).
Change = Callable[[str, int, tuple], tuple]


class Listener:
    """What sees each operation; it may exchange the arguments before, and the output after it."""

    def before(self, kind: Any, args: Any) -> Any:
        """The arguments to go on with."""
        return args

    def after(self, kind: Any, args: Any, output: Any) -> Any:
        """The output to go on with."""
        return output


@dataclass(frozen=True)
class Origin:
    """How a tensor came about; -1 for what it does not come from."""

    product: int = -1  # of two tensors that are no parameters, as scores are
    powers: bool = False  # it is the exponential of that product
    attention: int = -1  # it holds the weights of this attention
    linear: int = -1  # it is what this linear map returns, unchanged
    maker: int = -1  # it is made of what this linear map returns, element by element
    factor: float = 1.0  # by which it was multiplied since it was made


@dataclass(eq=False)
class Node:
    """One operation."""

    kind: Any  # such as `torch.ops.aten.add`
    read: tuple[Tensor, ...]  # the tensors among its arguments
    makers: tuple[Node | None, ...]  # of each of them; None for a parameter, or for ids
    output: Any  # as it was made, even if something was written over it later
    owner: str  # the parameter that it read, or a view of it; '' for none
    view: bool  # the same numbers as those that it read
    options: tuple = ()  # arguments that are no tensors, such as an axis
    grad: bool = False  # whether a gradient is wanted
    linear: int = -1  # the number of this linear map among those of its graph
    context: int = -1  # of which attention it joins the values
    softmax: int = -1  # of which attention it makes the weights

    @property
    def shape(self) -> torch.Size:
        """That of the output; empty where it is no tensor."""
        return self.output.shape if isinstance(self.output, Tensor) else torch.Size()


@dataclass
class Linear:
    """A product with a parameter: its name, what was read (N, in) and what was made (N, out)."""

    name: str
    read: Tensor
    output: Tensor
    reads: int  # the linear map whose unchanged result it reads, or -1
    weight: Tensor  # (in, out), a view of the parameter
    bias: Tensor | None = None  # (out,), likewise


@dataclass
class Softmax:
    """An attention of a pass.  N is batch times heads, in some order; T queries, S keys."""

    scores: Tensor
    product: int = -1
    query: Tensor | None = None  # (N, T, d), as it is multiplied
    key: Tensor | None = None  # (N, d, S)
    before: float = math.nan  # factor of queries and keys since they were made, if that was seen
    after: float = 1.0  # factor of the scores alone
    makers: tuple[int, int, int] = (-1, -1, -1)  # the linear maps of queries, keys and values
    joined: int = -1  # the number of linear maps before its result
    weights: Tensor | None = None  # (N, T, S), as they are multiplied by the values
    value: Tensor | None = None  # (N, S, d)


@dataclass
class Graph:
    """What was seen in a pass."""

    nodes: list[Node] = field(default_factory=list)
    attentions: list[Softmax] = field(default_factory=list)
    linears: list[Linear] = field(default_factory=list)
    result: Tensor | None = None


class Recorder(TorchDispatchMode):
    """Fills a graph while it is active; `change` and a listener may exchange tensors on their way.

    Without `keep` nothing is kept but what the listener keeps: a training run has too many nodes.
    """

    def __init__(
        self,
        model: nn.Module | None = None,
        change: Change | None = None,
        listener: Listener | None = None,
        keep: bool = True,
    ):
        super().__init__()
        self.graph, self.change, self.listener, self.keeps = Graph(), change, listener, keep
        self.origins, self.alive = dict[int, Origin](), list[Any]()
        self.nodes = dict[int, Node]()  # of the tensor with this id
        self.context, self.softmax = -1, -1  # of the operation that is running
        self.stored = dict[int, list[Node]]()  # nodes whose output lies in this storage
        self.products = list[tuple[Tensor, Tensor, float, tuple[int, int]]]()
        named = model.named_parameters(remove_duplicate=False) if model else ()
        self.parameters = {
            p.untyped_storage().data_ptr(): name.removesuffix(".weight")
            for name, p in reversed([*named])
        }

    def parameter(self, x: Any) -> str:
        """The name of the parameter that a tensor is a view of, '' for none."""
        if not isinstance(x, Tensor):
            return ""
        return self.parameters.get(x.untyped_storage().data_ptr(), "")

    def origin(self, x: Any) -> Origin | None:
        return self.origins.get(id(x)) if isinstance(x, Tensor) else None

    def apply_change(self, kind: str, number: int, *tensors: Tensor) -> tuple:
        """The tensors, or those that `change` puts in their places."""
        return self.change(kind, number, tensors) if self.change else tensors

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind, kwargs = func.overloadpacket, kwargs or {}
        if torch.is_inference_mode_enabled():  # there composite operations arrive whole
            with self:
                output = func.decompose(*args, **kwargs)
            if output is not NotImplemented:
                return output
        if self.listener:
            args = self.listener.before(kind, args)
        if self.keeps:
            before = [*flatten_tensors([*args, *kwargs.values()])]
            made_by = [self.nodes.get(id(x)) for x in before]
            self.save_overwritten(func, args)
            output = self.operate(func, args, kwargs)
            options = tuple(x for x in args if not isinstance(x, Tensor | list | tuple))
            self.add_node(func, before, made_by, output, options)
        else:
            output = func(*args, **kwargs)
        return self.listener.after(kind, args, output) if self.listener else output

    def save_overwritten(self, func: Any, args: Any) -> None:
        """Copy the outputs of nodes that an operation is about to write over."""
        if not func._schema.is_mutable:
            return
        for about, x in zip(func._schema.arguments, args, strict=False):
            if about.alias_info is not None and about.alias_info.is_write and isinstance(x, Tensor):
                for node in self.stored.pop(x.untyped_storage().data_ptr(), ()):
                    node.output = node.output.clone()

    def add_node(self, func: Any, read: list, made_by: list, output: Any, options: tuple) -> None:
        """Note an operation, and that its output comes from it."""
        owner = next(filter(None, map(self.parameter, read)), "")
        same = bool(func.is_view) or func.overloadpacket in COPIES
        node = Node(func.overloadpacket, tuple(read), tuple(made_by), output, owner, same)
        node.options, node.grad = options, torch.is_grad_enabled()
        node.context, self.context = self.context, -1
        node.softmax, self.softmax = self.softmax, -1
        self.graph.nodes.append(node)
        for x in flatten_tensors([output]):
            self.alive.append(x)
            self.nodes[id(x)] = node
            if isinstance(output, Tensor):
                self.stored.setdefault(x.untyped_storage().data_ptr(), []).append(node)
            origin = self.origins.get(id(x))
            if origin is not None and node.kind in PRODUCTS and origin.linear >= 0:
                node.linear = origin.linear
                node.owner = self.graph.linears[node.linear].name  # not its bias

    def operate(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The output of an operation, its origin noted."""
        kind = func.overloadpacket
        if kind in PRODUCTS:
            return self.record_product(func, list(args), kwargs)
        sources = [x for x in flatten_tensors(args) if id(x) in self.origins]
        first = self.origins[id(sources[0])] if sources else None
        if kind in SOFTMAXES and first and first.product >= 0 and args[0].dim() > 1:
            return self.record_softmax(func, args, kwargs, first)
        if first and first.powers and kind in (A.div, A.div_) and self.divides_by_sums(args):
            return self.record_softmax(func, args, kwargs, first)
        output = func(*args, **kwargs)
        if kind is A.embedding:
            (output,) = self.apply_change("embedded", 0, output)
            self.keep(output, None)
        elif first and (func.is_view or kind in COPIES):
            for each in flatten_tensors([output]):
                self.keep(each, first)
        elif first and kind in JOINS and self.have_one_maker(args[0]):
            self.keep(output, replace(first, linear=-1))
        elif isinstance(output, Tensor):
            same = [x for x in sources if x.numel() == output.numel()]
            # Scores of queries and keys, and not those of relative positions that are added.
            same.sort(key=lambda x: not self.is_of_two_maps(self.origins[id(x)]))
            origin = self.derive_origin(kind, args, same[0], output) if same else None
            self.keep(output, origin)
        return output

    def is_of_two_maps(self, origin: Origin) -> bool:
        """Whether a tensor comes from a product of what two linear maps have made."""
        return origin.product >= 0 and min(self.products[origin.product][3]) >= 0

    def derive_origin(self, kind: Any, args: Any, source: Tensor, output: Tensor) -> Origin:
        """The origin of what an operation on each element makes of a tensor."""
        origin = replace(self.origins[id(source)], linear=-1)
        others = [x for x in args[:2] if x is not source]
        if kind in SCALINGS:
            other = others[0] if others else 1.0
            if self.parameter(other):  # a learned temperature
                return replace(origin, factor=math.nan)
            if isinstance(other, int | float) or other.numel() == 1:
                factor = origin.factor * float(other) ** SCALINGS[kind]
                return replace(origin, factor=factor)
        elif kind in SUMS and others and self.parameter(others[0]):
            if origin.maker >= 0 and others[0].dim() == 1:
                self.graph.linears[origin.maker].bias = others[0]
        return replace(origin, powers=origin.powers or kind in (A.exp, A.exp_))

    def have_one_maker(self, parts: list[Tensor]) -> bool:
        """Whether all parts are made of one linear map and multiplied by one number."""
        origins = [self.origin(x) or Origin() for x in parts]
        return len({(origin.maker, origin.factor) for origin in origins}) == 1

    def keep(self, output: Any, origin: Origin | None) -> None:
        """Note where a tensor comes from, and let no other tensor take its id."""
        self.alive.append(output)
        self.origins.pop(id(output), None)
        if origin:
            self.origins[id(output)] = origin

    def divides_by_sums(self, args: Any) -> bool:
        """Whether the exponentials of scores are divided by their sums."""
        top, bottom = args[:2]
        return isinstance(bottom, Tensor) and bottom.dim() == top.dim() and 1 in bottom.shape

    def record_product(self, func: Any, args: list, kwargs: Any) -> Any:
        """A matrix product: of a linear map, of scores, or of weights with their values."""
        at = len(args) - 2 if func.overloadpacket in (A.mm, A.bmm) else 1
        a, b = args[at], args[at + 1]
        origins = self.origin(a) or Origin(), self.origin(b) or Origin()
        name = self.parameter(b) or self.parameter(a)
        if name:
            output = func(*args, **kwargs)
            read = a if self.parameter(b) else b
            reads = (self.origin(read) or Origin()).linear
            number = len(self.graph.linears)
            self.keep(output, Origin(linear=number, maker=number))
            weight = b if self.parameter(b) else a.mT
            bias = args[0] if at == 1 and self.parameter(args[0]) else None
            self.graph.linears.append(
                Linear(name, read.clone(), output.clone(), reads, weight, bias)
            )
            return output
        number = max(origin.attention for origin in origins)
        if number >= 0:
            first = origins[0].attention >= 0
            weights, value = (a, b) if first else (b.mT, a.mT)
            attention = self.graph.attentions[number]
            maker = max(origin.maker for origin in origins)
            if maker >= 0 or attention.weights is None:  # and not a table of relative positions
                weights, value = self.apply_change("value", number, weights, value)
                attention.weights, attention.value = weights.clone(), value.clone()
                attention.makers = (*attention.makers[:2], maker)
            attention.joined = len(self.graph.linears)
            args[at : at + 2] = (weights, value) if first else (value.mT, weights.mT)
            output = func(*args, **kwargs)
            (output,) = self.apply_change("context", number, output)
            self.keep(output, None)
            self.context = number
            return output
        product, makers = len(self.products), (origins[0].maker, origins[1].maker)
        factor = origins[0].factor * origins[1].factor if min(makers) >= 0 else math.nan
        args[at : at + 2] = self.apply_change("product", product, a, b)
        output = func(*args, **kwargs)
        self.products.append((args[at].clone(), args[at + 1].clone(), factor, makers))
        self.keep(output, Origin(product=product))
        return output

    def record_softmax(self, func: Any, args: Any, kwargs: Any, origin: Origin) -> Any:
        """A softmax over scores: of a product, and not of logits."""
        number = len(self.graph.attentions)
        (scores,) = self.apply_change("softmax", number, args[0])
        output = func(scores, *args[1:], **kwargs)
        (output,) = self.apply_change("weights", number, output)
        softmax = Softmax(scores.clone())
        softmax.query, softmax.key, softmax.before, makers = self.products[origin.product]
        softmax.product, softmax.after = origin.product, origin.factor
        softmax.makers = (*makers, -1)
        self.graph.attentions.append(softmax)
        self.keep(output, Origin(attention=number))
        self.softmax = number
        return output


def flatten_tensors(values: Any) -> Iterator[Tensor]:
    """The tensors in arguments."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from flatten_tensors(value)


@contextmanager
def record_graph(
    model: nn.Module | None = None,
    change: Change | None = None,
    listener: Listener | None = None,
    keep: bool = True,
) -> Iterator[Graph]:
    """Record what is computed while the block runs, the fused attention of torch taken apart."""
    recorder = Recorder(model, change, listener, keep)
    with every_module(), sdpa_kernel(SDPBackend.MATH), recorder:
        yield recorder.graph


@contextmanager
def every_module() -> Iterator[None]:
    """Without torch's fast path, which calls no module and packs tensors."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
