"""What an answer was asked and what it gave, as data.

Where the answer runs, a `Recorder` takes down each call: what came back or was raised, and what it
did to the arguments. In the process that judges, a `Replay` takes the place of the answer: a check
calls it as it called the answer, and gets what was taken down. So equality, properties and points
are decided by code that no answer can reach, and what it compares are tensors, numbers and text.

    {"name": "call", "value": 3, "asked": [[0, [[1, 4]]]], "after": [null, null]}

is an event: the answer returned 3, and called the first function it was lent with the list [1, 4].

An event has these entries, of which only the first four are always there:

    name     "call", "__init__", or the name of a method
    asked    the calls of lent functions: [number of the function, its arguments]
    back     for each backward pass, the gradients of the inputs of the call
    after    for each argument, what the call may have changed in it (`encode_state`)
    value    the result, or `module` for an object that is made, or `raised` for an exception
    shown    the attributes that the task names, with their values
    random   the state of torch's generator, if the call has moved it
"""

from __future__ import annotations

import base64
import builtins
import contextlib
import functools
import inspect
import math
import os
import sys
import tempfile
import types
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nmtcourse.homework.compare import FRACTIONS, Finding, Forged, Shown
from nmtcourse.homework.laws import Broken, Call, methods_of, place_in

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32),
        *(torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128),
    )
}
LARGEST = 2**26  # bytes of a tensor
MOST_ASKED = 3_000_000  # calls of functions that were lent, for a property
DEEP = ("weights", "slopes", "buffers", "modes")  # of a module
RENAME = os.rename  # itself: a check may have put a function in its place
FORGED = "its process sent something else than an answer"
Event = dict[str, Any]


