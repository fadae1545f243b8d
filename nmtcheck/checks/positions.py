"""Checks of embeddings, of positions, and of the order of words in a whole model."""

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
from nmtcheck.measure.graph import PRODUCTS, Graph, record_graph
from nmtcheck.measure.helpers import (
    build,
    distance,
    logits,
    silence,
    source_rows,
)
from nmtcheck.measure.paths import NORMS, find_added
from nmtcheck.measure.proof import prove_cause
from nmtcheck.measure.reading import hide, read, reading, repair_passes, run, uneven_batch
from nmtcheck.registry import Finding, check

LENGTHS = (36, 24)  # words of a long sentence; some models take shorter ones only
MOVES = 0.01  # what a column moves along a sentence, if it tells positions apart
OFF = 1e-3  # how far a table in float32 may be from the formula
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
        if prove_cause(adapter, seed, found, repair, measure, what).proved:
            raise found
    without = placeless(adapter, silence(build(adapter, seed)))
    raise unseen if without or unseen.fits else Finding(unseen.measured, LOST)


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
    graph = run(adapter, model, *(torch.full_like(ids, word) for ids in (source, target)))
    for each in seen.attentions:
        softmax = graph.attentions[each.number]
        query, key = softmax.query[each.rows], softmax.key.mT[each.rows]  # (B, H, L, d)
        offs = [*((x - x[:1, :, :1]).abs().max() for x in (query, key))]
        if not max(*offs, each.added[each.weights > 0].abs().max()) < 1e-5:
            return False
    return True


@contextlib.contextmanager
def added(adapter: Adapter, model: nn.Module) -> Iterator[None]:
    """Add waves to what every embedding of one sentence returns, where nothing tells places."""
    needed = placeless(adapter, model)

    def change(kind: str, number: int, tensors: tuple) -> tuple:
        if not needed or kind != "embedded" or tensors[0].dim() != 3:
            return tensors
        (output,) = tensors
        # Sentences may be the first axis or the second: rows of a batch begin at other places.
        place = torch.arange(output.size(0))[:, None] + torch.arange(output.size(1))
        waves = (place[..., None] * torch.arange(1, output.size(-1) + 1)).sin()
        return (output + output.std() * waves.to(output.dtype),)

    with record_graph(model, change):
        yield


def order_seen(
    adapter: Adapter, seed: int, side: str, *, noise: float = 1.0, masked: bool = False
) -> str:
    """Exchange two words of the source, or two before the last one of the target; replace one."""
    # With two layers even a decoder without positions knows some order, from the causal mask.
    model = build(adapter, seed, noise=noise, n_layers=1)
    if masked:
        failure = read(adapter, silence(model), *uneven_batch(adapter, seed))
        adapter = repair_passes(adapter, failure, hide(["encoder", "cross"], future=False))
        adapter = repair_passes(adapter, failure, hide(["decoder"], future=True))
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
    maker = view.graph.linears[seen.makers[0]].name if seen.makers[0] >= 0 else ""
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


def added_positions(adapter: Adapter, seed: int) -> Tensor:
    """What is added to the vectors of one long source (L, D), if it is neither learned nor one row.

    It may be a table of the model, or made in each pass.
    """
    model = silence(build(adapter, seed, noise=0.0))
    for count in LENGTHS:
        words = [adapter.first_word + n % 5 for n in range(count)]
        source = source_rows(adapter, [words])
        try:
            graph = run(adapter, model, source, torch.tensor([[adapter.bos, *words[:2]]]))
        except Exception:  # a model may take shorter sentences only
            continue
        for each in find_added(graph):
            table = each.vectors.reshape(-1, each.vectors.size(-1)).double()
            whole = each.ids.flatten().tolist() == source[0].tolist() and len(table) == len(words)
            whole = whole or len(table) == source.size(1) == each.ids.numel()
            if whole and not each.learned and (table - table[0]).any():
                return table
    raise NotImplementedError("no fixed positions are added to the source's embeddings")


def made_of_waves(table: Tensor) -> bool:
    """Whether a table (L, D) holds waves: one speed a column, or those of the paper by place.

    A wave of any phase is a straight function of its neighbours: x[n - 1] + x[n + 1] = k x[n].
    """
    middle, around = table[1:-1], table[:-2] + table[2:]
    speed = (middle * around).sum(0) / (middle * middle).sum(0).clamp_min(1e-12)
    if float((around - speed * middle).abs().max()) < OFF * float(table.abs().max()):
        return True
    pairs = torch.arange(table.size(1)) // 2
    place = torch.arange(len(table)).double()[:, None]
    angle = place * 10000.0 ** (-2 * pairs / table.size(1))  # (L, D)
    by_place = torch.minimum((angle.sin() - table).abs(), (angle.cos() - table).abs())
    return float(by_place.max()) < OFF


