"""Checks of decoding step by step, and of greedy search."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter
from nmtcheck.measure.graph import record_graph
from nmtcheck.measure.helpers import TOLERANCE, distance, logits, pairs, prepare, tensor, unequal
from nmtcheck.measure.searches import ending_searches
from nmtcheck.measure.searching import (
    DEPTH,
    MARGIN,
    Words,
    likely_paths,
    rambler,
    sources,
    speaker,
    torn,
    word_ids,
)
from nmtcheck.registry import Finding, check

NO_END = "no random model was found that ends its sentences"
BEYOND = "The loop continues for finished rows, and the tokens after EOS are not removed."


@torch.no_grad()
def run_step(
    adapter: Adapter, model: nn.Module, tokens: Tensor, state: object
) -> tuple[Tensor, object]:
    """The logits (N, V) of one step, and the state after it."""
    found = adapter.step(model, tokens, state)
    if not isinstance(found, tuple | list) or len(found) != 2:
        kind = type(found).__name__
        raise Finding(f"step returned {kind}, expected logits and the state after the step")
    return tensor(found[0], "the table of logits of one step", (len(tokens), "V")), found[1]


@check("decoding.cache", "make_model", "start", "step")
def cache(adapter: Adapter, seed: int) -> str:
    """Step-by-step decoding gives the same logits as decoding at once."""
    model, source, target = prepare(adapter, seed)
    at_once, worst = logits(adapter, model, source, target), 0.0
    with torch.no_grad():
        state = adapter.start(model, source)
    for place in range(target.size(1)):
        found, state = run_step(adapter, model, target[:, place], state)
        real = target[:, place] != adapter.pad  # after its end a row says nothing that counts
        off = distance(found[real], at_once[real, place], "the logits of one step")
        if off > TOLERANCE:
            first = "The encoder's part of the state is wrong: the memory or its padding mask."
            later = "The first step is right: the cache or the positions of later ones are wrong."
            message = f"the logits of step {place} differ by {off:.2g}"
            raise Finding(message, later if place else first)
        worst = max(worst, off)
    return f"{target.size(1)} steps of {len(source)} padded sentences agree within {worst:.0e}"


def greedy(adapter: Adapter, model: nn.Module, source: Tensor) -> list[Words]:
    """The result of greedy search for each source."""
    found, count = adapter.greedy(model, source, 20), len(source)
    if not isinstance(found, list | tuple) or len(found) != count:
        kind, expected = type(found).__name__, f"a list of {count} lists of ids"
        raise Finding(f"greedy returned {kind} for {count} sources, expected {expected}")
    return [tuple(int(i) for i in ids) for ids in found]


def training_start(adapter: Adapter, seed: int) -> int:
    """The id that the decoder reads first in training."""
    if adapter.make_batch is None:
        return adapter.bos
    return int(adapter.make_batch(pairs(adapter, seed, [(3, 3), (2, 2)]))[1][0, 0])


def said_and_expected(
    adapter: Adapter, seed: int, start: int
) -> tuple[list[Words], list[Words], Tensor, nn.Module]:
    """What greedy search says, the most probable paths, their sources, and the model.

    Only sources whose paths end and are no close calls.  All sources are given to the search at
    once: sentences that have ended stand beside others that go on.
    """
    for attempt in range(4):
        model, source = speaker(adapter, seed + 100 * attempt), sources(adapter, seed)
        paths = likely_paths(adapter, model, source, start)
        clear = [row for row, path in enumerate(paths) if path]  # some must say at least one word
        if len({len(paths[row]) for row in clear}) >= 2:
            said = greedy(adapter, model, source)
            return [said[row] for row in clear], [paths[row] for row in clear], source[clear], model
    raise NotImplementedError(NO_END)


@check("decoding.greedy", "make_model", "greedy")
def greedy_is_best_word(adapter: Adapter, seed: int) -> str:
    """Greedy search generates the most probable next token until EOS, and returns only words."""
    if adapter.translate is not None and rows_of_search(adapter, seed) > 1:
        raise NotImplementedError("the search is a beam search: see search.successors")
    said, expected, source, model = said_and_expected(adapter, seed, training_start(adapter, seed))
    if wrong := unequal(said, expected):
        words = f"{list(said[wrong[0]])}, expected {list(expected[wrong[0]])}"
        counts = f"{len(wrong)} of {len(said)} sentences"
        if all(gain(adapter, model, source[n], said[n], expected[n]) for n in wrong):
            better = f"{counts} get a translation that is more probable than the greedy one"
            raise NotImplementedError(f"{better}: it is taken to be a beam search")
        specials = {adapter.eos, adapter.pad, adapter.bos}
        for n in wrong:
            if specials & {*said[n]} or said[n][: len(expected[n])] == expected[n]:
                after = f"EOS is most probable after {list(expected[n])}"
                raise Finding(f"{after}, but the search returns {list(said[n])}", BEYOND)
        raise Finding(f"{counts} do not get the most probable words: {words}")
    lengths = sorted(map(len, said))
    words = f"{lengths[0]} to {lengths[-1]} words"
    return f"{len(said)} sentences of {words}, each word the best"


def rows_of_search(adapter: Adapter, seed: int) -> int:
    """The most rows of a step of `translate`, as far as its search can be read."""
    with contextlib.suppress(NotImplementedError, Finding):
        return max(search.width for search in ending_searches(adapter, seed))
    return 1


def gain(adapter: Adapter, model: nn.Module, source: Tensor, said: Words, path: Words) -> bool:
    """Whether words are more probable than those of the greedy path, as a whole or on average."""
    scores = []
    for words in (said, path):
        if not set(words) <= set(word_ids(adapter)):
            return False
        target = torch.tensor([[adapter.bos, *words]])
        logp = logits(adapter, model, source[source != adapter.pad][None], target).log_softmax(-1)
        labels = torch.tensor([*words, adapter.eos])
        scores.append(logp[0].gather(-1, labels[:, None]).flatten())
    return any(float(f(scores[0])) > float(f(scores[1])) for f in (torch.sum, torch.mean))


@check("decoding.start_symbol", "make_model", "greedy")
def start_symbol(adapter: Adapter, seed: int) -> str:
    """Decoding starts with the symbol that the decoder reads first in training."""
    start = training_start(adapter, seed)
    said, expected, source, model = said_and_expected(adapter, seed, start)
    if said == expected:
        return f"starts with id {start}, as training does"
    wrong = unequal(said, expected)
    if all(gain(adapter, model, source[n], said[n], expected[n]) for n in wrong):
        raise NotImplementedError("it is taken to be a beam search: see decoding.greedy")
    for other in range(adapter.first_word):
        try:
            paths = likely_paths(adapter, model, source, other)
        except Exception:  # such as NaN where nothing but PAD is read: then it was not this id
            continue
        agree = [a == b for a, b in zip(said, paths, strict=True) if b is not None]
        if other != start and agree and all(agree):
            raise Finding(f"greedy search starts with id {other}; training starts with {start}")
    raise NotImplementedError("greedy search is wrong in a different way: see decoding.greedy")


@check("decoding.no_reference", "make_model", "hypotheses", "resizable")
def no_reference(adapter: Adapter, seed: int) -> str:
    """A translation does not depend on the reference."""
    model, source = torn(adapter, seed, 0.2), sources(adapter, seed, count=8)  # it says three words
    words = [adapter.first_word, adapter.first_word + 1, adapter.first_word + 2]
    a, b, c = words
    references = words[:1], words[:2], words * 4, [a, a, a, a], [b, c, b, c], [c, b, a, c]
    found = [list(adapter.hypotheses(model, source, [reference] * 8)) for reference in references]
    for several, beside in (
        (found[:3], "references of 1, 2 and 12 words"),
        (found[3:], "references of one length and different words"),
    ):
        if any(each != several[0] for each in several):
            raise Finding(f"the same sources get different translations with {beside}")
    return "8 sources get the same translations with six different references"


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
        raise NotImplementedError("the model did not learn the example that decides")
    if adapter.hypotheses is not None:  # an evaluation has a limit of its own, or it never ends
        within_source(adapter, model, source, list(path))
    if adapter.greedy is None:
        return "the evaluation of a translation that does not end comes to an end"
    for most in (2, 3, 4):
        with record_graph(model) as graph:
            (found,) = adapter.greedy(model, source, most)
        said = [int(i) for i in found]
        size = logits(adapter, model, source, torch.tensor([[adapter.bos]])).size(-1)
        choices = sum(linear.output.size(-1) == size for linear in graph.linears)
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
