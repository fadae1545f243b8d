"""A class is judged by traces: an object is made, its methods are called, results are compared.

A trace of the class of homework 09 that stops a run, with an attribute `best`, may show:

    EarlyStopping(2)    `best` before any call: None
    update(3.0)         your result of call 1: False     `best` after call 1: 0
    update(2.5)         your result of call 2: False     `best` after call 2: 1

The same calls are made of the solution, and what they show is compared, line by line.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from nmtcourse.homework.compare import gradients
from nmtcourse.homework.inputs import LONG, Draw
from nmtcourse.homework.laws import copy_value, methods_of, parameter_names
from nmtcourse.homework.signatures import draw_arguments, left_in, observe_results

LONG_TRACE = 220  # calls


def trace(task: Any, signature: Mapping[str, Any]) -> Callable[[Any, Draw], Iterator]:
    """What some calls of the methods of an object show, with arguments of a signature.

    The first call is that of the first method. Attributes `shown` are compared after each. A
    given function that counts its `calls` has as many as with the solution; its `weights` get the
    same gradients, and so do those of a module, if they are `listed` in the text. What the caller
    gave is spoiled after each call, such weights are changed, and a module gets other sizes.
    """
    methods = methods_of(task.solution)
    first = methods[0]

    def draw_for(name: str, arguments: dict[str, Any], draw: Draw) -> list[Any]:
        """The arguments of a method, which join those of the calls before."""
        names = parameter_names(getattr(task.solution, name))[1:]  # without self
        kinds = {key: kind for key, kind in signature.items() if key in names}
        arguments |= draw_arguments(kinds, draw, arguments)
        return [arguments[key] for key in names if key in arguments]

    def measure(answer: Any, draw: Draw) -> Iterator:
        arguments: dict[str, Any] = {}  # of all calls, by name
        if all(getattr(kind, "half", True) for kind in signature.values()):
            draw.halved()
        args = [copy_value(value) for value in draw_for("__init__", arguments, draw)]
        subject = answer(*args)
        sizes = {**draw.known}
        spoil(args)
        # Among the arguments of a module's constructor, a decimal number is a rate of dropout.
        drops = any(isinstance(value, float) and value for value in arguments.values())
        learns = isinstance(subject, nn.Module)
        if learns:
            subject = vary_module(subject, answer, [*arguments.values()], draw, task.listed)
            subject.train(draw.one_of([True, False]) and not drops)
        if draw.choose(2):
            call_another_object(answer, draw, learns)
            draw.known = {**sizes}
        for attribute in task.shown:
            yield f"`{attribute}` before any call", getattr(subject, attribute)
        if is_long(draw, learns):
            count = LONG_TRACE
        else:
            count = 1 + draw.choose(task.calls)
        for number in range(1, count + 1):
            name = first
            if number > 1:
                name = draw.one_of(methods)
            args = draw_for(name, arguments, draw)
            what = f"of call {number}"
            if len(methods) > 1:
                what += f", `{name}`"
            if learns:
                weights = weights_of(arguments)
                yield from observe_module(subject, args, name, what, weights, task.listed, draw)
                if draw.without_gradients and not drops:
                    with torch.no_grad():
                        result = getattr(subject, name)(*args)
                    yield from observe_results(result, False)
                # The next call has the sizes of the module, and others in all else.
                draw.known = {**sizes}
                draw.__dict__.pop("leading", None)
            else:
                for part, value in observe_results(getattr(subject, name)(*args), False):
                    yield f"{part} {what}", value
            if learns and drops:  # its numbers are random
                yield f"the type in training {what}", str(subject.train()(*args).dtype)
                subject.eval()
            for attribute in task.shown:
                yield f"`{attribute}` after call {number}", getattr(subject, attribute)
            functions = {key: value for key, value in arguments.items() if callable(value)}
            yield from left_in(functions)
            spoil(args)

    def call_another_object(answer: Any, draw: Draw, learns: bool) -> None:
        """Make a second object and call it: it may change nothing in the first."""
        arguments: dict[str, Any] = {}
        another = answer(*draw_for("__init__", arguments, draw))
        if learns:
            another = another.to(draw.dtype)
        getattr(another, first)(*draw_for(first, arguments, draw))

    return measure


def is_long(draw: Draw, learns: bool) -> bool:
    """Whether an input has a trace of very many calls: one in which a size is large, each in turn.

    A module has none: its calls take longer.
    """
    return draw.sizing == LONG and len(draw.known) == draw.long and not learns


def weights_of(arguments: Mapping[str, Any]) -> list[Tensor]:
    """The weights of all functions that were given to an object."""
    weights: list[Tensor] = []
    for value in arguments.values():
        weights += getattr(value, "weights", [])
    return weights


def observe_module(
    module: nn.Module,
    args: list,
    name: str,
    what: str,
    weights: list[Tensor],
    listed: bool,
    draw: Draw,
) -> Iterator:
    """What a call of a module shows: results, and gradients for a random one of a result.

    The gradients are those of the `weights`, of the arguments, and of the module's weights if they
    are `listed`, which are changed afterwards: the next result hangs on the new ones.
    """
    inputs = [*weights]
    for value in args:
        if isinstance(value, Tensor) and value.is_floating_point():
            inputs.append(value.requires_grad_())
    if listed:
        inputs += [weight for _, weight in sorted(module.named_parameters())]
    if name == "forward":  # as a caller does, with hooks
        result = module(*args)
    else:
        result = getattr(module, name)(*args)
    # Where gradients are compared, a result without one may be right: that of PADs alone, say.
    compared = isinstance(result, Tensor) and not draw.half
    for part, value in observe_results(result, not compared):
        yield f"{part} {what}", value
    if compared:
        towards = draw.normal(*result.shape)
        yield f"the gradients {what}", gradients(result, towards, *inputs)
    if listed:
        for parameter in module.parameters():
            parameter.detach().mul_(-0.5)


def vary_module(
    module: nn.Module, answer: Any, arguments: list[Any], draw: Draw, listed: bool
) -> nn.Module:
    """A module in this input's type, a copy of it, or one that is given its state.

    Its weights are other ones, in which a 0 stays, if the text says which it has.
    """
    if listed:
        for _, weight in sorted(module.named_parameters()):
            scale = 1.0
            if weight.dim() > 1:
                scale = weight.size(-1) ** -0.5
            numbers = draw.normal(*weight.shape, scale=scale)
            zero = weight == 0  # such as the row of PAD; not a weight that begins as zeros
            weight.detach().copy_(numbers.masked_fill(zero & ~zero.all(), 0))
    module.to(draw.dtype)
    how = draw.choose(3)
    if how == 0:
        return module
    if how == 1:
        twin = copy.deepcopy(module)
    else:
        twin = answer(*map(copy_value, arguments)).to(draw.dtype)
        twin.load_state_dict(module.state_dict())
    # A twin that shares a weight with the original would now be wrong.
    spoil([tensor.data for tensor in module.train(False).state_dict().values()])
    return twin


def spoil(values: Any) -> None:
    """Empty and zero what was given: it belongs to the caller, who goes on with it."""
    if isinstance(values, dict):
        values = values.values()
    for value in values:
        if isinstance(value, Tensor):
            value.detach().zero_()
        elif type(value) in (list, dict):
            spoil(value)
            value.clear()
