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
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import FunctionType, MethodType, new_class
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nmtcourse.homework.compare import Finding, Forged
from nmtcourse.homework.operations import Without, sealing

CONTAINERS = (list, tuple, dict, set)
CHANGED = "a later call changed an earlier result"
OURS = [Path(__file__).parents[2] / name for name in ("nmtlib", "nmtcheck", "nmtcourse")]
PLACE = ", in line "


class Broken(Finding):
    """A law does not hold."""


class Reached(Forged):
    """A call is reached whose arguments are asked for; no check catches it."""

    def __init__(self, arguments: list[Any]):
        super().__init__()
        self.arguments = arguments


@dataclasses.dataclass
class Call:
    """A call of an answer: copies of its arguments, and of what came back or was raised.

    `name` is "call", "__init__" or that of a method of `owner`, whose weights and mode before the
    call are its `state`. `place` counts the calls of a `turn`.
    """

    name: str
    owner: Any
    arguments: dict[str, Any]  # by name
    turn: int
    place: int
    state: Any = None
    value: Any = None
    raised: str = ""  # an exception in one line


# A turn is a run of a check. In the next turn, an answer meets the objects of the turn before,
# refilled with the numbers of now:
#
#     turn 0   check: answer(a), a = tensor([1, 2])     answer gets a
#     turn 1   check: answer(b), b = tensor([5, 7])     answer gets a, which is now tensor([5, 7])
#
# An answer that has stored its results by `id(a)` returns the old one, and the check sees it. With
# `only` = 0, and two arguments that differ from those of turn 0, the first of them has its new
# numbers and the second its old ones: so is found what is stored by one argument alone.
class Careful:
    """A student's function that may not change what it is given, or call what is forbidden.

    `arguments` has copies of the arguments of the last call. A `seeded` function has a seed or a
    generator, and may not use a global one. It may change the arguments that it `changes`. With a
    number `only`, calls get the arguments of the turn before, except for one. The laws are not
    looked at if `watched` is False: for the solution, and for what was watched elsewhere.
    """

    def __init__(
        self,
        function: Callable,
        forbidden: tuple[str, ...] = (),
        sealed: tuple[str, ...] = (),
        seeded: bool = False,
        changes: tuple[str, ...] = (),
        watched: bool = True,
    ):
        self.function, self.watched = function, watched
        self.__wrapped__ = function  # where `inspect` finds the names of the arguments
        self.mode = Without(forbidden)
        self.sealed, self.seeded, self.changes = sealed, seeded, changes
        self.busy = False  # in a call of a method
        self.only: int | None = None
        self.arguments: dict[str, Any] = {}
        self.calls: list[tuple[list, list]] = []  # arguments in this turn, and copies of them
        self.earlier: list[tuple[list, list]] = []  # those of the turn before
        self.results: list[tuple[Any, Any]] = []  # and snapshots of what they must stay
        self.history: list[Call] = []  # of all turns
        self.turn = 0
        self.wanted: int | None = None  # the place of a call whose arguments are asked for

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        refilled = self.refill_arguments(args)
        # Copies: a report shows what the answer was given, whatever becomes of it afterwards.
        copies = [copy_value(value) for value in refilled]
        self.arguments = name_arguments(self.function, copies, kwargs)
        self.note_call("call", None, self.arguments)
        return self.call_under_laws(self.function, refilled, kwargs)

    def note_call(self, name: str, owner: Any, arguments: dict[str, Any]) -> None:
        """Begin a call in the history. Raises Reached if its arguments are asked for."""
        place = sum(call.turn == self.turn for call in self.history)
        if place == self.wanted:
            raise Reached([*arguments.values()])
        call = Call(name, owner, arguments, self.turn, place)
        if isinstance(owner, nn.Module):
            tensors = {name: tensor.detach().clone() for name, tensor in owner.state_dict().items()}
            call.state = tensors, owner.training
        self.history.append(call)

    def call_under_laws(self, function: Callable, args: Any, kwargs: Any, owner: Any = None) -> Any:
        """The result of a function, or of a method of `owner`. Raises Finding for a broken law."""
        if not self.watched:
            try:
                result = function(*args, **kwargs)
            except Exception as raised:
                self.history[-1].raised = describe(raised)
                raise
            self.history[-1].value = copy_value(result)
            return result
        arguments = name_arguments(function, args, kwargs)
        fixed = {name: value for name, value in arguments.items() if name not in self.changes}
        settings = process_settings()
        random_states: tuple = ()
        if self.seeded:
            random_states = global_random_states()
        forbidding: Any = contextlib.nullcontext()
        if self.mode.forbidden:
            forbidding = self.mode
        error = result = None
        with unchanged(**fixed), lending() as lend:
            try:
                with forbidding, sealing(self.sealed):
                    lent = {name: lend(value) for name, value in kwargs.items()}
                    result = function(*map(lend, args), **lent)
                self.history[-1].value = copy_value(result)
            except Exception as raised:  # the laws hold all the same
                error = raised
                self.history[-1].raised = describe(raised)
        for name, value in process_settings().items():
            before = settings[name]
            if value != before:
                raise Broken(f"a call changed {name} to {value}", f"{before}")
        if self.seeded and not snapshots_equal(random_states, global_random_states()):
            cause = (
                "Draw from a generator of your own, such as `torch.Generator().manual_seed(seed)`."
            )
            raise Broken("a global random generator was used", "an answer without it", cause)
        if error is not None:
            raise error
        return self.hand_over(result, [arguments, owner])

    def refill_arguments(self, args: tuple) -> list[Any]:
        """The objects of the same call in the turn before, with the values of now."""
        number = len(self.calls)  # of the call in its turn
        values = [*args]
        if number < len(self.earlier) and len(self.earlier[number][0]) == len(args):
            objects, old_values = self.earlier[number]
            if self.only is not None:
                values = renew_one_argument(old_values, values, self.only)
            memo: dict[int, int] = {}
            pairs = zip(objects, values, strict=True)
            values = [refill(old, new, memo) for old, new in pairs]
        self.calls.append((values, [copy_value(value) for value in values]))
        return values

    def hand_over(self, result: Any, arguments: Any) -> Any:
        """The result in new lists, while those that the answer may have stored are emptied.

        Only the parts of a result that are no parts of the arguments belong to the answer.
        """
        if isinstance(result, nn.Module):
            return result  # its weights may change
        of_arguments = {storage_key(part) for part in walk_parts(arguments)}
        new_parts = [part for part in walk_parts(result) if storage_key(part) not in of_arguments]
        for part in new_parts:
            if isinstance(part, Tensor):
                self.results.append((part, snapshot(part)))
        new_lists = copy_value(result, tensors=False)
        for part in new_parts:
            if type(part) in (list, dict, set):
                # One of an earlier call was emptied: the answer has filled it again.
                if part and any(part is earlier for earlier, _ in self.results):
                    raise Broken(CHANGED, "results that stay")
                part.clear()
                self.results.append((part, snapshot(part)))
        return new_lists

    def begin_turn(self, only: int | None) -> None:
        """Begin a turn, in which calls get old arguments except for one if there is an `only`."""
        self.calls = []
        self.only = only
        self.turn += 1

    def end_turn(self) -> None:
        """End a turn. Raise Finding if a call has changed an earlier result; spoil all of them.

        A result belongs to the caller: what happens to it must not reach the next call.
        """
        if not all(snapshots_equal(before, snapshot(result)) for result, before in self.results):
            raise Broken(CHANGED, "results that stay")
        for result, _ in self.results:
            if isinstance(result, Tensor):
                with contextlib.suppress(RuntimeError):  # several numbers in one place
                    result.detach().zero_()
        self.results = [(result, snapshot(result)) for result, _ in self.results]
        self.earlier = self.calls
        self.calls = []


