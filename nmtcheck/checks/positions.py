"""Checks of the order of words in a whole model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from nmtcheck.adapter import Adapter
from nmtcheck.measure.helpers import build, distance, logits, silence, source_rows
from nmtcheck.measure.proof import explained
from nmtcheck.measure.reading import hide, mended, read, reading, run, uneven_batch
from nmtcheck.registry import Finding, check

ALONG_BATCH = "Positions are counted along the batch, not along the sentence."
MISSING = "No positions are added to the {}'s embeddings."
LOST = "Places move queries, keys or scores, and yet do not tell the order."


def order_matters(adapter: Adapter, seed: int, side: str) -> str:
    """The order of one side's words; where it counts once masks are repaired, masks are to blame.

    A second model is asked before the first is blamed: attention to one word alone hides an order.
    """

    def measure(adapter: Adapter, seed: int, masked: bool = False) -> str:
        with contextlib.suppress(Finding):
            return order_seen(adapter, seed, side, masked=masked)
        return order_seen(adapter, seed + 1, side, noise=0.0, masked=masked)

    try:
        return measure(adapter, seed)
    except Finding as failure:
        unseen = failure
    with contextlib.suppress(Finding):
        measure(adapter, seed, masked=True)
        raise NotImplementedError("with masks repaired the order counts: see inside")
    ways = (ALONG_BATCH, exchanged_axes, "the axes exchanged"), (MISSING, added, "positions added")
    for cause, way, what in ways:
        found, repair = Finding(unseen.measured, cause.format(side)), partial(within, way=way)
        if explained(adapter, seed, found, repair, measure, what).proved:
            raise found
    without = placeless(adapter, silence(build(adapter, seed)))
    raise unseen if without else Finding(unseen.measured, LOST)


def within(adapter: Adapter, way: Callable[[Adapter], Any]) -> Adapter:
    """The adapter, each pass of its model made while a block of code runs."""

    def logits(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
        with way(adapter, model):
            return adapter.logits(model, source, target)

    return replace(adapter, logits=logits)


@contextlib.contextmanager
def exchanged_axes(adapter: Adapter, model: nn.Module) -> Iterator[None]:
    """Exchange the axes of what is read by a module that adds one vector a sentence."""
    turned = list[nn.Module]()

    def before(module: nn.Module, given: tuple) -> tuple | None:
        one = len(given) == 1 and isinstance(given[0], Tensor) and given[0].dim() == 3
        if not one or not given[0].is_floating_point():
            return None
        made = module.forward(torch.zeros_like(given[0]))
        if not isinstance(made, Tensor) or made.shape != given[0].shape:
            return None
        if not (made - made[:1]).any() or (made - made[:, :1]).any():
            return None
        turned.append(module)
        return (given[0].transpose(0, 1),)

    def after(module: nn.Module, given: tuple, output: Tensor) -> Tensor | None:
        if turned and turned[-1] is module:
            turned.pop()
            return output.transpose(0, 1)
        return None

    with register_module_forward_pre_hook(before), register_module_forward_hook(after):
        yield


def placeless(adapter: Adapter, model: nn.Module) -> bool:
    """Whether nothing in a pass tells the places of one word apart: no query, key or score does."""
    word, (source, target) = adapter.first_word, uneven_batch(adapter, 0, padded=False)
    seen = read(adapter, model, source, target)
    trace = run(adapter, model, *(torch.full_like(ids, word) for ids in (source, target)))
    for each in seen.attentions:
        softmax = trace.attentions[each.number]
        query, key = softmax.query[each.rows], softmax.key.mT[each.rows]  # (B, H, L, d)
        offs = [*((x - x[:1, :, :1]).abs().max() for x in (query, key))]
        if not max(*offs, each.added[each.weights > 0].abs().max()) < 1e-5:
            return False
    return True


@contextlib.contextmanager
def added(adapter: Adapter, model: nn.Module) -> Iterator[None]:
    """Add waves to what every embedding of one sentence returns, where nothing tells places."""
    needed = placeless(adapter, model)

    def add(module: nn.Module, inputs: tuple, output: Tensor) -> Tensor | None:
        if not needed or not isinstance(module, nn.Embedding) or output.dim() != 3:
            return None
        # Sentences may be the first axis or the second: rows of a batch begin at other places.
        place = torch.arange(output.size(0))[:, None] + torch.arange(output.size(1))
        waves = (place[..., None] * torch.arange(1, output.size(-1) + 1)).sin()
        return output + output.std() * waves.to(output.dtype)

    with register_module_forward_hook(add):
        yield


def order_seen(
    adapter: Adapter, seed: int, side: str, *, noise: float = 1.0, masked: bool = False
) -> str:
    """Exchange two words of the source, or two before the last one of the target; replace one."""
    # With two layers even a decoder without positions knows some order, from the causal mask.
    model = build(adapter, seed, noise=noise, n_layers=1)
    if masked:
        failure = read(adapter, silence(model), *uneven_batch(adapter, seed))
        adapter = mended(adapter, failure, hide(["encoder", "cross"], future=False))
        adapter = mended(adapter, failure, hide(["decoder"], future=True))
    words = list(range(adapter.first_word, adapter.first_word + 5))
    # Words of the target change their own logits too: only the last ones count.
    places = slice(None) if side == "source" else slice(-1, None)

    def run(changed: list[int]) -> Tensor:
        source, target = (changed, words) if side == "source" else (words, changed)
        ids = source_rows(adapter, [source]), torch.tensor([[adapter.bos, *target]])
        return logits(adapter, model, *ids)[:, places]

    try:  # what small weights move by 1e-7 is lost in the rounding of float32
        model.double()
        run(words)
        least, share = 1e-8, 1e-6
    except Exception:  # a tensor that does not follow the model: see model.double
        model.float()
        least, share = 1e-4, 1e-3
    exchanged = distance(run([words[2], words[1], words[0], *words[3:]]), run(words))
    replaced = distance(run([words[-1] + 1, *words[1:]]), run(words))
    if replaced == 0 and least < 1e-4:  # in double precision nothing is lost
        never = f"a different first word of the {side} changes no logit"
        raise Finding(never, "It is never read.")
    if replaced < least:
        raise NotImplementedError(f"another word of the {side} moves the logits by {replaced:.0e}")
    if exchanged <= share * replaced:
        raise Finding(f"two words of the {side} are exchanged, and no logit changes")
    moved = f"exchanging two words of the {side} moves the logits by {exchanged:.2g}"
    return f"{moved}, a different word by {replaced:.2g}"


@check("positions.source_order", "make_model")
def source_order(adapter: Adapter, seed: int) -> str:
    """The order of the source words matters."""
    return order_matters(adapter, seed, "source")


@check("positions.target_order", "make_model", "resizable")
def target_order(adapter: Adapter, seed: int) -> str:
    """The order of the generated words matters."""
    return order_matters(adapter, seed, "target")


@check("positions.relative", "make_model")
def relative(adapter: Adapter, seed: int) -> str:
    """Positions that are not added to the embeddings count by their distance alone."""
    view, words = reading(adapter, seed), 6
    numbers = [each.number for each in view.attentions if each.part == "encoder"]
    if not numbers:
        raise NotImplementedError("no self-attention of the encoder was read")
    source = source_rows(adapter, [[adapter.first_word] * words])
    start = int((source[0] == adapter.first_word).nonzero()[0, 0])
    seen = run(adapter, view.model, source, view.target[:1]).attentions[min(numbers)]
    rows = slice(start, start + words)
    query, key = seen.query[:, rows], seen.key[..., rows]
    maker = view.trace.linears[seen.makers[0]].name if seen.makers[0] >= 0 else ""
    linears = run(adapter, view.model, source, view.target[:1]).linears
    read = next((x.read for x in linears if x.name == maker), None)
    if read is None or len(read) != source.size(1) or float(read[rows].std(0).max()) > 1e-5:
        raise NotImplementedError("positions are added to the embeddings")
    scores = query @ key
    along, size = scores.diagonal(1, -2, -1), float(scores.std())
    off = float((along.amax(-1) - along.amin(-1)).max())
    if off > 0.01 * size:
        said = f"scores of one word at one distance differ by {off:.2g}; all scores by {size:.2g}"
        cause = "Queries and keys are not rotated: sines and cosines belong to other pairs."
        raise Finding(said, cause)
    return f"scores of one word at one distance agree within {off:.0e}"
