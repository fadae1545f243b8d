"""Modules in two processes: weights are kept equal on both sides, and the owner computes.

The side that does not own a module has a mirror of it, with the same tree, names and weights. What
is done to the weights of either is done to the other before the next call.
"""

from __future__ import annotations

import copy
import dataclasses
from importlib import import_module
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from nmtcourse.homework.states import (
    SHARED,
    State,
    adopt,
    checked,
    packed,
    shared_class,
    simple,
    state_of,
    tensors_of,
    unpacked,
)
from nmtcourse.homework.wire import Damaged

if TYPE_CHECKING:
    from nmtcourse.homework.peer import Peer
    from nmtcourse.homework.values import Values

HOOKS = ("register_forward_hook", "register_forward_pre_hook")


def shared_fields(value: Any) -> tuple[str, dict[str, Any]] | None:
    """The class and the fields of a dataclass that both sides have."""
    if not dataclasses.is_dataclass(value) or not (path := shared_class(type(value))):
        return None
    return path, {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}


def found_class(path: Any) -> Any:
    """The class with that path, in a package that both sides have."""
    module, _, name = str(path).partition(":")
    found: Any = import_module(module) if module.partition(".")[0] in SHARED else None
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise Damaged(f"there is no class {str(path)[:80]}")
    return found


class Mirror(nn.Module):
    """Stands for a module of the other process."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        peer, number, path = self.__dict__["_place"]
        return peer.call(number, None, args, kwargs, path=path)

    forward = __call__

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "_place" not in self.__dict__ or name.startswith("__"):
                raise
        peer, number, path = self.__dict__["_place"]
        return peer.call(number, name, verb="get", path=path)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        self.__dict__["_place"][0].modules.refresh()  # it may share them with another module
        return super().named_parameters(*args, **kwargs)

    def __deepcopy__(self, memo: Any) -> Any:
        peer, number, path = self.__dict__["_place"]
        return peer.call(number, None, verb="copy", path=path)


def _hook(name: str) -> Any:
    def register(self: Mirror, hook: Any, **options: Any) -> Any:
        peer, number, path = self.__dict__["_place"]
        return peer.call(number, name, (hook,), options, path=path)

    return register


for _name in HOOKS:
    setattr(Mirror, _name, _hook(_name))


def copied(module: Any) -> Any:
    """A copy of a module of this side."""
    return copy.deepcopy(module)


class Modules:
    """The modules that one peer shares with the other: its own, and mirrors."""

    def __init__(self, peer: Any):
        self.peer = peer
        self.clear()

    def clear(self) -> None:
        """Share nothing any more."""
        self.all: dict[tuple[bool, int], nn.Module] = {}  # by whether it is own, and its number
        self.places: dict[int, tuple[int, str]] = {}  # of an own module or part of one, by id()
        self.states: dict[tuple[bool, int], State] = {}  # as both sides know them

    def refer(self, module: nn.Module, values: Values) -> dict[str, Any]:
        """What stands for a module."""
        if isinstance(module, Mirror):
            _, number, path = module.__dict__["_place"]
            return {"part": [True, number, path]}
        if id(module) in self.places:
            number, path = self.places[id(module)]
            if self.all[True, number].get_submodule(path) is module:
                return {"part": [False, number, path]}
        number = self.peer.number(module)["theirs"]
        self.all[True, number] = module
        named = [*module.named_modules()]
        self.places |= {id(each): (number, path) for path, each in named}
        state = self.states[True, number] = state_of(module)
        return {"module": number, "tree": tree_of(module), "state": values._blob(packed(state))}

    def resolve(self, node: dict[str, Any], values: Values) -> nn.Module:
        """The module that a reference stands for: an own one, or a mirror."""
        if "part" in node:
            own, number, path = node["part"]
            return self.all[bool(own), number].get_submodule(path)
        if "module" not in node:
            raise Damaged(f"unknown kind of value: {[*node][:3]}")
        number, state = int(node["module"]), unpacked(values._at(node["state"]))
        made = mirror_of(node["tree"], self.peer, number)
        self.all[False, number] = made
        adopt(made, state, grow=True)
        self.states[False, number] = state_of(made)
        return made

    def changed(self, values: Values) -> list[Any]:
        """The states that the other side does not know yet."""
        found = []
        for key, module in self.all.items():
            state = state_of(module)
            if state != self.states[key]:
                self.states[key] = state
                found.append([not key[0], key[1], values._blob(packed(state))])
        return found

    def refresh(self) -> None:
        """Let the other side know of changes, and hear of those that follow from them."""
        if any(state_of(module) != self.states[key] for key, module in self.all.items()):
            self.peer.call(0, None, verb="sync")

    def update(self, states: Any, values: Values) -> None:
        """Take over states of the other side."""
        for own, number, blob in states:
            state, key = unpacked(values._at(blob)), (bool(own), int(number))
            adopt(self.all[key], state, grow=self.peer.trusts or not own)
            self.states[key] = state_of(self.all[key])

    def parameters(self) -> list[tuple[list[Any], Tensor]]:
        """The parameters that need a gradient, with what stands for each on the other side."""
        return [
            ([not own, number, name], parameter)
            for (own, number), module in self.all.items()
            for name, parameter in nn.Module.named_parameters(module)
            if parameter.requires_grad
        ]

    def parameter(self, value: Tensor) -> list[Any] | None:
        """What stands for a parameter of a shared module, or None."""
        if isinstance(value, nn.Parameter):
            for (own, number), module in self.all.items():
                for name, each in nn.Module.named_parameters(module):
                    if each is value:
                        return [not own, number, name]
        return None

    def found(self, known: Any) -> Tensor:
        """The parameter that a reference stands for."""
        own, number, name = known
        return self.all[bool(own), number].get_parameter(name)


def tree_of(module: nn.Module) -> list[Any]:
    """The parts of a module: path, class, plain attributes, or the path of the same part."""
    first: dict[int, str] = {}
    rows: list[Any] = []
    for path, part in module.named_modules(remove_duplicate=False):
        if id(part) in first:
            rows.append([path, None, first[id(part)], {}, []])
            continue
        first[id(part)] = path
        kind = next((p for k in type(part).__mro__ if (p := shared_class(k))), "")
        absent = [
            [n for n, each in tensors.items() if each is None] for tensors in tensors_of(part)
        ]
        rows.append([path, type(part).__name__, kind, simple(part), absent])
    return rows


def mirror_of(tree: Any, peer: Peer, number: int) -> nn.Module:
    """A mirror with that tree, still without weights."""
    made: dict[str, nn.Module] = {}
    for path, name, kind, attributes, absent in tree:
        if name is None:
            part = made[kind]
        else:
            base = found_class(kind)
            if not issubclass(base, nn.Module):
                raise Damaged(f"{kind} is no module")
            mirror: Any = type(str(name)[:80], (Mirror, base), {})
            part = mirror.__new__(mirror)
            nn.Module.__init__(part)
            part.__dict__["_place"] = (peer, number, path)
            part.__dict__.update(checked(attributes))
            for tensors, names in zip(tensors_of(part), absent, strict=True):
                tensors.update(dict.fromkeys(map(str, names)))
        made[path] = part
        if path:
            parent, _, leaf = path.rpartition(".")
            made[parent]._modules[leaf] = part
    return made[""]
