"""Checks of what a trace shows: which module runs how often, and what is multiplied by what."""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from nmtcheck.adapter import Adapter, Sizes
from nmtcheck.checks.layers import stacked
from nmtcheck.measure.helpers import build, listed, silence, still, words_of
from nmtcheck.measure.operations import PRODUCTS, Trace
from nmtcheck.measure.reading import reading, run, uneven_batch
from nmtcheck.registry import Finding, check


def passes(calls: Counter[str], name: str) -> int:
    """How often the layer runs that holds a module; a list of modules is none."""
    while name:
        name = name.rpartition(".")[0]
        if calls[name]:
            return calls[name]
    return 1


@check("layers.own_norms", "make_model")
def own_norms(adapter: Adapter, seed: int) -> str:
    """Every sub-layer has a norm and an attention of its own."""
    model = silence(build(adapter, seed))
    calls = Counter(run(adapter, model, *uneven_batch(adapter, seed)).modules)
    modules = dict(model.named_modules())
    norms = [n for n, m in modules.items() if "Norm" in type(m).__name__ and not [*m.children()]]
    shared = [n for n in norms if calls[n] > passes(calls, n)]
    if shared:
        most = max(shared, key=lambda name: calls[name])
        times = f"{calls[most]} times in {passes(calls, most)} pass of its layer"
        raise Finding(f"{listed(shared)} is called up to {times}")
    parts: dict[str, set[str]] = {}
    for each in reading(adapter, seed).attentions if norms else ():
        parts.setdefault(each.module, set()).add(each.part)
    double = [name for name, kinds in parts.items() if name and len(kinds) > 1]
    if double and len(parts) > 1:
        raise Finding(f"{listed(double)} is {' and '.join(sorted(parts[double[0]]))} attention")
    return f"{len(norms)} norms, none called twice in one pass of its layer"


@check("layers.whole_input", "make_model", "resizable")
def whole_input(adapter: Adapter, seed: int) -> str:
    """Queries, keys and values of every head are made of the whole token."""
    view = reading(adapter, seed)
    width = Sizes().d_model
    sliced = [
        linear.name
        for linear in view.trace.linears
        if any(a.module and linear.name.startswith(a.module) for a in view.attentions)
        and linear.read.size(-1) == view.attentions[0].size < width
    ]
    if sliced:
        names = listed([*dict.fromkeys(sliced)])
        message = f"{names} read {view.attentions[0].size} of {width} values"
        cause = "A head projects its own slice of the token: make it of all d_model."
        raise Finding(message, cause)
    return f"the maps of {len(view.attentions)} attentions read whole tokens"


def factors(adapter: Adapter, trace: Trace, source: Tensor, target: Tensor) -> dict[str, float]:
    """Side -> what its embedding is multiplied by before positions are added."""
    sides = {"source": words_of(adapter, source), "target": words_of(adapter, target)}
    return {
        side: factor
        for ids, factor in trace.scaled
        for side, mine in sides.items()
        if words_of(adapter, ids) == mine
    }


@check("embedding.sides", "make_model", "scaled_embedding")
def sides(adapter: Adapter, seed: int) -> str:
    """The embeddings of both sides are multiplied by one number, whatever the length."""
    model = silence(build(adapter, seed))
    source, target = uneven_batch(adapter, seed)
    short = factors(adapter, run(adapter, model, source, target), source, target)
    wide = F.pad(source, (0, 4), value=adapter.pad), F.pad(target, (0, 4), value=adapter.pad)
    long = factors(adapter, run(adapter, model, *wide), *wide)
    if len(short) < 2 or not all(map(math.isfinite, short.values())):
        raise NotImplementedError("no embeddings of two sides were seen before positions are added")
    for side, factor in short.items():
        if side in long and abs(long[side] / factor - 1) > 1e-3:
            lengths = f"{factor:.3g}, and with four more positions by {long[side]:.3g}"
            cause = "They are multiplied by the root of the sentence's length, not of d_model."
            raise Finding(f"embeddings of the {side} are multiplied by {lengths}", cause)
    first, second = short.values()
    if abs(first / second - 1) > 1e-3:
        message = f"the source's embeddings are multiplied by {short['source']:.3g}"
        cause = "One side's embeddings are scaled, and the other's are not."
        raise Finding(f"{message}, the target's by {short['target']:.3g}", cause)
    return f"both sides' embeddings are multiplied by {first:.3g}"


