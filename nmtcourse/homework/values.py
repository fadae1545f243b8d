"""What crosses between two processes that is no plain data: objects, results with a gradient."""

from __future__ import annotations

import contextlib
import inspect
import marshal
import types
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nmtcourse.homework.wire import Codec

if TYPE_CHECKING:
    from nmtcourse.homework.peer import Peer

LIBRARIES = ("math", "torch")


class Values(Codec):
    """The values of one message between peers; `inputs` are its tensors that need a gradient."""

    def __init__(self, peer: Peer, blobs: list[bytes] | None = None, outputs: list | None = None):
        super().__init__()
        self.peer, self.blobs, self.outputs = peer, blobs or [], outputs
        self.inputs: list[Tensor] = []
        self.seen: dict[int, int] = {}  # tensors that occur again stay one tensor
        self.tensors: list[Tensor] = []

    def tensor(self, value: Tensor) -> dict[str, Any]:
        if (known := self.peer.modules.parameter(value)) is not None:
            return {"parameter": known}
        if id(value) in self.seen:
            return {"again": self.seen[id(value)]}
        self.seen[id(value)] = len(self.tensors)
        self.tensors.append(value)
        if value.requires_grad:
            self.inputs.append(value)
            if self.outputs is not None:
                self.outputs.append(super().tensor(value))
                return {"output": len(self.outputs) - 1}
        return super().tensor(value)

    def received(self, value: Tensor, node: dict[str, Any]) -> Tensor:
        if node["grad"]:
            value.requires_grad_()
            self.inputs.append(value)
            with torch.enable_grad():
                value = value if node["leaf"] else value.clone()
        self.tensors.append(value)
        return value

    def place_of(self, tensor: list[Tensor]) -> int:
        """Where a tensor is among those sent; -1 for none."""
        return next((n for n, each in enumerate(self.tensors) if tensor and each is tensor[0]), -1)

    def refer(self, value: Any) -> dict[str, Any]:
        return self.peer.refer(value, self)

    def resolve(self, node: dict[str, Any]) -> Any:
        if "again" in node:
            return self.tensors[node["again"]]
        if "output" in node and self.outputs is not None:
            self.tensors.append(self.outputs[node["output"]])
            return self.tensors[-1]
        return self.peer.resolve(node, self)


class Remote:
    """Stands for an object of the other process: each use of it is a call.

    Two are equal if they are the same: an object may not say itself that it is what was expected.
    """

    def __init__(self, peer: Peer, number: int, about: dict[str, Any]):
        object.__setattr__(self, "_peer", peer)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_about", about)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._peer.call(self._number, None, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "__signature__" and self._about["names"] is not None:
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            return inspect.Signature([inspect.Parameter(n, kind) for n in self._about["names"]])
        if name.startswith("__") or not self._peer.attributes:
            raise AttributeError(f"a {type(self).__name__} has no {name}")
        return self._peer.call(self._number, name, verb="get")

    def __setattr__(self, name: str, value: Any) -> None:
        self._peer.call(self._number, name, (value,), verb="set")

    def __iter__(self) -> Iterator[Any]:
        each = self._peer.call(self._number, "__iter__")
        while True:
            try:
                yield self._peer.call(each._number, "__next__")
            except StopIteration:
                return


def session_of(answer: Any) -> Any:
    """The session that an answer, or one of several, is in; None for those of this process."""
    given = answer if isinstance(answer, tuple) else (answer,)
    return next((each._session for each in given if isinstance(each, Remote)), None)


@contextlib.contextmanager
def replaced(answer: Any, path: str, value: Any) -> Iterator[None]:
    """While this lasts, a function such as "torch:save" is another, also for a remote answer."""
    module, _, name = path.partition(":")
    session, here = session_of(answer), import_module(module)
    kept = getattr(here, name)
    setattr(here, name, value)
    try:
        if session:
            session.peer.call(0, "replace", (path, value))
        yield
    finally:
        setattr(here, name, kept)
        if session:
            session.peer.call(0, "replace", (path, None))


def _forward(name: str) -> Callable:
    def method(self: Remote, *args: Any) -> Any:
        return self._peer.call(self._number, name, args)

    return method


