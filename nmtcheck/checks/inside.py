"""Checks of the attention inside any model: who reads whom, how heads are joined, and the scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from nmtcheck.adapter import Adapter
from nmtcheck.measure.helpers import TOLERANCE, build, listed
from nmtcheck.measure.probing import (
    PARTS,
    Attention,
    Probe,
    all_weights,
    arrived,
    attentions,
    leaks,
    probed,
    weights,
)
from nmtcheck.registry import Finding, check

UNKNOWN = "no attention made of linear maps was found in the model"
LOOSE = 30 * TOLERANCE
NO_SUM = "The softmax runs over a different axis than the keys, or weights are changed after it."
ANOTHERS = """\
Alone each sentence is masked; in a batch one gets the mask of another: masks or lengths are \
repeated for the heads in the wrong order (repeat instead of repeat_interleave)."""
MIXED = """\
Heads and tokens are mixed: (B, S, D) is reshaped straight to heads, or (B, H, T, d_k) straight to \
(B, T, D); exchange the two axes with transpose(1, 2) in between."""


@check("inside.heads", "make_model")
def heads(adapter: Adapter, seed: int) -> str:
    """Where all values are the same vector, every token gets that vector from its heads."""
    probe = probed(adapter, build(adapter, seed), seed)
    found = attentions(probe)
    if not found:
        raise NotImplementedError(UNKNOWN)
    for each in found:
        real = (probe.source if each.part == "encoder" else probe.target) != adapter.pad
        place = f"{PARTS[each.part]} ({each.name!r} reads the result)"
        ones: Tensor = arrived(probe, each, torch.ones_like)[real]
        seen = (ones - 1)[ones.abs().amax(-1) > TOLERANCE]  # a query may have no key at all
        if seen.numel() and float(seen.abs().max()) > LOOSE:
            sums = (
                f"weights of a query sum to {ones.min():.2f} to {ones.max():.2f}, not 1, in {place}"
            )
            raise Finding(sums, NO_SUM)
        marks = torch.arange(each.width) / each.width
        said = arrived(probe, each, lambda values, m=marks: m.expand_as(values))[real]
        said = said[ones.abs().amax(-1) > TOLERANCE]
        if seen.numel() and (apart := float((said - said[:1]).abs().max())) > LOOSE:
            raise Finding(
                f"all values are equal, and tokens differ by {apart:.2g} in {place}", MIXED
            )
    return f"in {len(found)} attentions weights sum to one and heads keep their columns"


def faults(probe: Probe, part: str, found: Tensor) -> Iterator[tuple[str, str]]:
    """What is wrong with the weights (B, T, S, n) of one attention, and its cause."""
    pad, where = probe.adapter.pad, PARTS[part]
    rows = (probe.source if part == "encoder" else probe.target) != pad
    keys = (probe.target if part == "decoder" else probe.source) != pad
    both = rows[:, :, None] & keys[:, None]  # (B, T, S)
    every = torch.ones(found.shape[1:3], dtype=torch.bool)
    if part == "decoder":
        future = leaks(found, both & ~every.tril())
        own, past = (leaks(found, both & m) for m in (torch.eye(len(every)) > 0, every.tril(-1)))
        if future > TOLERANCE:
            cause = f"No causal mask reaches {where}."
            if alike(found, both & ~every.tril()):
                cause = "Masked scores are filled with a number that is not low enough."
            elif leaks(found, both & ~every.tril(1)) < TOLERANCE:
                cause = "Each position sees the next one: the causal mask is off by one."
            elif past == 0.0:
                cause = "The causal mask is inverted: positions see the future and not the past."
            yield f"in {where} a future token has the weight {future:.2g}, expected 0", cause
        elif own == 0.0:
            cause = "The causal mask is off by one: it hides the position itself."
            yield f"in {where} no position attends to itself", cause
        return
    nothing = rows[:, :, None] & ~keys[:, None]
    if (hidden := leaks(found, nothing)) > TOLERANCE:
        cause = f"No padding mask of the source reaches {where}."
        # Of a query for which all keys are hidden the weights are even, or no numbers.
        padded = both & nothing.any(2, keepdim=True)
        if leaks(found, padded) == 0.0:
            cause = "The padding mask is inverted: PAD is seen, and words are hidden."
        elif leaks(found, nothing & (nothing.cumsum(2) > 1)) == 0.0:
            cause = "The padding mask is off by one: the first PAD is seen, and no other."
        elif alike(found, nothing):
            cause = "Masked scores are filled with a number that is not low enough."
        yield f"in {where} PAD has the weight {hidden:.2g}, expected 0", cause
    for seen, what in ((every.tril(), "later"), (every.triu(), "earlier")):
        # Sharp attention gives tiny weights; only a mask gives zero.
        if leaks(found, both & ~seen) == 0.0 < leaks(found, both):
            said = f"in {where} no query attends to {what} positions of the source"
            yield said, f"There is a causal mask in {where}: it must see the whole source."


def alike(found: Tensor, hidden: Tensor) -> bool:
    """Whether all hidden keys of a query have one weight: that of a number that fills them."""
    several = (found[b, t][hidden[b, t]] for b, t in hidden.sum(2).gt(1).nonzero())
    apart = [float((keys - keys[:1]).abs().max()) for keys in several]
    return bool(apart) and max(apart) < 1e-6


def single(probe: Probe, parts: Sequence[str]) -> bool:
    """Whether a padded sentence alone is read as it should be."""
    one = Probe(probe.adapter, probe.model, probe.source[1:2], probe.target[1:2])
    told = [[*faults(one, part, found)] for part, _, found in all_weights(one, parts)]
    return bool(told) and not any(told)


def padded_left(probe: Probe, part: str, found: Tensor) -> bool:
    """Whether all words are read and no PAD, where the model has moved PAD to the left."""
    keys = (probe.source != probe.adapter.pad).flip(1)
    rows = keys if part == "encoder" else probe.target != probe.adapter.pad
    seen = found.abs().amax(-1) > 0  # (B, T, S)
    return part != "decoder" and bool((seen == keys[:, None])[rows].all())


def masked(adapter: Adapter, seed: int, *parts: str) -> str:
    """What the attentions of some parts read in both modes; a Finding where they must not."""
    said: dict[bool, dict[str, tuple[str, str]]] = {False: {}, True: {}}
    read, probes = 0, dict[bool, Probe]()
    for training, told in said.items():
        probe = probes[training] = probed(adapter, build(adapter, seed).train(training), seed)
        for part, name, found in all_weights(probe, parts):
            read += 1
            bad = [] if padded_left(probe, part, found) else list(faults(probe, part, found))
            told |= {name: bad[0]} if bad else {}
    if not read:
        raise NotImplementedError(UNKNOWN)
    for training, told in said.items():
        if told:
            text, cause = next(iter(told.values()))
            causes = [cause, *dict.fromkeys(each for _, each in told.values() if each != cause)]
            if not said[not training]:
                text += f", in {'train' if training else 'eval'} mode only"
                causes = [f"{'train' if training else 'eval'} mode drops the mask:".capitalize()]
                causes.append("`self.training` may affect nothing but dropout.")
            elif single(probes[training], parts):
                causes = [ANOTHERS]
            raise Finding(f"{text} ({listed([*told])})", " ".join(causes))
    return f"{read // 2} attentions"


@check("inside.future", "make_model")
def no_future(adapter: Adapter, seed: int) -> str:
    """The decoder's self-attention reads a position itself and what is before it, no more."""
    return f"{masked(adapter, seed, 'decoder')} give no weight to the future, in both modes"


