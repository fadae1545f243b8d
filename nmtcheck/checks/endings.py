"""Checks of how a search stops: at its length limit and at EOS."""

from __future__ import annotations

import functools
import itertools

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter
from nmtcheck.checks.beam import UNTOLD, best
from nmtcheck.measure.helpers import logits
from nmtcheck.measure.searching import (
    DEPTH,
    MARGIN,
    Words,
    consensus,
    learn,
    sources,
    tables,
    word_ids,
)
from nmtcheck.measure.spying import watch_calls
from nmtcheck.registry import Finding, check

EXAMPLES = 3


@functools.lru_cache(maxsize=16)
def rambler(adapter: Adapter, seed: int) -> tuple[nn.Module, Tensor]:
    """A model that generates the same long word sequence for every source, and its sources."""
    a, b, c = word_ids(adapter)
    source = sources(adapter, seed, 4)
    model = learn(adapter, seed, source, [[a, c, b, c, a]] * 4, [1.0] * 4, 60)
    return model, source[:1]


def first_words(adapter: Adapter, model: nn.Module, source: Tensor) -> Words:
    """The most probable words of a model that does not end; fewer where a choice is close."""
    target = torch.tensor([[adapter.bos]])
    for _ in range(DEPTH):
        top = logits(adapter, model, source, target)[:, -1].log_softmax(-1).topk(2, dim=-1)
        word = int(top.indices[0, 0])
        if float(top.values[0].diff()) > -MARGIN or word not in word_ids(adapter):
            break
        target = torch.cat([target, top.indices[:, :1]], dim=1)
    return tuple(target[0, 1:].tolist())


def within_source(adapter: Adapter, model: nn.Module, source: Tensor, reference: list[int]) -> None:
    """Raises Finding where translations that do not end are as long as their source, or nearly."""
    rooms = []
    for ids in (source, source[:, -3:]):
        (said,) = adapter.hypotheses(model, ids, [reference])
        rooms.append(len(said.split() if isinstance(said, str) else said) - ids.size(1))
    if rooms[0] == rooms[1] and abs(rooms[0]) < 2:
        told = f"translations that do not end are as long as sources of {source.size(1)} and 3 ids"
        raise Finding(told, "Translations are cut at the length of the source.")


@check("decoding.length_limit", "make_model", "greedy|hypotheses")
def length_limit(adapter: Adapter, seed: int) -> str:
    """A translation that reaches the length limit ends there, and keeps every generated word."""
    model, source = rambler(adapter, seed)
    path, shown = first_words(adapter, model, source), list[int]()
    if len(path) < DEPTH:
        raise NotImplementedError(UNTOLD)
    if adapter.hypotheses is not None:  # an evaluation has a limit of its own, or it never ends
        within_source(adapter, model, source, list(path))
    if adapter.greedy is None:
        return "the evaluation of a translation that does not end comes to an end"
    for most in (2, 3, 4):
        with watch_calls() as calls:
            (found,) = adapter.greedy(model, source, most)
        said = [int(i) for i in found]
        size = logits(adapter, model, source, torch.tensor([[adapter.bos]])).size(-1)
        choices = sum(call.made.size(-1) == size for call in calls)
        if tuple(said[:DEPTH]) != path[: len(said)]:
            expected = f"the most probable words are {list(path[:most])}"
            raise Finding(f"cut at {most} words, the search returns {said}; {expected}")
        if len(said) == most - 1 and choices == most:
            lost = f"the search chose {most} words and returned {len(said)}"
            raise Finding(f"of a translation of at most {most} words that does not end {lost}")
        shown.append(len(said))
    if shown[0] == shown[-1] > 6:
        given = f"asked for 2, 3 and 4 words at most, the search returns {shown[0]}"
        (other,) = adapter.greedy(model, source[:, -3:], 2)
        if len(other) != shown[0]:
            raise NotImplementedError(f"{given}: its limit depends on the source")
        raise Finding(given, "The limit that is asked for is ignored.")
    return f"cut at 2, 3 and 4 words, translations have {', '.join(map(str, shown))} of them"


@functools.lru_cache(maxsize=16)
def ending(adapter: Adapter, seed: int) -> nn.Module:
    """A model that mostly says one word and EOS, or four other words, and has no idea after EOS.

    So whoever reads on after EOS finds every tail improbable, and prefers what ends late.
    """
    source, (a, b, c) = sources(adapter, seed, 6), word_ids(adapter)
    tails = list(itertools.product((a, b, c), repeat=3))
    rambling = [[a, b, b, a, c], [a, c, a, c, b], [b, a, c, b, a]]
    rambling += [[b, b, a, a, c], [c, a, b, c, c], [c, c, c, b, a]]
    targets = [[a, adapter.eos, *tail] for tail in tails] + [[b, c, c, b]] * 6 + rambling
    shares = [0.55 / len(tails)] * len(tails) + [0.35 / 6] * 6 + [0.1 / 6] * 6
    return learn(adapter, seed, source.repeat(7, 1)[: len(shares)], targets, shares, 70)


@check("beam.ends_at_eos", "make_model", "beam", "resizable")
def ends_at_eos(adapter: Adapter, seed: int) -> str:
    """Tokens after EOS do not affect the score of a hypothesis."""
    asked, wrong = 0, []
    for number in range(EXAMPLES):  # the same for every seed
        model = ending(adapter, 1000 * number)
        for source, table in tables(adapter, model, sources(adapter, 0, 3)):
            expected = consensus(table, adapter, 4, 0.0)
            if expected is None or len(expected) != 1:
                continue
            asked, found = asked + 1, best(adapter, model, source, 4, 0.0, 4)
            if found != expected:
                wrong.append(f"returns {list(found)}, although {list(expected)} is better")
    if asked < 2:
        raise NotImplementedError(UNTOLD)
    if len(wrong) > asked / 4:
        raise Finding(f"{len(wrong)} of {asked} times the search {wrong[0]}")
    return f"{asked} times a short hypothesis wins, whatever follows its EOS"
