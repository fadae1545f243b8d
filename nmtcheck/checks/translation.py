"""Checks of translation: it must read what training reads, and use the trained model."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter, Sizes
from nmtcheck.checks.recorded import EARLY, FEW, endings, lessons, recorded
from nmtcheck.connect.standins import Vocabulary
from nmtcheck.measure.graph import Graph, record_graph
from nmtcheck.measure.helpers import TOLERANCE, build, distance, logits, pairs, source_rows
from nmtcheck.measure.paths import find_lookups, find_tables, rows_of
from nmtcheck.measure.searches import ending_searches
from nmtcheck.registry import Finding, check


def translate(adapter: Adapter, model: nn.Module, ids: list[int]) -> Graph:
    """The graph of the translation of a source, given as its word ids."""
    with torch.no_grad(), record_graph(model) as graph:
        words = Vocabulary(100, pad=adapter.pad, bos=adapter.bos, eos=adapter.eos)
        adapter.translate(model, words.lookup_tokens(ids), 2 * len(ids))
    return graph


def source_row(graph: Graph, words: list[int]) -> list[int]:
    """The row of ids with a sentence that an embedding has read last.

    An evaluation may have read the sentence before, beside its reference; the search comes last.
    """
    for table in reversed(find_lookups(graph)):
        for row in rows_of(table):
            common = [word for word in words if word in row]
            if len(common) > len(words) / 2 and common == [i for i in row if i in words]:
                return row
    raise NotImplementedError("no embedding read the source")


def ids_read(adapter: Adapter, graph: Graph, words: list[int]) -> list[int]:
    """The ids that the encoder reads of a sentence, without padding."""
    return [i for i in source_row(graph, words) if i != adapter.pad]


def trained_ids(adapter: Adapter, words: list[int]) -> list[int]:
    """The ids that the encoder reads of words in training; none where that is not known."""
    if adapter.source_eos is not True:  # otherwise it was read from the translation itself
        return []
    return source_rows(adapter, [words])[0].tolist()


def recorded_frame(adapter: Adapter) -> tuple[list[int], list[int]] | None:
    """The special ids before and after the words of a source in the adapter's own training.

    None where they are not known: the ids of its vocabulary must be those of the adapter, as the
    last labels of its targets show.
    """
    if adapter.run is None:
        return None
    with contextlib.suppress(Exception):  # a run may fail in any way, and another check says so
        told = [each for update in lessons(adapter)[:EARLY] for each in update]
        last = Counter(labels[-1] for labels, _ in endings(told))
        rows = [row for each in told if each.source is not None for row in each.source.tolist()]
        rows = [row for row in ([i for i in row if i != adapter.pad] for row in rows) if row]
        if len(rows) < FEW or last[adapter.eos] < 0.9 * last.total():
            return None
        begun = {row[0] == adapter.bos for row in rows}
        ended = {row[-1] == adapter.eos for row in rows}
        tagged = not {row[0] for row in rows} & {i for row in rows for i in row[1:]}
        # Some begin with one of several tags, such as that of a language.
        if len(begun) > 1 or len(ended) > 1 or (tagged and begun != {True}):
            return None
        return [adapter.bos] * begun.pop(), [adapter.eos] * ended.pop()
    return None


def seven_words(adapter: Adapter, seed: int) -> list[int]:
    """A source of seven different words; of fewer, where the vocabulary has no more."""
    generator = torch.Generator().manual_seed(seed)
    count = Sizes().source_vocab_size - 1 - adapter.first_word
    return (torch.randperm(count, generator=generator)[:7] + adapter.first_word).tolist()


@check("decoding.source_ids", "make_model", "translate")
def source_ids(adapter: Adapter, seed: int) -> str:
    """In translation the encoder reads the same ids as in training."""
    sentence = seven_words(adapter, seed)
    graph = translate(adapter, build(adapter, seed), sentence)
    read, trained = ids_read(adapter, graph, sentence), trained_ids(adapter, sentence)
    names = {adapter.bos: "BOS", adapter.eos: "EOS"}
    shown, wanted = (", ".join(str(names.get(i, i)) for i in ids) for ids in (read, trained))
    if trained and read != trained:
        raise Finding(f"a sentence is encoded as {shown} in translation, as {wanted} in training")
    if frame := recorded_frame(adapter):
        before, after = frame
        expected = [*before, *(i for i in read if i in sentence), *after]
        wanted = ", ".join(str(names.get(i, i)) for i in expected)
        if read != expected:
            said = f"a sentence is encoded as {shown} in translation, and would be as {wanted} in"
            raise Finding(f"{said} your training")
        return f"{len(read)} ids of a sentence, with what frames a source in your training"
    words = [i for i in read if i in sentence]
    twice = any(a == b for a, b in itertools.pairwise(read))
    if words != sentence or twice:
        listed = ", ".join(map(str, sentence))
        raise Finding(
            f"the sentence {listed} is encoded as {shown}: words are lost, or an id is repeated"
        )
    if not trained:
        raise NotImplementedError(f"a sentence is encoded as {shown}; training ids are unknown")
    return f"{len(read)} ids of a sentence, the same as in training"


def distributions(tables: list[Tensor]) -> Iterator[Tensor]:
    """The log-probabilities (V,) that the first rows of logits or probabilities stand for."""
    for table in tables:
        row = table.reshape(-1, table.size(-1))[0]
        if row.min() >= 0 and abs(float(row.sum()) - 1) < TOLERANCE:
            yield row.log()
        else:
            yield row.log_softmax(-1)


@check("decoding.search_model", "make_model", "translate")
def search_model(adapter: Adapter, seed: int) -> str:
    """The search has the same probabilities as the trained model."""
    sentence, model = seven_words(adapter, seed), build(adapter, seed)
    graph = translate(adapter, model, sentence)
    source = torch.tensor([source_row(graph, sentence)])
    expected = logits(adapter, model, source, torch.tensor([[adapter.bos]])).log_softmax(-1)[0, 0]
    found = list(distributions(find_tables(graph, len(expected))))
    if not found:
        raise NotImplementedError("no table as wide as the vocabulary was made")
    # Which symbol comes first is another question.
    off = math.inf
    for start in range(adapter.first_word):
        with contextlib.suppress(Exception):  # a model may refuse a target of nothing but PAD
            other = logits(adapter, model, source, torch.tensor([[start]])).log_softmax(-1)[0, 0]
            off = min(
                off, *(distance(row.exp(), other.exp()) for row in found if row.isfinite().all())
            )
    if off > 30 * TOLERANCE:
        nearest = min(found, key=lambda row: float((row - expected).abs().max()))
        said, wanted = nearest.exp(), expected.exp()
        word = int((said - wanted).abs().argmax())
        shares = f"{said[word]:.2f} in the search, {wanted[word]:.2f} in training"
        raise Finding(f"the first word is {word} with the probability {shares}")
    return f"the probabilities of the first word agree within {off:.0e}"


@check("decoding.start_symbol", "make_model", "epoch", "translate")
def start_symbol(adapter: Adapter, seed: int) -> str:
    """In translation the decoder reads first what it reads first in training."""
    training = replace(adapter, run=None)  # its ids are those of a vocabulary of its own
    read = [each.read for update in lessons(training)[:EARLY] for each in update]
    trained, _ = Counter(i for ids in read for i in ids[:, 0].tolist()).most_common(1)[0]
    started = {search.steps[0].prefixes[0][0] for search in ending_searches(adapter, seed)}
    if started != {trained}:
        ids = ", ".join(map(str, sorted(started)))
        raise Finding(f"the search starts with id {ids}; training starts with {trained}")
    return f"the search starts with id {trained}, as training does"


@check("decoding.eval_mode", "make_model", "translate")
def eval_mode(adapter: Adapter, seed: int) -> str:
    """A translation is made without dropout."""
    model = build(adapter, seed, dropout=0.5)
    words = Vocabulary(100, pad=adapter.pad, bos=adapter.bos, eos=adapter.eos)
    sentences = [words.lookup_tokens(ids) for ids, _ in pairs(adapter, seed, [(4, 1)] * 6)]

    def said() -> list[str]:
        return [str(adapter.translate(model.train(), list(words), 8)) for words in sentences]

    first, second = said(), said()
    if differ := sum(a != b for a, b in zip(first, second, strict=True)):
        raise Finding(f"{differ} of {len(first)} sentences differ the second time")
    return f"{len(first)} sentences get the same translation twice, from a model in train mode"


@check("run.translations", "run")
def translations(adapter: Adapter, seed: int) -> str:
    """A sentence has one translation, alone and in any list, at its own place."""
    given = recorded(adapter).returned
    if not (isinstance(given, tuple) and len(given) == 2 and callable(given[0])):
        raise NotImplementedError("run returns no function that translates lines, and lines")
    translate, lines = given[0], [*dict.fromkeys(given[1])][:40]

    def said(some: list[Any]) -> list[Any]:
        return list(translate(list(some)))

    alone = [said([line])[0] for line in lines]
    together = said(lines)
    if together != alone and sorted(map(str, together)) == sorted(map(str, alone)):
        raise Finding(
            f"{len(lines)} lines get each other's translations",
            "The translations come in the order of the search, not of the lines.",
        )
    # A limit may depend on the longest line: what is longer for a line no longer met no limit.
    sizes = [(length(line), length(one)) for line, one in zip(lines, alone, strict=True)]
    ended = [n for n, (a, b) in enumerate(sizes) if any(c <= a and d > b for c, d in sizes)]
    wrong = [(alone[n], together[n]) for n in ended if alone[n] != together[n]]
    if len(wrong) > max(1, len(ended) / 10):
        cause = ""
        if all(length(f) < length(a) for a, f in wrong):
            cause = "The search stops when one of the sentences has ended."
        elif all(length(f) > length(a) for a, f in wrong):
            cause = "Sentences that have ended go on until the last one ends."
        pair = f"{wrong[0][0]!r} alone, {wrong[0][1]!r}"
        message = f"{len(wrong)} lines are translated differently beside others: {pair}"
        raise Finding(message, cause)
    return f"{len(ended)} of {len(lines)} lines that ended have the same translations together"


def length(line: Any) -> int:
    """The words of a sentence, or its letters where it is one word."""
    if not isinstance(line, str):
        return len(line)
    return len(line.split()) if " " in line else len(line)