class Opaque:
    """Stands for an object of a type that is no data; it equals nothing else."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name}>"


def encode(value: Any) -> Any:
    """A value as JSON: numbers, text, containers, tensors and modules; `Opaque` for the rest."""
    if value is None or type(value) in (bool, int, float):
        return value
    if type(value) in FRACTIONS:
        return float(value)
    # Before int, float and str: numpy's scalars inherit from these, and would lose their dtype.
    if isinstance(value, np.generic):
        return {"numpy": [value.dtype.str, encode(value.item())]}
    # The methods of str and float themselves: a subclass of the answer's may have others.
    if isinstance(value, str):
        return str.__str__(value).encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, Tensor):
        return {"tensor": encode_tensor(value)}
    if isinstance(value, nn.Module):
        return {"module": encode_module(value)}
    if isinstance(value, Mapping):
        return {"dict": [[encode(key), encode(item)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [*map(encode, value)]}
    if isinstance(value, set | frozenset):
        return {"set": [*map(encode, value)]}
    if isinstance(value, list):
        return [*map(encode, value)]
    if isinstance(value, range):
        return {"range": [value.start, value.stop, value.step]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return {"array": encode_tensor(torch.from_numpy(np.ascontiguousarray(value)))}
    if is_iterator(value):
        return {"iterator": [*map(encode, value)]}
    return {"opaque": type(value).__name__[:80]}


def is_iterator(value: Any) -> bool:
    """Whether a value can only be looked at by going through it."""
    return isinstance(value, Iterator | type({}.values()))


def encode_tensor(tensor: Tensor) -> list[Any]:
    """Type, shape, whether it requires a gradient, and the bytes of a tensor; none on "meta"."""
    dense = tensor.detach()
    if dense.is_sparse:
        dense = dense.to_dense()
    header = [str(dense.dtype).removeprefix("torch."), [*dense.shape], tensor.requires_grad]
    if dense.is_meta:
        return [*header, None]
    if dense.numel() * dense.element_size() > LARGEST:
        raise ValueError(f"a tensor of {dense.numel():,} numbers is too large")
    # `contiguous` leaves a single number its stride, and `view` as bytes needs a stride of 1.
    numbers = torch.empty(dense.numel(), dtype=dense.dtype).copy_(dense.reshape(-1))
    raw = numbers.view(torch.uint8).numpy().tobytes()
    return [*header, base64.b64encode(zlib.compress(raw, 1)).decode()]


def encode_module(module: nn.Module) -> dict[str, Any]:
    """Parts, weights, buffers and plain attributes of a module.

    A weight that two parts share is one of the `tensors`, to which both their names point:

        {"weights": [["embedding.weight", 0], ["output.weight", 0]], "tensors": [...]}
    """
    numbers: dict[int, int] = {}  # of the weights among the tensors, by id
    tensors = list[Any]()
    weights = [*module.named_parameters(remove_duplicate=False)]
    for _, weight in weights:
        if id(weight) not in numbers:
            numbers[id(weight)] = len(tensors)
            tensors.append(encode(weight))
    buffers = [*module.named_buffers(remove_duplicate=False)]
    saved = {name for name, _ in buffers} & {*module.state_dict()}
    plain = {}
    for name, value in vars(module).items():
        if name[0] != "_" and isinstance(value, bool | int | float | str | Tensor):
            plain[name] = encode(value)
    kind = type(module)
    return {
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "parts": [
            [name, part.training] for name, part in module.named_modules(remove_duplicate=False)
        ],
        "weights": [[name, numbers[id(weight)]] for name, weight in weights],
        "tensors": tensors,
        "buffers": [[name, encode(buffer), name in saved] for name, buffer in buffers],
        "plain": plain,
    }


def decode(data: Any) -> Any:
    """The value in JSON that another process sent. Raises Forged for any other data."""
    try:
        return _decode(data)
    except Exception as error:
        raise Forged(f"{FORGED}: {type(error).__name__}") from None


def _decode(data: Any) -> Any:
    if data is None or type(data) in (bool, int, float, str):
        return data
    if type(data) is list:
        return [*map(_decode, data)]
    ((kind, content),) = data.items()
    if kind == "tensor":
        return _decode_tensor(*content)
    if kind == "module":
        return _decode_module(content)
    if kind == "dict":
        return {_decode(key): _decode(item) for key, item in content}
    if kind == "tuple":
        return tuple(map(_decode, content))
    if kind == "set":
        return set(map(_decode, content))
    if kind == "numpy":
        return np.dtype(content[0]).type(_decode(content[1]))
    if kind == "range":
        return range(*content)
    if kind == "array":
        return _decode_tensor(*content).numpy()
    if kind == "iterator":
        return iter([*map(_decode, content)])
    if kind == "opaque":
        return Opaque(str(content))
    raise ValueError(kind)


def _decode_tensor(name: str, shape: list[int], grad: bool, text: str | None) -> Tensor:
    dtype = DTYPES[name]
    size = math.prod(shape) * dtype.itemsize  # in bytes
    if min(shape, default=0) < 0 or (text is not None and size > LARGEST):
        raise ValueError("size")
    if text is None:
        return torch.empty(shape, dtype=dtype, device="meta")
    # At most one byte more than promised is unpacked, however much the sender has compressed.
    raw = zlib.decompressobj().decompress(base64.b64decode(text), size + 1)
    if len(raw) != size:
        raise ValueError("size")
    if raw:
        numbers = torch.frombuffer(bytearray(raw), dtype=dtype)
    else:  # `frombuffer` refuses an empty buffer
        numbers = torch.empty(0, dtype=dtype)
    tensor = numbers.reshape(shape).clone()
    if grad is True:
        tensor.requires_grad_()
    return tensor


def _decode_module(data: dict[str, Any], module: nn.Module | None = None) -> nn.Module:
    """A module with those parts and weights; of a class of nmtlib's own, where it is one."""
    if module is None:
        module = nn.Module()
        home, _, name = data["class"].rpartition(".")
        if home.startswith("nmtlib.model."):  # nothing is imported, and nothing is run
            module.__class__ = getattr(sys.modules[home], name)
    # Names such as "encoder.layers.0": a part comes after the one that contains it.
    parts = {"": module}
    for name, training in data["parts"]:
        above, _, last = name.rpartition(".")
        if name:
            parts[name] = nn.Module()
            parts[above].add_module(last, parts[name])
        parts[name].training = training is True
    weights = []
    for tensor in map(_decode, data["tensors"]):
        weights.append(nn.Parameter(tensor.detach(), tensor.requires_grad))
    for name, number in data["weights"]:
        above, _, last = name.rpartition(".")
        parts[above].register_parameter(last, weights[number])
    for name, tensor, saved in data["buffers"]:
        above, _, last = name.rpartition(".")
        parts[above].register_buffer(last, _decode(tensor), saved is True)
    for name, value in data["plain"].items():
        if name not in ("training", "forward") and name.isidentifier() and name[0] != "_":
            object.__setattr__(module, name, _decode(value))
    return module


