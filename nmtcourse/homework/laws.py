"""The laws that hold for every task: what an answer may change, keep, call and give away.

Arguments stay as they are, and so do earlier results, settings and, where a task has a seed, the
global generators. A turn is one run of a check. In the next one an answer meets the same objects
with other numbers, and what it returned before is emptied: a result hangs on the arguments alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import starmap
from types import new_class
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nmtcourse.homework.compare import Finding, holds
from nmtcourse.homework.operations import Without, sealing

CONTAINERS = (list, tuple, dict, set)
CHANGED = "a later call changed an earlier result"


class Careful:
    """A student's function that may not change what it is given, or call what is forbidden.

    `given` has copies of the arguments of the last call. A `seeded` function has a seed or a
    generator, and may not use a global one. It may change the arguments that it `changes`. With a
    number `only`, calls get the arguments of the turn before, except for one.
    """

    def __init__(
        self,
        function: Callable,
        forbidden: tuple[str, ...] = (),
        sealed: tuple[str, ...] = (),
        seeded: bool = False,
        changes: tuple[str, ...] = (),
    ):
        self.function, self.mode, self.sealed = function, Without(forbidden), sealed
        self.__wrapped__ = function  # where `inspect` finds the names of the arguments
        self.seeded, self.changes, self.busy = seeded, changes, False
        self.forget()

    def forget(self) -> None:
        """Begin anew, as if it had never been called."""
        self.only: int | None = None
        self.given: dict[str, Any] = {}
        self.calls: list[tuple[list, list]] = []  # arguments in this turn, and copies of them
        self.earlier: list[tuple[list, list]] = []  # those of the turn before
        self.results: list[tuple[Any, Any]] = []  # and copies of what they must stay

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        used = self.renewed(args)
        # Copies: a report shows what the answer was given, whatever becomes of it afterwards.
        self.given = named_arguments(self.function, [*map(copied, used)], kwargs)
        return self.watched(self.function, used, kwargs)

    def watched(self, function: Callable, args: Any, kwargs: Any, owner: Any = None) -> Any:
        """The result of a function, or of a method of `owner`."""
        given = named_arguments(function, args, kwargs)
        chance, before = chances() if self.seeded else None, settings()
        watched = self.mode if self.mode.forbidden else contextlib.nullcontext()
        failed = result = None
        same = {name: value for name, value in given.items() if name not in self.changes}
        with unchanged(**same), lending() as lent:
            try:
                with watched, sealing(self.sealed):
                    result = function(*map(lent, args), **{k: lent(v) for k, v in kwargs.items()})
            except Exception as error:  # the laws hold all the same
                failed = error
        for name, value in settings().items():
            holds(value == before[name], f"a call changed {name} to {value}", f"{before[name]}")
        if chance is not None and not alike(chance, chances()):
            cause = (
                "Draw from a generator of your own, such as `torch.Generator().manual_seed(seed)`."
            )
            raise Finding("a global random generator was used", "an answer without it", cause)
        if failed is not None:
            raise failed
        return self.taken(result, [given, owner])

    def renewed(self, args: tuple) -> list[Any]:
        """The objects of the same call in the turn before, with the values of now."""
        place, used = len(self.calls), [*args]
        if place < len(self.earlier) and len(self.earlier[place][0]) == len(args):
            objects, before = self.earlier[place]
            if self.only is not None:
                used = mixed(before, used, self.only)
            memo: dict[int, int] = {}
            used = [refilled(old, new, memo) for old, new in zip(objects, used, strict=True)]
        self.calls.append((used, [copied(value) for value in used]))
        return used

    def taken(self, result: Any, given: Any) -> Any:
        """The result in new lists, while those that the answer may have kept are emptied."""
        if isinstance(result, nn.Module):
            return result  # its weights may change
        own = {key_of(part) for part in parts(given)}
        for part in [*parts(result)]:
            if isinstance(part, Tensor) and key_of(part) not in own:
                self.results.append((part, kept(part)))
        found = copied(result, tensors=False)
        for part in [*parts(result)]:
            if type(part) in (list, dict, set) and key_of(part) not in own:
                if part and any(part is earlier for earlier, _ in self.results):  # emptied, filled
                    raise Finding(CHANGED, "results that stay")
                part.clear()
                self.results.append((part, kept(part)))
        return found

    def settle(self) -> None:
        """End a turn. Raise Finding if a call has changed an earlier result; spoil all of them.

        A result belongs to the caller: what happens to it must not reach the next call.
        """
        if not all(alike(before, kept(result)) for result, before in self.results):
            raise Finding(CHANGED, "results that stay")
        for result, _ in self.results:
            if isinstance(result, Tensor):
                with contextlib.suppress(RuntimeError):  # several numbers in one place
                    result.detach().zero_()
        self.results = [(result, kept(result)) for result, _ in self.results]
        self.earlier, self.calls = self.calls, []


class CarefulClass(Careful):
    """A student's class whose objects have guarded `methods`, if it may have a subclass.

    The first object is made twice, since two share nothing.
    """

    made: list[Any] | None = None
    built: Mapping[str, Any] = {}  # with what the last object was made

    def __init__(self, made: Any, methods: list[str]):
        super().__init__(made)
        if inspect.isclass(made):
            own: dict[str, Any] = {n: self.guarded(n) for n in methods if hasattr(made, n)}
            own |= {"__module__": made.__module__, "__doc__": made.__doc__}
            with contextlib.suppress(Exception):  # raised by the student's `__init_subclass__`
                self.function = new_class(made.__name__, (made,), {}, lambda d: d.update(own))

    def guarded(self, name: str) -> Callable:
        """A method that is watched, except where another method calls it."""

        def method(owner: Any, *args: Any, **kwargs: Any) -> Any:
            bound = getattr(super(self.function, owner), name)
            if self.busy:
                return bound(*args, **kwargs)
            self.busy, used = True, self.renewed(args)
            self.given = {**self.built, **named_arguments(bound, [*map(copied, used)], kwargs)}
            try:
                return self.watched(bound, used, kwargs, owner)
            finally:
                self.busy = False

        return method

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = named_arguments(self.__wrapped__, args, kwargs)
        self.built = self.given = {name: copied(value) for name, value in given.items()}
        with unchanged(**given):
            made = self.function(*args, **kwargs)
            self.made = self.made or [made, self.function(*args, **kwargs)]
        one, other = ({*map(key_of, tensors_of(each))} for each in self.made)
        if one & other:
            raise Finding("two objects share a tensor", "objects that share nothing")
        return made


def tensors_of(module: Any) -> list[Tensor]:
    """The tensors of a module that are not empty; none of another object."""
    found = [*module.parameters(), *module.buffers()] if isinstance(module, nn.Module) else []
    return [tensor for tensor in found if tensor.numel()]


def methods_of(solution: Any) -> list[str]:
    """The methods of a class that a check may call."""
    own = vars(solution) if inspect.isclass(solution) else {}
    return [name for name, each in own.items() if callable(each) and name[0] != "_"]


def named_arguments(function: Callable, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name."""
    names = [f"argument {n}" for n in range(len(args))]
    with contextlib.suppress(TypeError, ValueError):  # functions written in C may have no signature
        names = [*inspect.signature(function).parameters, *names]
    return dict(zip(names, args, strict=False)) | kwargs


