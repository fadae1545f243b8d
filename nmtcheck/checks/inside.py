"""Checks of the attention inside any model: who reads whom, how heads are joined, and the scale."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter, Sizes
from nmtcheck.checks.masks import future, same_with_more_padding
from nmtcheck.measure.helpers import TOLERANCE, another_word
from nmtcheck.measure.proof import prove_cause
from nmtcheck.measure.reading import (
    PARTS,
    Attention,
    Reading,
    by_a_view,
    hide,
    join,
    make_repair,
    over_keys,
    read,
    reading,
    rescale,
    run,
    visible,
)
from nmtcheck.registry import Finding, check

LOOSE = 30 * TOLERANCE
LOW = "Masked scores are filled with a number that is not low enough."
ANOTHERS = """\
Alone each sentence is masked; in a batch one gets the mask of another: masks or lengths are \
repeated for the heads in the wrong order (repeat instead of repeat_interleave)."""
MIXED = {
    (False, True): "(B, H, T, d_k) is reshaped straight to (B, T, D)",
    (True, False): "(B, T, D) is reshaped straight to (B, H, T, d_k)",
    (True, True): "(B, T, D) is reshaped straight to (B, H, T, d_k), and back",
}


@check("layers.registered", "make_model")
def registered(adapter: Adapter, seed: int) -> str:
    """Every module that a model holds is one of its own, with its weights."""
    torch.manual_seed(seed)
    model = adapter.make_model(Sizes())
    own = {*model.modules()}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            held = value.values() if isinstance(value, dict) else value
            held = [*held] if isinstance(value, list | tuple | dict) and key[0] != "_" else []
            lost = [x for x in held if isinstance(x, nn.Module) and x not in own]
            if lost:
                where = f"{name}.{key}".lstrip(".")
                said = f"{len(lost)} modules in {where!r} are no part of the model: never trained"
                found = Finding(said, f"They stand in a plain {type(value).__name__}.")
                what = "them in an nn.ModuleList"
                raise prove_cause(adapter, seed, found, hold_modules, registered, what)
    return f"{len(own)} modules, all of them registered"


@check("inside.sums", "make_model")
def sums(adapter: Adapter, seed: int) -> str:
    """The weights of each query are not negative and sum to one over its keys."""
    view = reading(adapter, seed)
    for each in view.attentions:
        queries, _ = visible(view, adapter, each)
        rows = each.weights.sum(-1).transpose(1, 2)[queries]  # (N, H)
        rows = rows[rows.abs() > TOLERANCE]  # a query may have no key at all
        if rows.numel() and float((rows - 1).abs().max()) > LOOSE or each.weights.min() < 0:
            said = f"the weights of a query sum to {rows.min():.2f} to {rows.max():.2f}, not 1"
            if (each.weights.sum(-2) - 1).abs().max() > LOOSE:
                raise Finding(f"{said}, in {each.name}")
            cause = "The softmax runs over the queries: it is the columns that sum to one."
            found, repair = Finding(f"{said}, in {each.name}", cause), make_repair(over_keys, seed)
            raise prove_cause(adapter, seed, found, repair, sums, "the softmax over the keys")
    return f"the weights of {len(view.attentions)} attentions sum to one"


def hold_modules(adapter: Adapter) -> Adapter:
    """The adapter of models whose plain lists and dictionaries of modules are torch's."""

    def make_model(sizes: Sizes) -> nn.Module:
        model = adapter.make_model(sizes)
        for module in [*model.modules()]:
            for key, value in [*vars(module).items()]:
                if key[0] == "_":
                    continue
                if isinstance(value, dict) and is_held(value.values()):
                    setattr(module, key, nn.ModuleDict(value))
                elif isinstance(value, list | tuple) and is_held(value):
                    setattr(module, key, nn.ModuleList(value))
        return model

    return replace(adapter, make_model=make_model)


def is_held(values: Collection[object]) -> bool:
    """Whether there are values, and all are modules."""
    return bool(values) and all(isinstance(each, nn.Module) for each in values)