class CarefulClass(Careful):
    """A student's class whose objects have guarded `methods`, if it may have a subclass.

    The first object is made twice, since two share nothing.
    """

    twins: list[Any] | None = None
    constructor_arguments: Mapping[str, Any] = {}  # of the last object

    def __init__(self, student_class: Any, methods: list[str], watched: bool = True):
        super().__init__(student_class, watched=watched)
        if inspect.isclass(student_class):
            namespace: dict[str, Any] = {
                name: self.guard_method(name) for name in methods if hasattr(student_class, name)
            }
            namespace |= {"__module__": student_class.__module__, "__doc__": student_class.__doc__}
            with contextlib.suppress(Exception):  # raised by the student's `__init_subclass__`
                self.function = new_class(
                    student_class.__name__,
                    (student_class,),
                    {},
                    lambda body: body.update(namespace),
                )

    def guard_method(self, name: str) -> Callable:
        """A method under the laws, except where another method calls it."""

        def method(owner: Any, *args: Any, **kwargs: Any) -> Any:
            bound = getattr(super(self.function, owner), name)
            if self.busy:
                return bound(*args, **kwargs)
            self.busy = True
            refilled = self.refill_arguments(args)
            copies = [copy_value(value) for value in refilled]
            named = name_arguments(bound, copies, kwargs)
            self.arguments = {**self.constructor_arguments, **named}
            self.note_call(name, owner, named)
            try:
                return self.call_under_laws(bound, refilled, kwargs, owner)
            finally:
                self.busy = False

        return method

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        arguments = name_arguments(self.__wrapped__, args, kwargs)
        self.arguments = {name: copy_value(value) for name, value in arguments.items()}
        self.constructor_arguments = self.arguments
        self.note_call("__init__", None, self.arguments)
        with unchanged(**(arguments if self.watched else {})):
            try:
                student_object = self.function(*args, **kwargs)
            except Exception as raised:
                self.history[-1].raised = describe(raised)
                raise
            self.history[-1].owner = student_object
            if not self.twins:
                self.twins = [student_object, self.function(*args, **kwargs)]
        first, second = (set(map(storage_key, tensors_of(twin))) for twin in self.twins)
        if first & second:
            raise Broken("two objects share a tensor", "objects that share nothing")
        return student_object


