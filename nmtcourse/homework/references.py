"""The books of a peer: numbers of its own objects, and stand-ins for those of the other side."""

from __future__ import annotations

import contextlib
import inspect
import marshal
import re
import types
import weakref
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from nmtcourse.homework import mirrors
from nmtcourse.homework.messages import Told, rebuilt, told
from nmtcourse.homework.values import LIBRARIES, Remote, Values, code_of

OPTIMIZER = {"step", "zero_grad", "state_dict", "load_state_dict", "param_groups", "defaults"}
KEPT = 100  # numbers below are never forgotten


class References:
    """What stands for a value that is no data, and the value that a reference stands for."""

    def __init__(self, trusts: bool):
        self.trusts = trusts
        self.own: dict[int, Any] = {}  # what the other side has a number of
        self.numbers: dict[int, int] = {}  # of these, by id()
        self.theirs: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.modules = mirrors.Modules(self)
        self.raised: dict[int, BaseException] = {}  # by the judge, and told to the other side
        self.count = KEPT
        self.attributes = True  # of what the other side has: methods of an object, for example

    def next(self) -> int:
        """A new number."""
        self.count += 1
        return self.count

    def refer(self, value: Any, values: Values) -> dict[str, Any]:
        """What stands for a value that is no data."""
        if isinstance(value, Remote) and value._peer is self:
            return {"yours": value._number}
        if isinstance(value, nn.Module):
            return self.modules.refer(value, values)
        if not self.trusts and (code := code_of(value)):
            return {"code": values._blob(code[0]), "names": values.encode(code[1])}
        if path := mirrors.shared_class(value):
            return {"class": path}
        if fields := mirrors.shared_fields(value):
            return {"made": fields[0], "fields": values.encode(fields[1])}
        return self.number(value)

    def number(self, value: Any, number: int | None = None) -> dict[str, Any]:
        """Number an object of this side, and describe it."""
        known = self.numbers.get(id(value)) if number is None else number
        number = self.next() if known is None else known
        self.own[number], self.numbers[id(value)] = value, number
        kind = value if isinstance(value, type) else type(value)
        names = None
        with contextlib.suppress(TypeError, ValueError):
            names = [*inspect.signature(value).parameters] if callable(value) else None
        about = {"type": kind.__name__, "names": names, "class": isinstance(value, type)}
        return {"theirs": number, **about}

    def resolve(self, node: dict[str, Any], values: Values) -> Any:
        """The value that a reference stands for."""
        if "yours" in node:
            return self.own[node["yours"]]
        if "theirs" in node:
            return self.remote(node)
        if "code" in node and self.trusts:
            names = values.decode(node["names"])
            code = marshal.loads(values._at(node["code"]))
            return types.FunctionType(code, names | {n: import_module(n) for n in LIBRARIES})
        if "made" in node:
            return mirrors.found_class(node["made"])(**values.decode(node["fields"]))
        if "class" in node:
            return mirrors.found_class(node["class"])
        return self.modules.resolve(node, values)

    def remote(self, node: dict[str, Any]) -> Remote:
        """The stand-in for an object of the other side."""
        number = int(node["theirs"])
        known = self.theirs.get(number)
        if known is None or known._about != node:  # a number that another answer had before
            kind = type(str(node["type"])[:80], (Remote,), {})
            known = self.theirs[number] = kind(self, number, node)
        return known

    def require_harmless(self, verb: str, target: Any, name: str | None) -> None:
        """A student's process may call what it was given, and read an optimizer; nothing else."""
        if verb in ("call", "copy") and name is None and callable(target):
            if not isinstance(target, type):
                return
        if verb in ("call", "get") and isinstance(target, torch.optim.Optimizer):
            if name in OPTIMIZER:
                return
        if (
            verb == "get"
            and name
            and re.fullmatch(r"[a-z]\w*", name)
            and hasattr(target, "__dict__")
        ):
            value = vars(target).get(name)
            if isinstance(value, int | float | str | Tensor) or mirrors.shared_fields(value):
                return
        raise AttributeError(f"{type(target).__name__} has no {name or verb}")

    def told(self, error: BaseException) -> Told:
        """An exception as data; the judge keeps its own, and gets them back as they were."""
        found = told(error)
        if not self.trusts and found.carried is None:
            found.number = self.next()
            self.raised[found.number] = error
        return found

    def rebuilt(self, told: Told) -> BaseException:
        """The exception that the other side has told of."""
        return rebuilt(told) if told.carried is None else self.raised[told.carried]