def reach(adapter: Adapter, view: Reading, side: str) -> tuple[int, float]:
    """How many positions a changed token moves, where each token attends to itself alone."""
    ids = view.source if side == "encoder" else view.target
    changed = ids.clone()
    changed[0, 1] = another_word(adapter, changed[0, 1])
    numbers = {a.number for a in view.attentions if a.part == side}

    def change(kind: str, number: int, tensors: tuple) -> tuple:
        if kind != "weights" or number not in numbers:
            return tensors
        return (torch.eye(tensors[0].size(-1)).expand_as(tensors[0]).contiguous(),)

    def positions(ids: Tensor) -> Tensor:
        """What is made of the first sentence, one row for each position."""
        both = (ids, view.target) if side == "encoder" else (view.source, ids)
        graph = run(adapter, view.model, *both, change=change)
        if side == "decoder":
            return graph.result[0]
        cross = next(a for a in view.attentions if a.part == "cross")
        return graph.attentions[cross.number].key[cross.rows[0]].permute(2, 0, 1).flatten(1)

    off = (positions(changed) - positions(ids)).abs().amax(1)
    return int((off > LOOSE * off.max()).sum()), float(off.max())


@check("inside.heads", "make_model")
@torch.no_grad()
def heads(adapter: Adapter, seed: int) -> str:
    """Where each token attends to itself alone, heads and tokens stay apart."""
    view, sides = reading(adapter, seed), list[str]()
    for side in ("encoder", "decoder"):
        own = [a for a in view.attentions if a.part == side]
        if not own or not any(a.part == "cross" for a in view.attentions):
            continue
        count, most = reach(adapter, view, side)
        if most == 0:
            raise NotImplementedError(f"a changed token of the {side} moves nothing")
        if count > 1:
            said = f"each token of the {side} attends to itself alone; one moves {count} positions"
            how = MIXED.get(by_a_view(view, own[0]))
            if how is None:
                cause = (
                    "Heads and tokens are mixed where heads are split or joined, or a norm or map"
                )
                raise Finding(said, f"{cause} works over positions.")
            found, repair = (
                Finding(said, f"Heads and tokens are mixed: {how}."),
                make_repair(join, seed),
            )
            raise prove_cause(adapter, seed, found, repair, heads, "the axes exchanged")
        sides.append(side)
    if not sides:
        raise NotImplementedError("no self-attention and cross-attention were read")
    return f"a changed token moves its own position alone, in {' and '.join(sides)}"


def faults(adapter: Adapter, view: Reading, each: Attention) -> Iterator[tuple[str, str]]:
    """What is wrong with what one attention reads, and the kind of it."""
    queries, keys = visible(view, adapter, each)
    weights = each.weights.permute(0, 2, 3, 1)  # (B, T, S, H)
    both = queries[:, :, None] & keys[:, None]  # (B, T, S)
    every = torch.ones(weights.shape[1:3], dtype=torch.bool)
    if each.part == "decoder":
        hidden = both & ~every.tril()
        own, past = (leak(weights, both & m) for m in (torch.eye(len(every)) > 0, every.tril(-1)))
        if (most := leak(weights, hidden)) > TOLERANCE:
            cause = unhidden(each, queries, "causal mask")
            if alike(each, hidden):
                cause = LOW
            elif leak(weights, both & ~every.tril(1)) < TOLERANCE:
                cause = "Each position sees the next one: the causal mask is off by one."
            elif past == 0.0:
                cause = "The causal mask is inverted: positions see the future and not the past."
            yield f"a future token has the weight {most:.2g}, expected 0", cause
        elif own == 0.0:
            yield "no position attends to itself", "The causal mask hides the position itself."
        return
    hidden = queries[:, :, None] & ~keys[:, None]
    if (most := leak(weights, hidden)) > TOLERANCE:
        cause = unhidden(each, queries, "padding mask of the source")
        # Of a query for which all keys are hidden the weights are even, or no numbers.
        padded = both & hidden.any(2, keepdim=True)
        if leak(weights, padded) == 0.0:
            cause = "The padding mask is inverted: PAD is seen, and words are hidden."
        elif leak(weights, hidden & (hidden.cumsum(2) > 1)) == 0.0:
            cause = "The padding mask is off by one: the first PAD is seen, and no other."
        elif alike(each, hidden):
            cause = LOW
        yield f"PAD has the weight {most:.2g}, expected 0", cause
    for seen, what in ((every.tril(), "later"), (every.triu(), "earlier")):
        # Sharp attention gives tiny weights; only a mask gives zero.
        if leak(weights, both & ~seen) == 0.0 < leak(weights, both):
            cause = f"There is a causal mask in {PARTS[each.part]}: it must see the whole source."
            yield f"no query attends to {what} positions of the source", cause


