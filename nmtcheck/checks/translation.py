"""Checks of translation: it must use the trained model, and must not read the reference."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter, IdPair
from nmtcheck.checks.recorded import recorded
from nmtcheck.checks.training import NO_CLIP
from nmtcheck.connect.standins import Vocabulary
from nmtcheck.measure.graph import Graph, record_graph
from nmtcheck.measure.helpers import TOLERANCE, batch, build, distance, logits, pairs, source_rows
from nmtcheck.measure.paths import find_lookups, find_tables, rows_of
from nmtcheck.registry import Finding, check


def translate(adapter: Adapter, model: nn.Module, pair: IdPair) -> Graph:
    """The graph of the translation of a source."""
    with torch.no_grad(), record_graph(model) as graph:
        if adapter.translate is not None:
            words = Vocabulary(100, pad=adapter.pad, bos=adapter.bos, eos=adapter.eos)
            adapter.translate(model, words.lookup_tokens(pair[0]), 6)
        elif adapter.hypotheses is not None:
            adapter.hypotheses(model, batch(adapter, [pair])[0], [pair[1]])
        else:
            adapter.greedy(model, batch(adapter, [pair])[0], 6)
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


def trained_ids(adapter: Adapter, seed: int, pair: IdPair) -> list[int]:
    """The ids that the encoder reads of a sentence in training; none where that is not known."""
    if adapter.make_batch is not None:
        row = adapter.make_batch([pair] * 2)[0][0].tolist()
        return [i for i in row if i != adapter.pad]
    if not (adapter.train or adapter.fit):  # the batches of an epoch are made by the checks
        told = adapter.source_eos is True and adapter.make_batch is None
        return source_rows(adapter, [pair[0]])[0].tolist() if told else []
    model, training = build(adapter, seed), [pair] * 4
    with record_graph(model) as graph:
        if adapter.train is not None:
            adapter.train(model, [[training]], NO_CLIP)
        else:
            adapter.fit(model, training, training, 1)
    return ids_read(adapter, graph, pair[0])


def one_pair(adapter: Adapter, seed: int) -> IdPair:
    """A source of seven different words, and a target."""
    generator, first = torch.Generator().manual_seed(seed), adapter.first_word
    source = torch.randperm(8, generator=generator)[:7] + first
    return source.tolist(), pairs(adapter, seed, [(3, 3)])[0][1]


@check("decoding.source_ids", "make_model", "translate|hypotheses|greedy")
def source_ids(adapter: Adapter, seed: int) -> str:
    """In translation the encoder reads the same ids as in training."""
    pair = one_pair(adapter, seed)
    model = build(adapter, seed)
    graph = translate(adapter, model, pair)
    read, trained = ids_read(adapter, graph, pair[0]), trained_ids(adapter, seed, pair)
    names = {adapter.bos: "BOS", adapter.eos: "EOS"}
    shown, wanted = (", ".join(str(names.get(i, i)) for i in ids) for ids in (read, trained))
    if trained and read != trained:
        raise Finding(f"a sentence is encoded as {shown} in translation, as {wanted} in training")
    words = [i for i in read if i in pair[0]]
    twice = any(a == b for a, b in itertools.pairwise(read))
    if words != pair[0] or twice:
        sentence = ", ".join(map(str, pair[0]))
        raise Finding(
            f"the sentence {sentence} is encoded as {shown}: words are lost, or an id is repeated"
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


@check("decoding.search_model", "make_model", "translate|hypotheses|greedy")
def search_model(adapter: Adapter, seed: int) -> str:
    """The search has the same probabilities as the trained model."""
    pair, model = one_pair(adapter, seed), build(adapter, seed)
    graph = translate(adapter, model, pair)
    source = torch.tensor([source_row(graph, pair[0])])
    expected = logits(adapter, model, source, torch.tensor([[adapter.bos]])).log_softmax(-1)[0, 0]
    found = list(distributions(find_tables(graph, len(expected))))
    if not found:
        raise NotImplementedError("no table as wide as the vocabulary was made")
    # Which symbol comes first is another question: see decoding.start_symbol.
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