@check("layers.one_parameter", "make_model")
def one_parameter(adapter: Adapter, seed: int) -> str:
    """Weights that are shared are one parameter, so that an optimizer changes them once."""
    torch.manual_seed(seed)
    places: dict[int, list[str]] = {}
    model = adapter.make_model(Sizes())
    tables = {n: m.weight for n, m in model.named_modules() if isinstance(m, nn.Embedding)}
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if isinstance(module, nn.Linear) and weight.std() > 0:
            for table, other in tables.items():
                if other.data_ptr() != weight.data_ptr() and torch.equal(other, weight):
                    said = f"the weights of {table!r} and {name!r} are equal, and two tensors"
                    raise Finding(said, "They are tied by a copy: training moves them apart.")
    for name, parameter in model.named_parameters():
        if parameter.numel():
            places.setdefault(parameter.data_ptr(), []).append(name)
    if double := [names for names in places.values() if len(names) > 1]:
        cause = "Tie by assigning the parameter: last.weight = embedding.weight."
        raise Finding(f"{listed(double[0])} are different parameters on one storage", cause)
    return f"{len(places)} parameters, each with a storage of its own"


class Adds(TorchDispatchMode):
    """Notes which tensors are added to others of their shape, and which are multiplied."""

    def __init__(self) -> None:
        super().__init__()
        self.added, self.read, self.sums = set[int](), set[int](), set[int]()
        self.alive = list[Tensor]()  # so that no other tensor takes a place

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        tensors = [x for x in args if isinstance(x, Tensor)]
        self.alive += [*tensors, output] if isinstance(output, Tensor) else tensors
        if func.overloadpacket in (torch.ops.aten.add, torch.ops.aten.add_) and len(tensors) > 1:
            if tensors[0].shape == tensors[1].shape and tensors[0].dim() > 2:
                self.added |= {x.data_ptr() for x in tensors[:2]}
                self.sums.add(output.data_ptr())
        elif func.overloadpacket in PRODUCTS:
            self.read |= {x.data_ptr() for x in tensors}
        return output


@check("layers.one_stream", "make_model")
@torch.no_grad()
def one_stream(adapter: Adapter, seed: int) -> str:
    """All residual connections of a layer start before its norms, or all behind them."""
    model = silence(build(adapter, seed))
    passed, given_to = list[tuple[str, int, int]](), set[int]()

    def listen(name: str, module: nn.Module, given: tuple, output: Tensor) -> None:
        passed.append((name, given[0].data_ptr(), output.data_ptr()))

    def enter(module: nn.Module, given: tuple) -> None:
        given_to.update(x.data_ptr() for x in given[:1] if isinstance(x, Tensor))

    for name, module in model.named_modules():
        if "Norm" in type(module).__name__ and not [*module.children()] and "." in name:
            module.register_forward_hook(partial(listen, name))
    for name in stacked(model):
        model.get_submodule(name).register_forward_pre_hook(enter)
    with still(), Adds() as seen:
        adapter.logits(model, *uneven_batch(adapter, seed))
    layers = {name: re.match(r".*?\.\d+(?=\.)", name) for name, *_ in passed}
    within = {name: layer[0] for name, layer in layers.items() if layer}
    again = {read for _, read, _ in passed}
    before = {within.get(name) for name, read, made in passed if made not in seen.added} - {None}
    for name, read, made in passed:
        if made not in seen.added:
            continue
        if made in seen.read and read in given_to and read not in seen.added:
            said = f"what {name!r} makes of its layer's input is added again, and the input is not"
            cause = "A residual connection starts behind its norm: the stream itself is lost."
            raise Finding(said, cause)
        if read in seen.sums and made in again and within.get(name) in before:
            said = f"{name!r} normalises a sum in a layer that has normalised what it has read"
            raise Finding(said, "A residual block normalises before or behind its sub-layer.")
    return f"{len(passed)} norms in one pass, and one kind of residual connection in a layer"