def unhidden(each: Attention, queries: Tensor, what: str) -> str:
    """Why scores hide nothing from queries (B, T): nothing is added, or small numbers; or ''."""
    added = each.added.transpose(1, 2)[queries]  # (N, H, S)
    values = sorted({round(float(value), 3) for value in added.flatten()})
    if values in ([0.0], [-0.0]):
        return f"No {what} reaches {PARTS[each.part]}."
    if len(values) == 2 and max(map(abs, values)) < 50:
        low, high = values
        return f"The {what} is added to the scores as the numbers {low:g} and {high:g}."
    return ""


def leak(weights: Tensor, hidden: Tensor) -> float:
    """The largest weight (B, T, S, H) where `hidden` (B, T, S) says that there must be none."""
    return float(weights[hidden].abs().max()) if hidden.any() else 0.0


def alike(each: Attention, hidden: Tensor) -> bool:
    """Whether all hidden scores are one number, which fills them: keys alone differ by query."""
    filled = each.scores.permute(0, 2, 3, 1)[hidden]  # (N, H)
    return filled.numel() > 1 and float(filled.max() - filled.min()) < 1e-6


def single(adapter: Adapter, view: Reading, parts: tuple[str, ...]) -> bool:
    """Whether a padded sentence alone is read as it should be."""
    rows = slice(1, 2)
    one = read(adapter, view.model, view.source[rows], view.target[rows])
    mine = [each for each in one.attentions if each.part in parts]
    return bool(mine) and not any([*faults(adapter, one, each)] for each in mine)


def padded_left(adapter: Adapter, view: Reading, each: Attention) -> bool:
    """Whether all words are read and no PAD, where the model has moved PAD to the left."""
    queries, keys = (x.flip(1) for x in visible(view, adapter, each))
    queries = queries if each.part == "encoder" else queries.flip(1)
    read_at_all = each.weights.abs().amax(1) > 0  # (B, T, S)
    return each.part != "decoder" and bool((read_at_all == keys[:, None])[queries].all())


def masked(adapter: Adapter, seed: int, *parts: str) -> str:
    """What the attentions of some parts read in both modes; a Finding where they must not."""
    wrong: dict[bool, dict[str, tuple[str, str, str]]] = {False: {}, True: {}}
    count = 0
    for training, faulty in wrong.items():
        view = reading(adapter, seed, training)
        for each in (a for a in view.attentions if a.part in parts):
            count += 1
            bad = [] if padded_left(adapter, view, each) else [*faults(adapter, view, each)]
            faulty |= {each.name: (each.part, *bad[0])} if bad else {}
    if not count:
        raise NotImplementedError(f"no attention of {' or '.join(parts)} could be read")
    for training, faulty in wrong.items():
        if faulty:
            raise mask_finding(adapter, seed, parts, wrong, training)
    return f"{count // 2} attentions"


