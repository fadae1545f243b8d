"""Read the attention weights of any model by experiments on the linear maps around them.

Attention is four linear maps in a row, of which the last reads what the others make.  Which one
makes the values is found by silencing each; the values are then replaced by some that we know, and
what arrives at the last map tells the weights.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcheck.adapter import Adapter
from nmtcheck.measure.helpers import padded_batch, silence

Change = Callable[[Tensor], Tensor]
PARTS = {"encoder": "the encoder's self-attention", "decoder": "the decoder's self-attention"}
PARTS["cross"] = "cross-attention"


class Call(NamedTuple):
    """One linear map in a pass, be it a module or a function."""

    weight: Tensor
    read: Tensor
    made: Tensor


@dataclass
class Probe:
    """A model in one mode, with the padded batch that it reads."""

    adapter: Adapter
    model: nn.Module
    source: Tensor
    target: Tensor

    def run(self, at: int = -1, change: Change | None = None) -> list[Call]:
        """The linear maps of one pass; `change` takes the place of what number `at` made."""
        calls: list[Call] = []
        linear = F.linear

        def called(read: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
            made = linear(read, weight, bias)
            made = change(made) if change and len(calls) == at else made
            calls.append(Call(weight, read, made))
            return made

        torch.manual_seed(0)
        vars(F)["linear"] = called  # which modules and functions of torch look up here
        try:
            with torch.no_grad():
                self.adapter.logits(self.model, self.source, self.target)
        finally:
            vars(F)["linear"] = linear
        return calls


class Attention(NamedTuple):
    """One attention of a pass: the numbers of its calls, and where in its call the values are."""

    part: str  # a key of PARTS
    name: str  # of the map that reads the result
    inner: tuple[int, ...]  # the calls that make queries and keys
    value: int
    out: int
    begin: int  # the values are the columns from here on
    width: int

    def put(self, change: Change) -> Change:
        """The change of what the call makes where only the values change."""

        def changed(made: Tensor) -> Tensor:
            values = made[..., self.begin : self.begin + self.width]
            before, after = made[..., : self.begin], made[..., self.begin + self.width :]
            return torch.cat([before, change(values), after], dim=-1)

        return changed


def batch_axis(probe: Probe, x: Tensor) -> int:
    """Whether sentences are the first or the second axis."""
    return 0 if x.size(0) == len(probe.source) else 1


def attentions(probe: Probe) -> list[Attention]:
    """The attentions that are made of linear maps, in the order of the pass."""
    calls, found = probe.run(), list[Attention]()
    names = {id(p): name.removesuffix(".weight") for name, p in probe.model.named_parameters()}
    lengths = probe.source.size(1), probe.target.size(1)
    free = 0
    for out, call in enumerate(calls):
        width = call.read.size(-1)
        for count in (3, 2, 1):
            inner = range(out - count, out)
            if out - count < free or found and found[-1].out == out or call.read.dim() != 3:
                continue
            if sum(calls[i].made.size(-1) for i in inner) != 3 * width:
                continue
            for value, begin in values_of(probe, calls, inner, out, width):
                sizes = [x.size(1 - batch_axis(probe, x)) for x in (calls[value].made, call.read)]
                kinds = {
                    (lengths[0],) * 2: "encoder",
                    (lengths[1],) * 2: "decoder",
                    lengths: "cross",
                }
                part = kinds.get(tuple(sizes), "")
                if part and mixes(probe, Attention(part, "", (), value, out, begin, width)):
                    others = tuple(i for i in inner if i != value)
                    name = names.get(id(call.weight), "a linear map")
                    found.append(Attention(part, name, others, value, out, begin, width))
                    free = out + 1
    return found


def values_of(
    probe: Probe, calls: list[Call], inner: range, out: int, width: int
) -> Iterator[tuple[int, int]]:
    """The call that makes the values, and their first column: silencing them silences attention."""
    for i in reversed(inner):
        for begin in reversed(range(0, calls[i].made.size(-1), width)):
            tried = Attention("", "", (), i, out, begin, width)
            with contextlib.suppress(Exception):
                again = probe.run(i, tried.put(torch.zeros_like))
                if not again[out].read.any() and calls[out].read.any():
                    yield i, begin
                    return


def arrived(probe: Probe, attention: Attention, change: Change) -> Tensor:
    """What reaches the last map (B, T, n), of changed values (B, S, n)."""
    axis = batch_axis(probe, probe.run()[attention.value].made)

    def turned(values: Tensor) -> Tensor:
        return change(values.transpose(0, axis)).transpose(0, axis)

    read = probe.run(attention.value, attention.put(turned))[attention.out].read
    return read.transpose(0, batch_axis(probe, read))


def mixes(probe: Probe, attention: Attention) -> bool:
    """Whether the first position reaches others: a feed-forward block keeps them apart."""
    read = arrived(
        probe, attention, lambda x: x.new_ones(x.shape) * (torch.arange(x.size(1)) == 0)[:, None]
    )
    return bool(read[:, 1:].any())


def weights(probe: Probe, attention: Attention) -> Tensor:
    """The weights (B, T, S, n) with which each column of the result reads the source positions."""
    length = (probe.target if attention.part == "decoder" else probe.source).size(1)

    def only(place: int) -> Change:
        marks = torch.arange(length)[None, :, None] == place
        return lambda values: torch.ones_like(values) * marks

    return torch.stack([arrived(probe, attention, only(s)) for s in range(length)], dim=2)


@contextlib.contextmanager
def shown_weights(model: nn.Module) -> Iterator[list[tuple[str, Tensor]]]:
    """See the weights (B, H, T, S) of every `nn.MultiheadAttention` while the block runs."""
    seen: list[tuple[str, Tensor]] = []
    handles = []
    for name, module in model.named_modules():
        if isinstance(module, nn.MultiheadAttention):
            options = {"need_weights": True, "average_attn_weights": False}
            ask = lambda module, given, known, o=options: (given[:4], {**known, **o})  # noqa: E731
            keep = lambda module, given, made, name=name: seen.append((name, made[1]))  # noqa: E731
            handles.append(module.register_forward_pre_hook(ask, with_kwargs=True))
            handles.append(module.register_forward_hook(keep))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def probed(adapter: Adapter, model: nn.Module, seed: int) -> Probe:
    """A probe of a model whose dropout is off, in its present mode."""
    source, target, _ = padded_batch(adapter, seed)
    return Probe(adapter, silence(model), source, target)


def all_weights(probe: Probe, parts: Sequence[str]) -> Iterator[tuple[str, str, Tensor]]:
    """Part, name, and weights (B, T, S, n) of the attentions of some parts, if they can be read."""
    for attention in (each for each in attentions(probe) if each.part in parts):
        yield attention.part, attention.name, weights(probe, attention)
    lengths = probe.source.size(1), probe.target.size(1)
    kinds = {(lengths[0],) * 2: "encoder", (lengths[1],) * 2: "decoder", lengths[::-1]: "cross"}
    with torch.no_grad(), shown_weights(probe.model) as seen:
        probe.adapter.logits(probe.model, probe.source, probe.target)
    for name, table in seen:
        part = "" if table is None else kinds.get(tuple(table.shape[-2:]), "")
        if part in parts:
            yield part, name, table.permute(0, 2, 3, 1)


def leaks(found: Tensor, hidden: Tensor) -> float:
    """The largest weight (B, T, S, n) where `hidden` (B, T, S) says that there must be none."""
    return float(found[hidden].abs().max()) if hidden.any() else 0.0