for _name in ("len", "getitem", "setitem", "contains", "int", "float", "index", "next"):
    setattr(Remote, f"__{_name}__", _forward(f"__{_name}__"))


class Attach(torch.autograd.Function):
    """Results of the other process, in the graph of the inputs that they depend on."""

    @staticmethod
    def forward(ctx: Any, link: Link, *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.link = link
        return tuple(link.outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, *ctx.link.backward(grads))


def leaves_of(results: list[Tensor], given: list[Tensor]) -> list[Tensor]:
    """The leaves, such as weights, that results depend on apart from those that were given."""
    found: dict[int, Tensor] = {}
    nodes, seen = [each.grad_fn for each in results], set()
    while nodes:
        if (node := nodes.pop()) is not None and node not in seen:
            seen.add(node)
            nodes += [each for each, _ in node.next_functions]
            if hasattr(node, "variable"):
                found[id(node.variable)] = node.variable
    return [each for each in found.values() if all(each is not one for one in given)]


class Link:
    """The part of a graph that is in the other process, until it is freed."""

    def __init__(self, peer: Peer, number: int, outputs: list[Tensor], leaves: list[Tensor]):
        self.peer, self.number, self.outputs, self.leaves = peer, number, outputs, leaves
        self.blank = torch.zeros((), requires_grad=True)  # there may be no other input

    def backward(self, grads: tuple[Any, ...]) -> list[Any]:
        """The gradients of the inputs, and of leaves, which calls back reach meanwhile."""
        before = [leaf.grad for leaf in self.leaves]
        for leaf in self.leaves:
            leaf.grad = None
        found = self.peer.call(self.number, None, grads, verb="backward")
        reached = [leaf.grad for leaf in self.leaves]
        for leaf, old in zip(self.leaves, before, strict=True):
            leaf.grad = old
        return [None, *found, *reached]

    def __del__(self) -> None:
        self.peer.freed.append(self.number)


def code_of(function: Any) -> tuple[bytes, dict[str, Any]] | None:
    """The code of a function that needs only numbers and libraries, and the numbers; or None.

    The other process then calls it without this one, which saves time; what it makes of the results
    is compared all the same.
    """
    if not isinstance(function, types.FunctionType) or function.__closure__:
        return None
    code, found = function.__code__, {}
    if function.__defaults__ or function.__kwdefaults__ or code.co_flags & inspect.CO_GENERATOR:
        return None
    if any(isinstance(constant, types.CodeType) for constant in code.co_consts):
        return None
    for name in {*code.co_names} & function.__globals__.keys():
        value = function.__globals__[name]
        if name in LIBRARIES and isinstance(value, types.ModuleType):
            continue
        if not isinstance(value, int | float | str):
            return None
        found[name] = value
    return marshal.dumps(code), found


def restore(old: Any, new: Any) -> None:
    """Make a mutable value what it has become on the other side."""
    if isinstance(old, Tensor) and isinstance(new, Tensor) and not isinstance(old, nn.Parameter):
        if old.shape == new.shape and old.dtype == new.dtype and not torch.equal(old, new):
            with torch.no_grad():
                old.data.copy_(new)
        if new.requires_grad and not old.requires_grad and old.is_leaf:
            old.requires_grad_()
    elif isinstance(old, torch.Generator):
        old.set_state(new.get_state())
    elif isinstance(old, list) and isinstance(new, list):
        for mine, yours in zip(old, new, strict=False):
            restore(mine, yours)
        old[:] = [a if same_kind(a, b) else b for a, b in zip(old, new, strict=False)] + new[
            len(old) :
        ]
    elif isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() & new.keys():
            restore(old[key], new[key])
        kept = {k: old[k] if k in old and same_kind(old[k], v) else v for k, v in new.items()}
        old.clear()
        old.update(kept)
    elif isinstance(old, tuple) and isinstance(new, tuple):
        for mine, yours in zip(old, new, strict=False):
            restore(mine, yours)


def same_kind(old: Any, new: Any) -> bool:
    """Whether `restore` has made a value the same as another, so that the object may stay."""
    if isinstance(old, Tensor) and isinstance(new, Tensor):
        return old.shape == new.shape and old.dtype == new.dtype
    return type(old) is type(new) and isinstance(old, list | dict | tuple | torch.Generator)