def mask_finding(
    adapter: Adapter, seed: int, parts: tuple[str, ...], wrong: dict, training: bool
) -> Finding:
    """What is wrong with masks, with its cause where masked scores make the model right."""
    faulty, view = wrong[training], reading(adapter, seed, training)
    name, (_, text, _) = next(iter(faulty.items()))
    bad = list(dict.fromkeys(part for part, *_ in faulty.values()))
    causes = dict.fromkeys(cause for _, _, cause in faulty.values())
    if not wrong[not training]:
        mode = "train" if training else "eval"
        text += f", in {mode} mode only"
        causes = {
            f"{mode.capitalize()} mode drops the mask: `self.training` may affect nothing "
            "but dropout.": None
        }
    elif single(adapter, view, parts):
        causes = {ANOTHERS: None}
    more = f" and in {len(faulty) - 1} more" * (len(faulty) > 1)
    found = Finding(f"{text}, in {name}{more}", " ".join(causes))
    if adapter.unsure:  # the masks may come from a call that nobody has seen
        found.fits += f" Or training gives {', '.join(adapter.unsure)}, which was left out here."
        return found
    if adapter.tried and len(faulty) == sum(a.part in parts for a in view.attentions):
        # None of them hides anything: the form of the mask may be wrong, and not the model.
        found.fits += f" Or {', '.join(adapter.tried)} are wanted in another form than was tried."
        return found
    causal = parts == ("decoder",)
    repair = make_repair(hide(bad, future=causal), seed, training)
    measure = partial(future, training=training) if causal else same_with_more_padding
    return prove_cause(adapter, seed, found, repair, measure, "its scores masked")


@check("inside.future", "make_model")
def no_future(adapter: Adapter, seed: int) -> str:
    """The decoder's self-attention reads a position itself and what is before it, no more."""
    return f"{masked(adapter, seed, 'decoder')} give no weight to the future, in both modes"


@check("inside.padding", "make_model")
def no_padding(adapter: Adapter, seed: int) -> str:
    """The encoder and cross-attention read the whole source, and no PAD."""
    return f"{masked(adapter, seed, 'encoder', 'cross')} give no weight to PAD, in both modes"


def carried(adapter: Adapter, seed: int, each: Attention) -> bool:
    """Whether new queries are as much smaller than keys as a division would make the scores."""
    new = reading(adapter, seed, noise=0.0).graph.attentions[each.number]
    sizes = [float(x.pow(2).mean().sqrt()) for x in (new.query, new.key) if x is not None]
    return abs(math.log(sizes[0] / sizes[1] * math.sqrt(each.size))) < 0.3


def biased(adapter: Adapter, view: Reading, each: Attention) -> bool:
    """Whether something is added to the scores of words, as relative positions are."""
    queries, keys = visible(view, adapter, each)
    words = each.added.permute(0, 2, 3, 1)[queries[:, :, None] & keys[:, None]]
    return each.part == "encoder" and bool((words.abs() > LOOSE).any())


def divided_by(divisor: float, size: int, width: int) -> str:
    """What scores of heads of this size, in a model of this width, were divided by; '' for none."""
    known = {
        1.0: "The scores are not scaled.",
        size: "The scores are divided by d_k, not by its root.",
        math.sqrt(width): "The scores are divided by the root of d_model, not of d_k.",
        math.sqrt(size) ** -1: "The scores are multiplied by the root of d_k.",
    }
    return next((text for value, text in known.items() if abs(divisor / value - 1) < 0.02), "")


@check("inside.scale", "make_model")
def scale(adapter: Adapter, seed: int) -> str:
    """In every attention the scores are divided by the root of the head size."""
    view, faulty = reading(adapter, seed), list[str]()
    for each in view.attentions:
        if not each.size or not math.isfinite(each.factor):
            continue
        divisor, size = 1 / each.factor, each.size
        faulty.append(f"{divisor:.3g}")
        if abs(divisor / math.sqrt(size) - 1) > 0.02:
            message = f"in {each.name} the scores are divided by {divisor:.3g}"
            expected = f"expected {math.sqrt(size):.3g}, the root of d_k"
            cause = divided_by(divisor, size, size * each.weights.size(1))
            if abs(divisor - 1) < 0.02 and each.part != "cross" and carried(adapter, seed, each):
                raise NotImplementedError(f"{message}; new queries are as much smaller instead")
            found = Finding(f"{message}, {expected}", cause)
            if any(biased(adapter, view, other) for other in view.attentions):
                found.fits += " With relative positions some designs have no scale."
                raise found
            repair = make_repair(rescale, seed)
            raise prove_cause(adapter, seed, found, repair, scale, "every score divided by it")
    if not faulty:
        raise NotImplementedError("no scores of queries and keys could be read")
    return (
        f"the scores of {len(faulty)} attentions are divided by {', '.join(dict.fromkeys(faulty))}"
    )