class Boundary(torch.autograd.Function):
    """Tensors that depend on others in a way that only a function `back` of slopes knows."""

    @staticmethod
    def forward(ctx: Any, back: Callable, values: list[Tensor], *inputs: Tensor) -> Any:
        ctx.back = back
        ctx.set_materialize_grads(False)
        return tuple(value.detach() for value in values)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor | None) -> Any:
        return None, None, *ctx.back(slopes)


def find_differentiable(values: Iterable[Any]) -> list[Tensor]:
    """All tensors with gradients that a call can reach through its arguments, each once.

    Those of modules count, the `weights` of an object, and what a function encloses.
    """
    tensors: dict[int, Tensor] = {}  # by id, in the order in which they are met

    def visit(value: Any, depth: int) -> None:
        if isinstance(value, Tensor):
            if value.requires_grad:
                tensors.setdefault(id(value), value)
        elif isinstance(value, nn.Module):
            visit([*value.parameters()], depth)
        elif depth and isinstance(value, dict):
            for item in value.values():
                visit(item, depth - 1)
        elif depth and isinstance(value, list | tuple):
            for item in value:
                visit(item, depth - 1)
        elif depth and callable(value):
            visit(getattr(value, "weights", None), depth - 1)
            for cell in getattr(value, "__closure__", None) or ():
                with contextlib.suppress(ValueError):  # an empty cell
                    visit(cell.cell_contents, depth - 1)

    for value in values:
        visit(value, 4)
    return [*tensors.values()]


def is_lent(value: Any) -> bool:
    """Whether an argument is a function that the answer may call."""
    return callable(value) and not isinstance(value, nn.Module | type)


def is_plain_class(answer: Any) -> bool:
    """Whether calling an answer makes an object of it: no `__new__` makes something else."""
    return inspect.isclass(answer) and answer.__new__ is object.__new__


def encode_exception(error: BaseException) -> list[str]:
    """An exception as data: the built-in kind that it is, its text, and where it was raised."""
    if isinstance(error, Finding):
        return ["Finding", error.measured, error.expected, error.cause]
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")
    return [kind.__name__, readable(str(error)[:2000]), readable(place_in(error))]


def readable(text: str) -> str:
    """A text that UTF-8 can encode."""
    return text.encode("utf-8", "backslashreplace").decode()


class Quoted(str):
    """The text of a KeyError, which shows the `repr` of its key: it stands here already."""

    def __repr__(self) -> str:
        return str(self)