def rotates(table: Tensor) -> float:
    """How far each column of a table (L, D), seven rows on, is off a mixture of two columns now.

    Of a sine these are itself and the cosine of its speed: the pair is rotated.
    """
    real = table[:-7].any(1) & table[7:].any(1)  # the row of PAD may be zero
    before, after = table.double()[:-7][real], table.double()[7:][real]  # (N, D)
    products, along = before.T @ before, before.T @ after  # (D, D)
    own, other = products.diagonal()[:, None], products.diagonal()[None]  # of columns c and j
    size = (own * other - products**2).clamp_min(1e-9 * (own * other).clamp_min(1e-9))
    mine, theirs = along.diagonal()[:, None], along.T  # of c with itself and with j, seven rows on
    x, y = (mine * other - theirs * products) / size, (theirs * own - mine * products) / size
    mixtures = x[..., None] * before.T[:, None] + y[..., None] * before.T[None]  # (D, D, N)
    off = (mixtures - after.T[:, None]).abs().amax(-1).amin(1)  # (D,)
    alone = (before * (mine / own.clamp_min(1e-9))[:, 0] - after).abs().amax(0)
    return float(torch.minimum(off, alone).max())


@check("positions.table", "make_model", "fixed_positions")
@torch.no_grad()
def table_rotates(adapter: Adapter, seed: int) -> str:
    """Waves that are added to the embeddings rotate by position, at many different speeds."""
    table = added_positions(adapter, seed)
    table = table / table.abs().max()
    if not made_of_waves(table):
        raise NotImplementedError("what is added to the source's embeddings is no table of sines")
    if (off := rotates(table)) > OFF:
        best = f"the best one is off by {off:.2g}"
        raise Finding(f"no linear map takes each position p to p + 7: {best}")
    moving = int((table.amax(0) - table.amin(0) > MOVES).sum())
    if moving < table.size(1) / 4:
        said = f"{moving} of {table.size(1)} columns of the positions differ along a sentence"
        raise Finding(said, "The exponents of the speeds are wrong: almost all waves stand still.")
    middle, around = table[1:-1], table[:-2] + table[2:]
    turns = (middle * around).sum(0) / (middle * middle).sum(0).clamp_min(1e-12) / 2  # cosines
    speeds = {round(float(turn), 3) for turn in turns[table.std(0) > MOVES]}
    if len(speeds) < 2 <= table.size(1) / 4:
        raise Finding(
            f"{moving} columns of the positions have one speed",
            "All pairs of columns turn at the same speed: the exponent does not count them.",
        )
    return f"one matrix takes each position p to p + 7; {moving} of {table.size(1)} columns move"


def first_input(graph: Graph, widths: set[int]) -> Tensor | None:
    """What the first linear map or norm of a pass reads, one row (D,) for each position."""
    for node in graph.nodes:
        if node.kind in NORMS or (node.kind in PRODUCTS and node.owner):
            rows = [x.flatten(0, -2) for x in node.read if x.dim() > 1 and x.size(-1) in widths]
            if rows:
                return rows[0]
    return None


@check("positions.balance", "make_model")
@torch.no_grad()
def balance(adapter: Adapter, seed: int) -> str:
    """In a new model words move the input of the first layer about as much as positions do."""
    model, first = build(adapter, seed, noise=0.0, d_model=64), adapter.first_word
    widths = {m.embedding_dim for m in model.modules() if isinstance(m, nn.Embedding)}
    moved = []
    for ids in ([first] * 6, [first + 1] * 6):
        given = torch.tensor([ids]), torch.tensor([[adapter.bos, first]])
        read = first_input(run(adapter, model, *given), widths)
        if read is None or len(read) != 6:
            raise NotImplementedError("the input of the first layer was not found")
        moved.append(read)
    word = float((moved[0] - moved[1]).pow(2).mean().sqrt())
    place = float((moved[0] - moved[0].roll(3, 0)).pow(2).mean().sqrt())
    said = (
        f"another word moves the first layer's input by {word:.2g}, another position by {place:.2g}"
    )
    if word < 0.08 * place:
        cause = "Positions drown the words: multiply embeddings by sqrt(d_model), or start larger."
        raise Finding(said, cause)
    return said