def parts(value: Any) -> Iterator[Any]:
    """A value and all that is in it: lists, their items, weights."""
    yield value
    inner: Any = value if type(value) in CONTAINERS else ()
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, nn.Module):
        inner = value.state_dict(keep_vars=True).values()
    for each in inner:
        yield from parts(each)


def key_of(value: Any) -> int:
    """What two values that share memory have in common."""
    if isinstance(value, Tensor):
        return value.untyped_storage().data_ptr()
    return -id(value)


def copied(value: Any, tensors: bool = True) -> Any:
    """A copy of lists and the like, and of their tensors; other objects stay."""
    if isinstance(value, Tensor) and tensors and not isinstance(value, nn.Parameter):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) is dict:
        return {key: copied(each, tensors) for key, each in value.items()}
    if type(value) in CONTAINERS:
        return type(value)(copied(each, tensors) for each in value)
    return value


def mixed(old: list, new: list, number: int) -> list[Any]:
    """The old arguments, except for one of those that differ."""
    places = [n for n, pair in enumerate(zip(old, new, strict=True)) if not alike(*map(kept, pair))]
    chosen = places[number % len(places)] if places else len(old)
    return [
        crossed(*pair) if n == chosen else pair[0]
        for n, pair in enumerate(zip(old, new, strict=True))
    ]


def crossed(old: Any, new: Any) -> Any:
    """The new value; a dictionary has the old keys with new values."""
    if type(old) is type(new) is dict:
        return dict(zip(old, new.values(), strict=False))
    return new


