"""A class is judged by traces: an object is made, its methods are called, results are compared."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from nmtcourse.homework.compare import gradients
from nmtcourse.homework.inputs import LONG, Draw
from nmtcourse.homework.laws import copied, methods_of
from nmtcourse.homework.signatures import arguments, left_in, results


def traced(task: Any, signature: Mapping[str, Any]) -> Callable[[Any, Draw], Iterator]:
    """What some calls of the methods of an object show, with arguments of a signature.

    The first call is that of the first method. Attributes `shown` are compared after each. A
    given function that counts its `calls` has as many as with the solution; its `weights` get the
    same gradients, and so do those of a module, if they are `listed` in the text. What the caller
    gave is spoiled after each call, such weights are changed, and a module gets other sizes.
    """
    first, *_ = methods = methods_of(task.solution)

    def taken_by(name: str, known: dict[str, Any], draw: Draw) -> list[Any]:
        names = [*inspect.signature(getattr(task.solution, name)).parameters][1:]
        known |= arguments({n: each for n, each in signature.items() if n in names}, draw, known)
        return [known[each] for each in names if each in known]

    def measure(answer: Any, draw: Draw) -> Iterator:
        known: dict[str, Any] = {}
        if all(getattr(kind, "half", True) for kind in signature.values()):
            draw.halved()
        given = [copied(each) for each in taken_by("__init__", known, draw)]
        made, sizes = answer(*given), {**draw.known}
        spoil(given)
        drops = any(isinstance(each, float) and each for each in known.values())
        if learns := isinstance(made, nn.Module):
            made = trained(made, answer, [*known.values()], draw, task.listed)
            made.train(draw.one_of([True, False]) and not drops)
        if draw.choose(2):  # another object, which is called as well
            own: dict[str, Any] = {}
            other = answer(*taken_by("__init__", own, draw))
            other = other.to(draw.dtype) if learns else other
            getattr(other, first)(*taken_by(first, own, draw))
            draw.known = {**sizes}
        yield from ((f"`{each}` before any call", getattr(made, each)) for each in task.shown)
        long = draw.sizing == LONG and len(draw.known) == draw.long and not learns
        for number in range(220 if long else 1 + draw.choose(task.calls)):
            name = draw.one_of(methods) if number else first
            args = taken_by(name, known, draw)
            what = f"of call {number + 1}" + f", `{name}`" * (len(methods) > 1)
            weights = [w for each in known.values() for w in getattr(each, "weights", [])]
            if learns:
                yield from learned(made, args, name, what, weights, task.listed, draw)
                draw.known = {**sizes}
                draw.__dict__.pop("leading", None)
            else:
                for part, value in results(getattr(made, name)(*args), False):
                    yield f"{part} {what}", value
            if learns and drops:  # its numbers are random
                yield f"the type in training {what}", str(made.train()(*args).dtype)
                made.eval()
            yield from ((f"`{n}` after call {number + 1}", getattr(made, n)) for n in task.shown)
            yield from left_in({n: each for n, each in known.items() if callable(each)})
            spoil(args)

    return measure


def learned(
    made: nn.Module,
    args: list,
    name: str,
    what: str,
    weights: list[Tensor],
    listed: bool,
    draw: Draw,
) -> Iterator:
    """What a call of a module shows: results, and gradients for a random one of a result."""
    decimal = [x for x in args if isinstance(x, Tensor) and x.is_floating_point()]
    weights += [x.requires_grad_() for x in decimal]
    weights += [w for _, w in sorted(made.named_parameters()) if listed]
    found = made(*args) if name == "forward" else getattr(made, name)(*args)
    for part, value in results(found, True):
        yield f"{part} {what}", value
    if isinstance(found, Tensor) and not draw.half:
        towards = draw.normal(*found.shape)
        yield f"the gradients {what}", gradients(found, towards, *weights)
    for parameter in made.parameters() if listed else ():
        parameter.detach().mul_(-0.5)


def trained(
    module: nn.Module, answer: Any, given: list[Any], draw: Draw, listed: bool
) -> nn.Module:
    """A module in this input's type, a copy of it, or one that is given its state.

    Its weights are other ones, in which a 0 stays, if the text says which it has.
    """
    for _, weight in sorted(module.named_parameters()) if listed else ():
        scale = weight.size(-1) ** -0.5 if weight.dim() > 1 else 1.0
        numbers, zero = draw.normal(*weight.shape, scale=scale), weight == 0
        weight.detach().copy_(numbers.masked_fill(zero & ~zero.all(), 0))
    module.to(draw.dtype)
    original, how = module, draw.choose(3)
    if how == 1:
        module = copy.deepcopy(original)
    elif how == 2:
        module = answer(*map(copied, given)).to(draw.dtype)
        module.load_state_dict(original.state_dict())
    if how:
        spoil([each.data for each in original.train(False).state_dict().values()])
    return module


def spoil(values: Any) -> None:
    """Empty and zero what was given: it belongs to the caller, who goes on with it."""
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, Tensor):
            value.detach().zero_()
        elif type(value) in (list, dict):
            spoil(value)
            value.clear()