def describe(error: Exception) -> str:
    """An exception in one line."""
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first[:100]}"


def describe_error(error: BaseException) -> str:
    """An exception in one line, with the line of the student's code that raised it."""
    lines = str(error).strip().splitlines()
    message = lines[0][:200] if lines else ""
    return f"{type(error).__name__}: {message}{getattr(error, 'place', '') or place_in(error)}"


def place_in(error: BaseException) -> str:
    """The line and function of a student's code that raised an exception, or ''."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not {*OURS} & {*Path(frame.filename).parents}]
    foreign = ("site-packages", "<frozen ", str(Path(traceback.__file__).parent))
    student = [frame for frame in outside if not any(part in frame.filename for part in foreign)]
    if not student:
        return ""
    return f"{PLACE}{student[-1].lineno} of {student[-1].name}"


def tensors_of(module: Any) -> list[Tensor]:
    """The tensors of a module that are not empty; none of another object."""
    if not isinstance(module, nn.Module):
        return []
    tensors = [*module.parameters(), *module.buffers()]
    return [tensor for tensor in tensors if tensor.numel()]


def methods_of(solution: Any) -> list[str]:
    """The methods of a class that a check may call."""
    if not inspect.isclass(solution):
        return []
    return [name for name, value in vars(solution).items() if callable(value) and name[0] != "_"]


def name_arguments(function: Callable, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name."""
    names = [f"argument {n}" for n in range(len(args))]
    with contextlib.suppress(TypeError, ValueError):  # functions written in C may have no signature
        names = [*parameter_names(function), *names]
    return dict(zip(names, args, strict=False)) | kwargs


def parameter_names(function: Callable) -> Sequence[str]:
    """The names of the parameters of a function, or of a method without its object."""
    if isinstance(function, FunctionType):
        return names_of_function(function)
    if isinstance(function, MethodType) and isinstance(function.__func__, FunctionType):
        return names_of_function(function.__func__)[1:]
    return [*inspect.signature(function).parameters]


@lru_cache(maxsize=64)  # `inspect` took a sixth of the time of a judgement
def names_of_function(function: FunctionType) -> Sequence[str]:
    """The names of the parameters of a function that is written in Python."""
    return [*inspect.signature(function).parameters]


def walk_parts(value: Any) -> Iterator[Any]:
    """A value and all that is in it: lists, their items, weights."""
    yield value
    parts: Any = ()
    if isinstance(value, dict):
        parts = value.values()
    elif isinstance(value, nn.Module):
        parts = value.state_dict(keep_vars=True).values()
    elif type(value) in CONTAINERS:
        parts = value
    for part in parts:
        yield from walk_parts(part)


def storage_key(value: Any) -> int:
    """What two values that share memory have in common.

    A tensor and its views have one storage. Ids are negative: no id is taken for an address.
    """
    if isinstance(value, Tensor):
        return value.untyped_storage().data_ptr()
    return -id(value)


def copy_value(value: Any, tensors: bool = True) -> Any:
    """A copy of lists and the like, and of their tensors; other objects stay."""
    if isinstance(value, Tensor) and tensors and not isinstance(value, nn.Parameter):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) is dict:
        return {key: copy_value(item, tensors) for key, item in value.items()}
    if type(value) in CONTAINERS:
        return type(value)(copy_value(item, tensors) for item in value)
    return value


def renew_one_argument(old: list, new: list, number: int) -> list[Any]:
    """The old arguments, except for one of those that differ, which has its new value."""
    different = []  # places
    for place, (before, now) in enumerate(zip(old, new, strict=True)):
        if not snapshots_equal(snapshot(before), snapshot(now)):
            different.append(place)
    arguments = [*old]
    if different:
        chosen = different[number % len(different)]
        arguments[chosen] = with_old_keys(old[chosen], new[chosen])
    return arguments


def with_old_keys(old: Any, new: Any) -> Any:
    """The new value; a dictionary has the old keys with new values."""
    if type(old) is type(new) is dict:
        return dict(zip(old, new.values(), strict=False))
    return new


