"""Calls between two processes: the judge, and the process that runs a student's notebook.

Each side answers calls of the other with data (`nmtcourse.homework.wire`). A function, class or
object stays where it was made; the other side holds a `Remote` that sends each use of it back. So
the judge compares results and never runs, imports or unpickles what a student wrote. A call may
call back: a model that the judge hands over is computed by the judge. Gradients cross as well:
`Attach` continues a graph in the process that has the rest of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import (
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
)

from nmtcourse.homework.messages import (
    Call,
    Message,
    Reply,
    tuples,
    valid,
    watched,
)
from nmtcourse.homework.mirrors import copied
from nmtcourse.homework.operations import Operations
from nmtcourse.homework.references import KEPT, References
from nmtcourse.homework.values import Attach, Link, Values, leaves_of, restore
from nmtcourse.homework.wire import DTYPES, MOST, Damaged, Lost, receive, send


class Peer(References):
    """One end of the connection. The one that `trusts` the other does all that it is told."""

    def __init__(self, reader: Any, writer: Any, trusts: bool):
        super().__init__(trusts)
        self.reader, self.writer = reader, writer
        self.most = 2**40 if trusts else MOST
        self.graphs: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
        self.freed: list[int] = []
        self.leaves: list[Tensor] = []  # that functions called back have used without being given
        self.random = b""
        self.until = self.seconds = 0.0  # when all calls must be done; of one call, if not 0
        self.around: Callable[[float], Any] | None = None  # what a called function is run within

    def forget(self) -> None:
        """Drop what earlier calls have left on both sides."""
        self.call(0, "forget")
        self.clear()

    def clear(self) -> None:
        """Drop this side's part of it."""
        self.own = {n: each for n, each in self.own.items() if n < KEPT}
        self.numbers = {id(each): n for n, each in self.own.items()}
        self.graphs, self.raised, self.random = {}, {}, b""
        self.modules.clear()

    def parcel(self, values: Values, **message: Any) -> None:
        """Send a message with what both sides share: random numbers, modes, weights."""
        state = torch.get_rng_state()
        raw = state.numpy().tobytes()
        if raw != self.random:
            message["random"], self.random = values._blob(raw), raw
        message["grad"], message["default"] = (
            torch.is_grad_enabled(),
            str(torch.get_default_dtype()),
        )
        message["freed"], self.freed = self.freed, []
        message["states"] = self.modules.changed(values)
        send(self.writer, message, values.blobs)

    def unpack(self, message: Message, values: Values) -> None:
        """Take over what both sides share."""
        if message.random is not None:
            self.random = values._at(message.random)
            torch.set_rng_state(torch.frombuffer(bytearray(self.random), dtype=torch.uint8))
        default = DTYPES[message.default]
        if default is not torch.get_default_dtype():
            torch.set_default_dtype(default)
        for number in message.freed:
            self.graphs.pop(number, None)
        self.modules.update(message.states, values)

    def call(
        self,
        number: int,
        name: str | None,
        args: Any = (),
        kwargs: Any = None,
        *,
        verb: str = "call",
        path: str = "",
    ) -> Any:
        """Let the other side call, read or change something of its own; returns the result."""
        watching = [m for m in _get_current_dispatch_mode_stack() if isinstance(m, Operations)]
        with _disable_current_modes():
            return self._call(number, name, [*args], kwargs or {}, verb, path, watching)

    def _call(
        self,
        number: int,
        name: str | None,
        args: list[Any],
        kwargs: dict[str, Any],
        verb: str,
        path: str,
        watching: list[Operations],
    ) -> Any:
        values = Values(self)
        parameters = self.modules.parameters() if verb != "backward" else []
        self.parcel(
            values,
            do=verb,
            on=number,
            name=name,
            path=path,
            given=[values.encode(args), values.encode(kwargs)],
            parameters=[known for known, _ in parameters],
            seconds=min(self.seconds, max(0.01, self.until - time.monotonic())),
            watch=values.place_of(watching[0].made[:1]) if watching else None,
        )
        inputs = [*values.inputs, *(parameter for _, parameter in parameters)]
        outer, self.leaves = self.leaves, []
        reply, blobs = self._answered()
        values = Values(self, blobs, [])
        with valid():
            self.unpack(reply, values)
            leaves, self.leaves = self.leaves, outer
            raised = reply.error and self.rebuilt(reply.error)
            values.outputs = self.attached(reply, values, inputs, leaves) if reply.outputs else []
            result, changed = map(values.decode, (reply.value, reply.changed))  # as encoded
        for old, new in zip([args, kwargs], changed or (), strict=False):
            restore(old, new)
        for mode in watching:
            mode.seen, mode.touched = mode.seen + reply.seen, mode.touched + reply.touched
        if raised:
            raise raised
        return result

    def attached(
        self, reply: Reply, values: Values, inputs: list[Tensor], leaves: list[Tensor]
    ) -> list[Tensor]:
        """Results with the graph that they have on the other side, and what called back adds."""
        link = Link(self, reply.graph, [values._tensor(node) for node in reply.outputs], leaves)
        with torch.enable_grad():
            made = [*Attach.apply(link, link.blank, *inputs, *leaves)]
        link.outputs = []
        return made

    def _answered(self) -> tuple[Reply, list[bytes]]:
        """The reply to a call; calls that come before it are answered."""
        while True:
            message, blobs = receive(self.reader, self.most)
            with valid():
                if "do" not in message:
                    return Reply.model_validate(tuples(message)), blobs
            self.serve(message, blobs)

    def serve(self, message: Any, blobs: list[bytes]) -> None:
        """Answer one call of the other side."""
        values, made = Values(self, blobs), Values(self, outputs=[])
        reply: dict[str, Any] = {"error": None, "outputs": [], "graph": 0, "value": None}
        args, kwargs, given, before = [], {}, [], None
        try:
            with valid():
                call = Call.model_validate(tuples(message))
                self.unpack(call, values)
                args, kwargs = (values.decode(node) for node in call.given)
                given = [*values.inputs, *map(self.modules.found, call.parameters)]
            before = self._encoded(args, kwargs)
            with torch.set_grad_enabled(call.grad), watched(call, values.tensors, reply):
                result = self.perform(call, args, kwargs)
            reply["value"] = made.encode(result)
        except BaseException as error:
            if isinstance(error, Lost) or isinstance(error, Damaged) and not self.trusts:
                raise
            made = Values(self, outputs=[])
            reply["error"] = self.told(error).model_dump()
        if made.inputs and made.outputs:
            reply["graph"], reply["outputs"] = self.next(), made.outputs
            self.graphs[reply["graph"]] = made.inputs, given
            self.leaves += leaves_of(made.inputs, given)
        if before is not None and self._encoded(args, kwargs) != before:
            made.outputs = None
            reply["changed"] = made.encode([args, kwargs])
        self.parcel(made, **reply)

    def _encoded(self, args: Any, kwargs: Any) -> Any:
        """The arguments as data, to see whether a call has changed them."""
        values = Values(self)
        return (values.encode([args, kwargs]), values.blobs) if self.trusts else None

    def perform(self, call: Call, args: list, kwargs: dict) -> Any:
        """Do what the other side asks for, where that is allowed."""
        verb, name, number = call.do, call.name, call.on
        if verb == "sync":
            return None
        if verb == "backward":
            return self.backward(number, args)
        target = self.own[number]
        if call.path:
            target = target.get_submodule(call.path)
        if not self.trusts:
            self.require_harmless(verb, target, name)
        if verb == "copy":
            return copied(target)
        if verb == "get":
            return getattr(target, str(name))
        if verb == "set":
            return setattr(target, str(name), *args)
        function = target if name is None else getattr(target, name)
        if self.around is None or number < KEPT:
            return function(*args, **kwargs)
        with self.around(call.seconds):
            return function(*args, **kwargs)

    def backward(self, number: int, grads: list[Any]) -> list[Any]:
        """The gradients of the inputs of a graph; those of other tensors stay in this process."""
        outputs, inputs = self.graphs[number]
        kept = [tensor.grad for tensor in inputs]
        for tensor in inputs:
            tensor.grad = None
        pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if g is not None]
        try:
            with torch.enable_grad():
                torch.autograd.backward(
                    [o for o, _ in pairs], [g for _, g in pairs], retain_graph=True
                )
            return [None if tensor.grad is None else tensor.grad.clone() for tensor in inputs]
        finally:
            for tensor, old in zip(inputs, kept, strict=True):
                tensor.grad = old