@check("inside.padding", "make_model")
def no_padding(adapter: Adapter, seed: int) -> str:
    """The encoder and cross-attention read the whole source, and no PAD."""
    return f"{masked(adapter, seed, 'encoder', 'cross')} give no weight to PAD, in both modes"


def divisor(probe: Probe, each: Attention, n_heads: int) -> tuple[float, float]:
    """How badly heads of one attention fit, and what its scores are divided by."""
    calls, table = probe.run(), weights(probe, each)
    made = [calls[i].made for i in each.inner] + [calls[each.value].made]
    parts = [x for whole in made for x in whole.split(each.width, dim=-1)]
    flat = [x.transpose(0, 0 if x.size(0) == len(probe.source) else 1) for x in parts]
    queries, keys = ([x for x in flat if x.size(1) == n] for n in table.shape[1:3])
    best, numbers = (math.inf, 1.0), torch.arange(each.width)
    for k in keys:
        for q in queries:
            if k is q:
                continue
            for columns in (numbers.view(n_heads, -1), numbers.view(-1, n_heads).T):
                scores = torch.einsum("bthd,bshd->bths", q[..., columns], k[..., columns])
                logp = table[..., columns[:, 0]].permute(0, 1, 3, 2).clamp(min=1e-12).log()
                seen = (logp > -20) & (logp[..., :1] > -20)
                raw, soft = ((x - x[..., :1])[seen] for x in (scores, logp))
                factor = float((raw @ soft) / (raw @ raw))
                off = float((raw * factor - soft).norm() / soft.norm())
                best = min(best, (off, 1 / factor if factor else math.inf))
    return best


@check("inside.scale", "make_model")
def scale(adapter: Adapter, seed: int) -> str:
    """In every attention the scores are divided by the root of the head size."""
    probe, told = probed(adapter, build(adapter, seed, noise=0.3), seed), []
    for each in attentions(probe):
        # Whatever number of heads a model has, the scores of a different number do not fit.
        counts = [4] if adapter.resizable else [n for n in range(1, 33) if each.width % n == 0]
        (off, found), n_heads = min((divisor(probe, each, n), n) for n in counts)
        if off > 0.01:
            continue
        size = each.width / n_heads
        told.append(f"{found:.3g}")
        if abs(found / math.sqrt(size) - 1) > 0.02:
            known = {
                1.0: "The scores are not scaled.",
                size: "The scores are divided by d_k, not by its root.",
                math.sqrt(each.width): "The scores are divided by the root of d_model, not of d_k.",
                math.sqrt(size) ** -1: "The scores are multiplied by the root of d_k.",
            }
            cause = next(
                (text for value, text in known.items() if abs(found / value - 1) < 0.02), ""
            )
            said = f"in {PARTS[each.part]} the scores are divided by {found:.3g}"
            raise Finding(f"{said}, expected the root of d_k = {size:g}", cause)
    if not told:
        raise NotImplementedError("no scores of queries and keys could be read")
    return f"the scores of {len(told)} attentions are divided by {', '.join(dict.fromkeys(told))}"