def decode_exception(data: Any) -> BaseException:
    """The exception in data. Raises Forged for any other data."""
    if not isinstance(data, list) or not all(isinstance(text, str) for text in data):
        raise Forged(FORGED)
    if data[0] == "Finding" and len(data) == 4:
        return Finding(*data[1:])
    if len(data) != 3:
        raise Forged(FORGED)
    kind = getattr(builtins, data[0], None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        kind = RuntimeError
    text = data[1]
    if issubclass(kind, KeyError):
        text = Quoted(text)
    try:
        error = kind(text)
    except Exception:  # UnicodeDecodeError has five arguments
        error = RuntimeError(data[1])
    vars(error)["place"] = data[2][:200]
    return error


TEXTS = ("measured", "expected", "cause", "usual", "given")  # of a finding


def encode_finding(finding: Finding | None) -> dict[str, Any] | None:
    """A finding as data, with whether it is a law that was broken."""
    if finding is None:
        return None
    texts: dict[str, Any] = {name: readable(getattr(finding, name)[:2000]) for name in TEXTS}
    return texts | {"broken": isinstance(finding, Broken)}


def decode_finding(data: Any) -> Finding | None:
    """The finding in data. Raises Forged for any other data."""
    if data is None:
        return None
    if not isinstance(data, dict) or not all(isinstance(data.get(name), str) for name in TEXTS):
        raise Forged(FORGED)
    texts = {name: data[name][:2000] for name in TEXTS}
    kind = Broken if data.get("broken") else Finding
    finding = kind(texts["measured"], texts["expected"], texts["cause"])
    finding.usual, finding.given = texts["usual"], texts["given"]
    finding.shown = Shown("", None, [])
    return finding


def encode_calls(calls: list[Call]) -> list[dict[str, Any]]:
    """Calls as data; an object is a number."""
    owners: list[Any] = []
    rows = []
    for call in calls:
        if not any(call.owner is owner for owner in owners):
            owners.append(call.owner)
        number = next(n for n, owner in enumerate(owners) if owner is call.owner)
        row = {"name": call.name, "owner": number, "turn": call.turn, "place": call.place}
        row["arguments"] = encode(call.arguments)
        row["state"] = encode(call.state)
        row["value"] = encode(call.value)
        rows.append(row | {"raised": readable(call.raised)})
    return rows


def decode_calls(data: Any) -> list[Call]:
    """The calls in data. Raises Forged for any other data."""
    calls = []
    with errors_as_forged():
        owners: dict[int, Any] = {}
        for row in data:
            owner = owners.setdefault(int(row["owner"]), object())
            calls.append(
                Call(
                    str(row["name"]),
                    owner,
                    dict(_decode(row["arguments"])),
                    int(row["turn"]),
                    int(row["place"]),
                    _decode(row["state"]),
                    _decode(row["value"]),
                    str(row["raised"])[:200],
                )
            )
    return calls


class Tape:
    """What a recorder and a replay share: the events of a turn, and the functions lent in it."""

    def __init__(self, task: Any):
        self.task = task
        self.deep = bool(task.changes) or not task.pure  # what a call leaves in models is compared
        self.begin([])

    def begin(self, events: list[Event]) -> None:
        """Begin a turn with these events."""
        self.events = events
        self.open: Event | None = None  # the call that is running
        self.lent: list[Callable] = []


class Recorder(Tape):
    """Takes down what an answer does, in the process in which it runs."""

    def wrap_answer(self, answer: Any) -> Any:
        """An answer whose calls are taken down."""
        if not is_plain_class(answer):
            if not callable(answer):
                return answer
            if inspect.isclass(self.task.solution):
                return self.wrap_factory(answer)
            return self.wrap_function(answer)
        names = [name for name in methods_of(self.task.solution) if hasattr(answer, name)]
        if not self.task.pure:
            methods = {name: self.wrap_function(getattr(answer, name)) for name in names}
            return types.SimpleNamespace(**methods)
        return self.wrap_class(answer, [*names, "__init__"])

    def wrap_class(self, base: Any, names: list[str]) -> Any:
        """A subclass of an answer whose methods with these names are taken down."""
        recorder = self

        def wrap_method(name: str) -> Callable:
            def called(owner: Any, *args: Any, **kwargs: Any) -> Any:
                bound = getattr(super(subclass, owner), name)
                return recorder.call(name, bound, args, kwargs, owner)

            return functools.wraps(getattr(base, name))(called)

        namespace: dict[str, Any] = {name: wrap_method(name) for name in names}
        namespace |= {"__module__": base.__module__, "__doc__": base.__doc__}
        subclass: Any = types.new_class(
            base.__name__, (base,), {}, lambda body: body.update(namespace)
        )
        return subclass

    def wrap_factory(self, function: Callable) -> Callable:
        """A function in the place of a class: what it makes is taken down as an object is."""

        @functools.wraps(function)
        def construct(*args: Any, **kwargs: Any) -> Any:
            result = self.call("__init__", function, args, kwargs)
            names = [name for name in methods_of(self.task.solution) if hasattr(result, name)]
            result.__class__ = self.wrap_class(type(result), names)
            return result

        return construct

    def wrap_function(self, function: Callable) -> Callable:
        """A function whose calls are taken down."""

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            return self.call("call", function, args, kwargs)

        return called

    def call(self, name: str, function: Callable, args: Any, kwargs: Any, owner: Any = None) -> Any:
        """Call a function and take down what it does, unless the answer calls itself."""
        if self.open is not None:
            return function(*args, **kwargs)
        event: Event = {"name": name, "asked": [], "back": []}
        self.open = event
        self.events.append(event)
        random_state = torch.get_rng_state()
        arguments = [*args, *kwargs.values()]
        inputs = inputs_of(arguments, name, owner)
        try:
            lent_args = [self.lend(value) for value in args]
            lent_kwargs = {key: self.lend(value) for key, value in kwargs.items()}
            result = function(*lent_args, **lent_kwargs)
            if name == "__init__":
                if owner is None:  # a function in the place of a class has made it
                    owner = result
                if isinstance(owner, nn.Module):
                    event["module"] = encode_module(owner)
            else:
                if is_iterator(result):  # to encode it uses it up
                    items = [*result]
                    event["value"], result = encode(iter(items)), iter(items)
                else:
                    event["value"] = encode(result)
        except BaseException as error:
            event["raised"] = encode_exception(error)
            raise
        finally:
            # After an exception as well: a check may look at what it left behind. A replay takes
            # an event without "after" for one of which not all was data.
            self.open = None
            event["after"] = [encode_state(value, self.deep) for value in arguments]
            event["shown"] = [
                [attribute, encode(getattr(owner, attribute))]
                for attribute in self.task.shown
                if hasattr(owner, attribute)
            ]
            if not torch.equal(random_state, torch.get_rng_state()):
                event["random"] = encode(torch.get_rng_state())
        return self.record_gradients(result, inputs, event)

    def lend(self, value: Any) -> Any:
        """A function that takes down what it is asked; any other value as it is."""
        if not is_lent(value):
            return value
        number = len(self.lent)
        self.lent.append(value)

        @functools.wraps(value, updated=())
        def called(*args: Any, **kwargs: Any) -> Any:
            if self.open is not None and not kwargs:
                self.open["asked"].append([number, [*map(encode, args)]])
            return value(*args, **kwargs)

        return called

    def record_gradients(self, result: Any, inputs: list[Tensor], event: Event) -> Any:
        """A result whose gradients are taken down as well."""

        def back(outputs: list[Tensor], slopes: Any) -> list[Tensor | None]:
            pairs = [(x, s) for x, s in zip(outputs, slopes, strict=True) if s is not None]
            gradients = torch.autograd.grad(
                [output for output, _ in pairs],
                inputs,
                [slope for _, slope in pairs],
                retain_graph=True,
                allow_unused=True,
            )
            event["back"].append([*map(encode, gradients)])
            return [*gradients]

        return with_boundary(result, inputs, back)


def inputs_of(arguments: list[Any], name: str, owner: Any) -> list[Tensor]:
    """The tensors that gradients of a call go to: those of its arguments, and of its object.

    `__init__` has no object yet.
    """
    if name == "__init__":
        owner = None
    return find_differentiable([*arguments, owner])


# In the recorder, `back` computes gradients in the graph of the answer, and takes them down. In the
# replay there is no such graph, and `back` gives the gradients that were taken down:
#
#     recorder   arguments -> answer -> value -> Boundary -> check: back = torch.autograd.grad
#     replay     arguments ------------ value -> Boundary -> check: back = event["back"].pop(0)
#
# So a check that calls `backward` on the result finds the same gradients in both.
def with_boundary(result: Any, inputs: list[Tensor], back: Callable) -> Any:
    """A result, or a list or tuple of results, in which `back` makes the gradients of inputs."""
    several = type(result) in (list, tuple)
    parts = [result]
    if several:
        parts = [*result]
    places = [n for n, x in enumerate(parts) if isinstance(x, Tensor) and x.requires_grad]
    if not places or not inputs or not torch.is_grad_enabled():
        return result
    values = [parts[place] for place in places]
    outputs = Boundary.apply(functools.partial(back, values), values, *inputs)
    for place, output in zip(places, outputs, strict=True):
        parts[place] = output
    if several:
        return type(result)(parts)
    return parts[0]


class Replay(Tape):
    """Gives a check what was taken down, in a process in which no answer runs."""

    def __init__(self, task: Any):
        super().__init__(task)
        self.shelf = Shelf()
        self.calls_of_lent = 0
        self.fault: Finding | None = None  # why the answer's process did not go on

    def make_answer(self, kind: str) -> Any:
        """What takes the place of an answer: a function, a class, or a class of modules."""
        solution = self.task.solution
        if kind == "function" and inspect.isclass(solution):
            return self.construct
        if kind == "function":
            return self.make_function(solution)
        names = methods_of(solution)
        if not self.task.pure:
            methods = {name: self.make_function(getattr(solution, name)) for name in names}
            return types.SimpleNamespace(**methods)
        if kind == "module":
            return self.make_class(solution, names, nn.Module)
        return self.make_class(solution, names, object)

    def make_class(self, solution: Any, names: list[str], base: Any) -> Any:
        """A class with the methods of the solution, whose calls are replayed."""
        replay = self

        def initialize(owner: Any, *args: Any, **kwargs: Any) -> None:
            base.__init__(owner)
            replay.call("__init__", args, kwargs, owner)

        def make_method(name: str) -> Callable:
            def called(owner: Any, *args: Any, **kwargs: Any) -> Any:
                return replay.call(name, args, kwargs, owner)

            return functools.wraps(getattr(solution, name))(called)

        namespace = {name: make_method(name) for name in names} | {"__init__": initialize}
        return type(solution.__name__, (base,), namespace)

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        """What a function in the place of a class has made, by the next event."""
        first = self.events[0] if self.events else None
        kind = "class"
        if isinstance(first, dict) and "module" in first:
            kind = "module"
        return self.make_answer(kind)(*args, **kwargs)

    def make_function(self, like: Callable) -> Callable:
        """A function in the place of an answer's, with the arguments of the solution's."""

        @functools.wraps(like)
        def called(*args: Any, **kwargs: Any) -> Any:
            return self.call("call", args, kwargs)

        return called

    # In the order in which the answer did it: what it asked of lent functions, what it left in its
    # arguments, what it raised or returned. A check may look at each, and none is trusted.
    def call(self, name: str, args: Any, kwargs: Any, owner: Any = None) -> Any:
        """What the next event says of a call. Raises Forged if it is of something else."""
        arguments = [*args, *kwargs.values()]
        if not self.events:
            raise self.fault or Finding(FORGED, "an answer")
        event = self.events.pop(0)
        if not isinstance(event, dict) or event.get("name") != name:
            raise Forged(FORGED)
        inputs = inputs_of(arguments, name, owner)
        self.lent += [value for value in arguments if is_lent(value)]
        self.ask_lent(event.get("asked"))
        if "after" not in event:  # not all of it was data
            raise self.fault or Finding(FORGED, "an answer")
        states = event["after"]
        if not isinstance(states, list) or len(states) != len(arguments):
            raise Forged(FORGED)
        for value, state in zip(arguments, states, strict=True):
            apply_state(value, state, self.deep, self.shelf)
        for attribute, value in event.get("shown") or []:
            if attribute in self.task.shown:
                setattr(owner, attribute, decode(value))
        if event.get("random") is not None:
            set_random_state(decode(event["random"]))
        if isinstance(self.fault, Broken) and not self.events:  # by this call, the last one
            raise self.fault
        if "raised" in event:
            raise decode_exception(event["raised"])
        if "module" in event:
            with errors_as_forged():
                _decode_module(event["module"], owner)
            return None
        recorded = event.get("back")

        def back(values: list[Tensor], slopes: Any) -> list[Any]:
            if not isinstance(recorded, list) or not recorded:
                raise Forged(FORGED)
            return fit_gradients(decode(recorded.pop(0)), inputs)

        return with_boundary(decode(event.get("value")), inputs, back)

    def ask_lent(self, asked: Any) -> None:
        """Call the functions that were lent, as the answer did: some of them count."""
        if not isinstance(asked, list):
            raise Forged(FORGED)
        self.calls_of_lent += len(asked)
        if self.calls_of_lent > MOST_ASKED:
            raise Forged(FORGED)
        for number, args in asked:
            values = decode(args)
            if any(isinstance(value, Opaque | nn.Module) for value in values):
                continue
            with errors_as_forged():
                function = self.lent[number]
            with torch.no_grad(), contextlib.suppress(Exception):
                function(*values)


def fit_gradients(gradients: Any, inputs: list[Tensor]) -> list[Any]:
    """Gradients in the types of the inputs. Raises Forged if their shapes are not the inputs'."""
    if len(gradients) != len(inputs):
        raise Forged(FORGED)
    fitted: list[Any] = []
    for gradient, tensor in zip(gradients, inputs, strict=True):
        if gradient is None:  # the input has no part in the result
            fitted.append(None)
        elif gradient.shape != tensor.shape:
            raise Forged(FORGED)
        else:
            fitted.append(gradient.to(tensor.dtype))
    return fitted


@contextlib.contextmanager
def errors_as_forged() -> Iterator[None]:
    """Whatever is raised within is Forged."""
    try:
        yield
    except Exception:
        raise Forged(FORGED) from None


def set_random_state(state: Any) -> None:
    """Set torch's generator as an answer has left it."""
    with errors_as_forged():
        torch.set_rng_state(state)


def encode_state(value: Any, deep: bool) -> Any:
    """What a call may have changed in an argument, as data; None for nothing.

    `deep` is for tasks that train: weights, gradients, modes, an optimizer's moments, files.
    """
    if isinstance(value, torch.Generator):
        return encode(value.get_state())
    if isinstance(value, nn.Module):
        counts = {
            name: count
            for name, count in vars(value).items()
            if name[0] != "_" and name != "training" and type(count) in (int, float)
        }
        state: dict[str, Any] = {"counts": counts}
        if deep:
            weights = [*value.parameters()]
            state["weights"] = [encode(weight) for weight in weights]
            state["slopes"] = [encode(weight.grad) for weight in weights]
            state["buffers"] = [encode(buffer) for buffer in value.buffers()]
            state["modes"] = [part.training for part in value.modules()]
        return state
    if deep and isinstance(value, torch.optim.Optimizer):
        return encode(value.state_dict())
    if deep and isinstance(value, Path):
        files = {}
        for file in sorted(value.parent.iterdir()):
            raw = base64.b64encode(zlib.compress(file.read_bytes(), 1)).decode()
            files[file.name] = [file.stat().st_ino, raw]
        return files
    return None


def apply_state(value: Any, state: Any, deep: bool, shelf: Shelf) -> None:
    """Change an argument as a call has changed it. Raises Forged for any other data."""
    if state is None:
        return
    with errors_as_forged():
        if isinstance(value, torch.Generator):
            value.set_state(decode(state))
        elif isinstance(value, nn.Module):
            for name, count in state["counts"].items():
                if type(vars(value)[name]) in (int, float) and type(count) in (int, float):
                    setattr(value, name, count)
            if deep:
                apply_module_state(value, {name: decode(state[name]) for name in DEEP})
        elif deep and isinstance(value, torch.optim.Optimizer):
            value.load_state_dict(decode(state))
        elif deep and isinstance(value, Path):
            shelf.lay_out(value.parent, state)


def apply_module_state(module: nn.Module, state: dict[str, Any]) -> None:
    """Weights, gradients, buffers and modes as a call has left them."""
    with torch.no_grad():
        pairs = zip(module.parameters(), state["weights"], state["slopes"], strict=True)
        for weight, tensor, slope in pairs:
            if not torch.equal(weight, tensor):  # a copy would break a later backward pass
                weight.copy_(tensor)
            weight.requires_grad_(tensor.requires_grad)
            weight.grad = slope
        for buffer, tensor in zip(module.buffers(), state["buffers"], strict=True):
            buffer.copy_(tensor)
    for part, mode in zip(module.modules(), state["modes"], strict=True):
        part.training = mode is True


class Shelf:
    """Files as the folders of another process had them.

    A file that is the same one there is the same one here, under whatever names: a check looks at
    whether it was written to or replaced.
    """

    def __init__(self) -> None:
        self.home = tempfile.TemporaryDirectory(prefix="homework-", ignore_cleanup_errors=True)
        self.moved = 0
        self.places: dict[tuple[str, int], Path] = {}  # by folder and number of a file there

    def lay_out(self, folder: Path, files: dict[str, Any]) -> None:
        """Make the files of a folder those in data."""
        home = Path(self.home.name)
        for old in [*folder.iterdir()]:  # moved, not unlinked: a check may watch that
            self.moved += 1
            RENAME(old, home / str(self.moved))
        for name, (number, text) in files.items():
            raw = zlib.decompressobj().decompress(base64.b64decode(text), LARGEST)
            key = str(folder), int(number)
            if key not in self.places:
                self.places[key] = home / f"{len(self.places)}.file"
            place = self.places[key]
            if not place.exists() or place.read_bytes() != raw:
                place.write_bytes(raw)
            if Path(name).name != name:
                raise Forged(FORGED)
            os.link(place, folder / name)