def refilled(old: Any, new: Any, memo: dict[int, int]) -> Any:
    """The old object with the new value where it can have it, otherwise the new one."""
    if type(old) is not type(new) or memo.setdefault(id(old), id(new)) != id(new):
        return new
    if isinstance(new, Tensor):
        plain = not (old.requires_grad or new.requires_grad)
        if plain and (old.shape, old.dtype) == (new.shape, new.dtype):
            with contextlib.suppress(RuntimeError):  # several numbers in one place
                return old.copy_(new)
        return new
    if type(new) is list:
        pairs = zip(old, new, strict=False)
        old[:] = [*starmap(lambda a, b: refilled(a, b, memo), pairs), *new[len(old) :]]
    elif type(new) is dict:
        filled = {k: refilled(old.get(k), v, memo) for k, v in new.items()}
        old.clear()
        old.update(filled)
    elif type(new) is set:
        old.clear()
        old.update(new)
    else:
        return new
    return old


@contextlib.contextmanager
def unchanged(**given: Any) -> Iterator[None]:
    """Raise Finding if what a caller can see of these values is different afterwards."""
    before = {name: kept(value) for name, value in given.items()}
    yield
    for name, value in given.items():
        if not alike(before[name], kept(value)):
            cause = (
                "Operations such as `x -= 1`, `sort()` or `update` change what the caller holds."
            )
            raise Finding(f"`{name}` was changed", "unchanged inputs", cause)


@contextlib.contextmanager
def lending() -> Iterator[Callable[[Any], Any]]:
    """Lend functions out. Raise Finding if something that one of them returned was changed."""
    brought: list[tuple[Any, Any]] = []

    def lent(value: Any) -> Any:
        if isinstance(value, torch.nn.Module | type) or not callable(value):
            return value

        def called(*args: Any, **kwargs: Any) -> Any:
            result = value(*args, **kwargs)
            if isinstance(result, torch.Tensor | list | dict | set | tuple):
                brought.append((result, kept(result)))
            return result

        return called

    yield lent
    if not all(alike(before, kept(result)) for result, before in brought):
        cause = "A result belongs to the function that returned it: work on a copy."
        raise Finding("what a given function returned was changed", "unchanged results", cause)


@contextlib.contextmanager
def unmoved(model: torch.nn.Module) -> Iterator[None]:
    """Raise Finding if a part of the model is in another mode afterwards, or trains otherwise."""

    def standing() -> list[tuple[str, bool]]:
        modes = [(name or "the model", part.training) for name, part in model.named_modules()]
        return modes + [(name, each.requires_grad) for name, each in model.named_parameters()]

    before, parts = standing(), len([*model.modules()])
    yield
    for place, ((name, was), (_, now)) in enumerate(zip(before, standing(), strict=False)):
        if was != now and place < parts:
            cause = "`train()` and `eval()` change a model that belongs to the caller."
            raise Finding(f"{name} is in training mode: {now}", f"{was}", cause)
        if was != now:
            raise Finding(f"{name} requires a gradient: {now}", f"{was}")


def settings() -> dict[str, Any]:
    """Settings of the process that a function has to leave as they are."""
    return {
        "torch's default type": torch.get_default_dtype(),
        "whether gradients are computed": torch.is_grad_enabled(),
        "the number of torch's threads": torch.get_num_threads(),
        "whether torch is deterministic": torch.are_deterministic_algorithms_enabled(),
        "the recursion limit": sys.getrecursionlimit(),
    }


def chances() -> tuple:
    """The states of the global random generators."""
    numbers = np.random.get_state(legacy=False)
    return torch.get_rng_state(), random.getstate(), repr(numbers)


def kept(value: Any) -> Any:
    """A copy of what a caller can see of a value."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone(), value.requires_grad
    if isinstance(value, dict):
        return [(key, kept(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [kept(each) for each in value]
    if isinstance(value, set):
        return frozenset(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return kept(vars(value))
    if isinstance(value, torch.nn.Module):
        modes = [(module.training, len(module._forward_hooks)) for module in value.modules()]
        named = [*value.named_parameters(), *value.named_buffers()]
        return modes, [(name, kept(tensor)) for name, tensor in named]
    return value


def alike(one: Any, other: Any) -> bool:
    """Whether two copies show the same, bit by bit."""
    if isinstance(one, torch.Tensor):
        if (one.shape, one.dtype, one.device) != (other.shape, other.dtype, other.device):
            return False
        if one.is_meta:  # it has no numbers
            return True
        return bool(((one == other) | ((one != one) & (other != other))).all())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return one is other or bool(one == other)