def refill(old: Any, new: Any, memo: dict[int, int]) -> Any:
    """The old object with the new value where it can have it, otherwise the new one.

    `memo` says which new object an old one was refilled from: where two arguments were one object
    and now are two, it cannot be both.
    """
    if type(old) is not type(new) or memo.setdefault(id(old), id(new)) != id(new):
        return new
    if isinstance(new, Tensor):
        plain = not (old.requires_grad or new.requires_grad)
        if plain and (old.shape, old.dtype) == (new.shape, new.dtype):
            with contextlib.suppress(RuntimeError):  # several numbers in one place
                return old.copy_(new)
        return new
    if type(new) is list:
        refilled = [refill(before, now, memo) for before, now in zip(old, new, strict=False)]
        old[:] = [*refilled, *new[len(old) :]]
    elif type(new) is dict:
        items = {key: refill(old.get(key), value, memo) for key, value in new.items()}
        old.clear()
        old.update(items)
    elif type(new) is set:
        old.clear()
        old.update(new)
    else:
        return new
    return old


@contextlib.contextmanager
def unchanged(**values: Any) -> Iterator[None]:
    """Raise Finding if what a caller can see of these values is different afterwards."""
    before = {name: snapshot(value) for name, value in values.items()}
    yield
    for name, value in values.items():
        if not snapshots_equal(before[name], snapshot(value)):
            cause = (
                "Operations such as `x -= 1`, `sort()` or `update` change what the caller holds."
            )
            raise Broken(f"`{name}` was changed", "unchanged inputs", cause)


@contextlib.contextmanager
def lending() -> Iterator[Callable[[Any], Any]]:
    """Lend functions out. Raise Finding if something that one of them returned was changed."""
    results: list[tuple[Any, Any]] = []  # and their snapshots

    def lend(value: Any) -> Any:
        if isinstance(value, torch.nn.Module | type) or not callable(value):
            return value

        def called(*args: Any, **kwargs: Any) -> Any:
            result = value(*args, **kwargs)
            if isinstance(result, torch.Tensor | list | dict | set | tuple):
                results.append((result, snapshot(result)))
            return result

        return called

    yield lend
    if not all(snapshots_equal(before, snapshot(result)) for result, before in results):
        cause = "A result belongs to the function that returned it: work on a copy."
        raise Broken("what a given function returned was changed", "unchanged results", cause)


@contextlib.contextmanager
def unmoved(model: torch.nn.Module) -> Iterator[None]:
    """Raise Finding if a part of the model is in another mode afterwards, or trains otherwise."""

    def modes() -> list[tuple[str, bool]]:
        return [(name or "the model", part.training) for name, part in model.named_modules()]

    def trainable() -> list[tuple[str, bool]]:
        return [(name, weight.requires_grad) for name, weight in model.named_parameters()]

    modes_before, trainable_before = modes(), trainable()
    yield
    for (name, before), (_, now) in zip(modes_before, modes(), strict=False):
        if before != now:
            cause = "`train()` and `eval()` change a model that belongs to the caller."
            raise Finding(f"{name} is in training mode: {now}", f"{before}", cause)
    for (name, before), (_, now) in zip(trainable_before, trainable(), strict=False):
        if before != now:
            raise Finding(f"{name} requires a gradient: {now}", f"{before}")


def process_settings() -> dict[str, Any]:
    """Settings of the process that a function has to leave as they are."""
    return {
        "torch's default type": torch.get_default_dtype(),
        "whether gradients are computed": torch.is_grad_enabled(),
        "the number of torch's threads": torch.get_num_threads(),
        "whether torch is deterministic": torch.are_deterministic_algorithms_enabled(),
        "the recursion limit": sys.getrecursionlimit(),
    }


def global_random_states() -> tuple:
    """The states of the global random generators of torch, Python and numpy."""
    return torch.get_rng_state(), random.getstate(), repr(np.random.get_state(legacy=False))


def snapshot(value: Any) -> Any:
    """A copy of what a caller can see of a value."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone(), value.requires_grad
    if isinstance(value, dict):
        return [(key, snapshot(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [snapshot(item) for item in value]
    if isinstance(value, set):
        return frozenset(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return snapshot(vars(value))
    if isinstance(value, torch.nn.Module):
        modes = [(module.training, len(module._forward_hooks)) for module in value.modules()]
        tensors = [*value.named_parameters(), *value.named_buffers()]
        return modes, [(name, snapshot(tensor)) for name, tensor in tensors]
    return value


def snapshots_equal(first: Any, second: Any) -> bool:
    """Whether two snapshots show the same, bit by bit."""
    if isinstance(first, torch.Tensor):
        if (first.shape, first.dtype, first.device) != (second.shape, second.dtype, second.device):
            return False
        if first.is_meta:  # it has no numbers
            return True
        if torch.equal(first, second):
            return True
        both_nan = (first != first) & (second != second)
        return bool(((first == second) | both_nan).all())
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(snapshots_equal, first, second))
    return first is second or bool(first == second)
