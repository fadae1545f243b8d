"""See the operations of a pass: products, softmaxes and linear maps, however a model is written.

Below torch's modules and functions every model is made of a few operations.  Each tensor of a pass
has an `Origin`, which says how it came about; operations that keep every element hand it on.
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
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

A = torch.ops.aten
PRODUCTS = {A.mm, A.bmm, A.addmm, A.baddbmm}
SOFTMAXES = {A._softmax, A._safe_softmax}
COPIES = {A.clone, A._unsafe_view, A._to_copy, A.detach, A.lift_fresh, A.contiguous}
JOINS = {A.cat, A.stack}
SCALINGS = {A.mul: 1, A.mul_: 1, A.div: -1, A.div_: -1}
# change(kind, number, tensors) -> the tensors to go on with.  Kinds: "product" (query, key) of an
# attention, "softmax" (scores), "weights", "value" (weights, value) and "context".
Change = Callable[[str, int, tuple], tuple]


@dataclass(frozen=True)
class Origin:
    """How a tensor came about; -1 for what it does not come from."""

    product: int = -1  # of two tensors that are no parameters, as scores are
    powers: bool = False  # it is the exponential of that product
    attention: int = -1  # it holds the weights of this attention
    linear: int = -1  # it is what this linear map returns, unchanged
    maker: int = -1  # it is made of what this linear map returns, element by element
    table: Tensor | None = None  # these ids, looked up in an embedding, and nothing added yet
    factor: float = 1.0  # by which it was multiplied since it was made


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

    module: str  # in whose forward it is computed
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
class Trace:
    """What was seen in a pass."""

    attentions: list[Softmax] = field(default_factory=list)
    linears: list[Linear] = field(default_factory=list)
    # Ids that were looked up, and by what their vectors were multiplied before positions are added.
    scaled: list[tuple[Tensor, float]] = field(default_factory=list)
    sums: list[Tensor] = field(default_factory=list)  # those vectors with their positions
    tables: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # embedding (V, D), ids
    modules: list[str] = field(default_factory=list)  # that were called, in order
    result: Tensor | None = None


class Watch(TorchDispatchMode):
    """Fills a trace while it is active; `change` may exchange tensors on their way."""

    def __init__(self, model: nn.Module, change: Change | None = None):
        super().__init__()
        self.trace, self.change = Trace(), change
        self.origins, self.alive = dict[int, Origin](), list[Tensor]()
        self.products = list[tuple[Tensor, Tensor, float, tuple[int, int]]]()
        self.inside = [""]  # the names of the modules that are running
        self.names = {module: name for name, module in model.named_modules()}
        self.parameters = {
            p.untyped_storage().data_ptr(): name.removesuffix(".weight")
            for name, p in reversed([*model.named_parameters(remove_duplicate=False)])
        }

    def parameter(self, x: Any) -> str:
        """The name of the parameter that a tensor is a view of, '' for none."""
        if not isinstance(x, Tensor):
            return ""
        return self.parameters.get(x.untyped_storage().data_ptr(), "")

    def origin(self, x: Any) -> Origin | None:
        return self.origins.get(id(x)) if isinstance(x, Tensor) else None

    def altered(self, kind: str, number: int, *tensors: Tensor) -> tuple:
        """The tensors, or those that `change` puts in their places."""
        return self.change(kind, number, tensors) if self.change else tensors

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind, kwargs = func.overloadpacket, kwargs or {}
        if kind in PRODUCTS:
            return self.multiply(func, list(args), kwargs)
        sources = [x for x in _flat(args) if id(x) in self.origins]
        first = self.origins[id(sources[0])] if sources else None
        if kind in SOFTMAXES and first and first.product >= 0 and args[0].dim() > 1:
            return self.soften(func, args, kwargs, first)
        if first and first.powers and kind in (A.div, A.div_) and self.normalises(args):
            return self.soften(func, args, kwargs, first)
        output = func(*args, **kwargs)
        if kind is A.embedding:
            self.keep(output, Origin(table=args[1]))
            self.trace.tables.append((args[0], args[1]))
        elif first and (func.is_view or kind in COPIES):
            for each in _flat([output]):
                self.keep(each, first)
        elif first and kind in JOINS and self.alike(args[0]):
            self.keep(output, replace(first, linear=-1))
        elif isinstance(output, Tensor):
            same = [x for x in sources if x.numel() == output.numel()]
            origin = self.derived(kind, args, same[0], output) if same else None
            self.keep(output, origin)
        return output

    def derived(self, kind: Any, args: Any, source: Tensor, output: Tensor) -> Origin:
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
        elif kind in (A.add, A.add_) and origin.table is not None:
            looked = [o for o in map(self.origin, args[:2]) if o and o.table is not None]
            self.trace.scaled += [(o.table, o.factor) for o in looked]
            self.trace.sums += [output.clone()] * len(looked)
            return Origin()
        elif kind in (A.add, A.add_) and others and self.parameter(others[0]):
            if origin.maker >= 0 and others[0].dim() == 1:
                self.trace.linears[origin.maker].bias = others[0]
        return replace(origin, powers=origin.powers or kind in (A.exp, A.exp_))

    def alike(self, parts: list[Tensor]) -> bool:
        """Whether all parts are made of one linear map and multiplied by one number."""
        origins = [self.origin(x) or Origin() for x in parts]
        return len({(origin.maker, origin.factor) for origin in origins}) == 1

    def keep(self, output: Any, origin: Origin | None) -> None:
        """Note where a tensor comes from, and let no other tensor take its id."""
        self.alive.append(output)
        self.origins.pop(id(output), None)
        if origin:
            self.origins[id(output)] = origin

    def normalises(self, args: Any) -> bool:
        """Whether the exponentials of scores are divided by their sums."""
        top, bottom = args[:2]
        return isinstance(bottom, Tensor) and bottom.dim() == top.dim() and 1 in bottom.shape

    def multiply(self, func: Any, args: list, kwargs: Any) -> Any:
        """A matrix product: of a linear map, of scores, or of weights with their values."""
        at = len(args) - 2 if func.overloadpacket in (A.mm, A.bmm) else 1
        a, b = args[at], args[at + 1]
        origins = self.origin(a) or Origin(), self.origin(b) or Origin()
        name = self.parameter(b) or self.parameter(a)
        if name:
            output = func(*args, **kwargs)
            read = a if self.parameter(b) else b
            reads = (self.origin(read) or Origin()).linear
            number = len(self.trace.linears)
            self.keep(output, Origin(linear=number, maker=number))
            weight = b if self.parameter(b) else a.mT
            bias = args[0] if at == 1 and self.parameter(args[0]) else None
            self.trace.linears.append(
                Linear(name, read.clone(), output.clone(), reads, weight, bias)
            )
            return output
        number = max(origin.attention for origin in origins)
        if number >= 0:
            first = origins[0].attention >= 0
            weights, value = (a, b) if first else (b.mT, a.mT)
            weights, value = self.altered("value", number, weights, value)
            attention = self.trace.attentions[number]
            attention.weights, attention.value = weights.clone(), value.clone()
            maker = max(origin.maker for origin in origins)
            attention.makers = (*attention.makers[:2], maker)
            attention.joined = len(self.trace.linears)
            args[at : at + 2] = (weights, value) if first else (value.mT, weights.mT)
            output = func(*args, **kwargs)
            (output,) = self.altered("context", number, output)
            self.keep(output, None)
            return output
        product, makers = len(self.products), (origins[0].maker, origins[1].maker)
        factor = origins[0].factor * origins[1].factor if min(makers) >= 0 else math.nan
        args[at : at + 2] = self.altered("product", product, a, b)
        output = func(*args, **kwargs)
        self.products.append((args[at].clone(), args[at + 1].clone(), factor, makers))
        self.keep(output, Origin(product=product))
        return output

    def soften(self, func: Any, args: Any, kwargs: Any, origin: Origin) -> Any:
        """A softmax over scores: of a product, and not of logits."""
        number = len(self.trace.attentions)
        (scores,) = self.altered("softmax", number, args[0])
        output = func(scores, *args[1:], **kwargs)
        (output,) = self.altered("weights", number, output)
        softmax = Softmax(self.inside[-1], scores.clone())
        softmax.query, softmax.key, softmax.before, makers = self.products[origin.product]
        softmax.product, softmax.after = origin.product, origin.factor
        softmax.makers = (*makers, -1)
        self.trace.attentions.append(softmax)
        self.keep(output, Origin(attention=number))
        return output


def _flat(values: Any) -> Iterator[Tensor]:
    """The tensors in arguments."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _flat(value)


@contextmanager
def watched(model: nn.Module, change: Change | None = None) -> Iterator[Trace]:
    """Trace what is computed while the block runs, the fused attention of torch taken apart."""
    watch = Watch(model, change)

    def enter(module: nn.Module, _: Any) -> None:
        watch.inside.append(watch.names.get(module, watch.inside[-1]))
        watch.trace.modules.append(watch.inside[-1])

    def leave(module: nn.Module, _: Any, output: Any) -> None:
        watch.inside.pop()

    hooks = register_module_forward_pre_hook(enter), register_module_forward_hook(leave)
    with hooks[0], hooks[1], every_module(), torch.no_grad(), sdpa_kernel(SDPBackend.MATH), watch:
        yield watch.trace


@contextmanager
def every_module() -> Iterator[None]:
    """Without torch's fast path, which calls no module and packs tensors."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
