"""Checks of beam search, against the result of every correct search."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter
from nmtcheck.checks.decoding import NO_END, greedy
from nmtcheck.measure.helpers import logits, pad, unequal
from nmtcheck.measure.searching import (
    DEPTH,
    MARGIN,
    WIDTH,
    Table,
    Variant,
    Words,
    conditionals,
    consensus,
    find,
    likely_paths,
    norms,
    sources,
    speaker,
    tables,
    word_ids,
)
from nmtcheck.registry import Finding, check

AT_THE_LIMIT = (
    "At the length limit a live hypothesis is returned, and a better finished one is not."
)
UNTOLD = "the model did not learn the example that decides"


def beams(
    adapter: Adapter, model: nn.Module, source: Tensor, width: int, penalty: float, longest: int
) -> list[list[tuple[Words, float | None]]]:
    """The hypotheses (ids, score) of each source, best first."""
    found = adapter.beam(model, source, width, penalty, longest)
    if len(found) != len(source) or not all(found):
        raise Finding(f"{len(source)} sources got {sum(map(bool, found))} lists of hypotheses")
    return [[(tuple(map(int, ids)), score) for ids, score in each] for each in found]


def best(adapter: Adapter, model: nn.Module, source: Tensor, *options: float) -> Words:
    """The best hypothesis of one source; the options are those of `beams`."""
    return beams(adapter, model, source, *options)[0][0][0]


@check("beam.one_is_greedy", "make_model", "beam", "greedy")
def one_is_greedy(adapter: Adapter, seed: int) -> str:
    """A beam of one is greedy search."""
    model, source = speaker(adapter, seed), sources(adapter, seed)
    paths = likely_paths(adapter, model, source, adapter.bos)
    clear = [row for row, path in enumerate(paths) if path]
    if not clear:
        raise NotImplementedError(NO_END)
    said = greedy(adapter, model, source[clear])
    searched = [hypotheses[0][0] for hypotheses in beams(adapter, model, source[clear], 1, 0.0, 20)]
    if wrong := unequal(said, searched):
        words = f"{list(searched[wrong[0]])}, greedy search {list(said[wrong[0]])}"
        counts = f"for {len(wrong)} of {len(clear)} sources"
        raise Finding(f"{counts} a beam of one says {words}")
    return f"equal for {len(clear)} sources"


class Missed(NamedTuple):
    """A translation that a search should have found."""

    hard: bool  # whether greedy search misses it as well
    found: Words
    expected: Words
    table: Table
    raw: Table  # its logits, not normalised


def miss_cause(adapter: Adapter, missed: list[Missed]) -> str:
    """Which wrong search would give all these results; empty if none."""
    plain = norms(0.0)[0]
    kinds: dict[str, tuple[int, Variant]] = {
        "Only one hypothesis is kept: the result is that of greedy search.": (1, Variant(plain)),
        "It stops at the first finished hypothesis.": (WIDTH, Variant(plain, stop="any")),
        "It stops when the best hypothesis is finished.": (WIDTH, Variant(plain, stop="first")),
        "Scores are divided by the length, although the length penalty is 0.": (
            WIDTH,
            Variant(lambda n: n + 1),
        ),
        "Raw logits are added up, not log-probabilities.": (WIDTH, Variant(plain)),
    }
    for cause, (width, variant) in kinds.items():
        tables_ = [case.raw if cause.startswith("Raw") else case.table for case in missed]
        results = (find(table, adapter, width, variant)[0] for table in tables_)
        if all(found == case.found for found, case in zip(results, missed, strict=True)):
            return cause
    worst = (sorted(case.table[()])[:WIDTH] for case in missed)
    if all(c.found and c.table[()][c.found[0]] in w for c, w in zip(missed, worst, strict=True)):
        return "Candidates are sorted the other way round: the least probable are kept."
    if all(len(case.found) >= 8 for case in missed):
        return (
            "At the length limit a live hypothesis is returned, and a better finished one is not."
        )
    return ""


@check("beam.finds_the_best", "make_model", "beam", "resizable")
def finds_the_best(adapter: Adapter, seed: int) -> str:
    """A wide beam finds the most probable translation."""
    asked, hard = 0, 0  # the hard ones are those that greedy search misses
    missed: list[Missed] = []
    for number in range(4):
        model = speaker(adapter, seed + 1000 * number)
        for source, table in tables(adapter, model, sources(adapter, seed)):
            expected = clear_best(adapter, table)
            if expected is None:
                continue
            easy = find(table, adapter, 1, Variant(norms(0.0)[0], DEPTH))[0] == expected
            asked, hard = asked + 1, hard + (not easy)
            if (found := best(adapter, model, source, WIDTH, 0.0, 8)) != expected:
                raw = conditionals(adapter, model, source, raw=True)
                missed.append(Missed(not easy, found, expected, table, raw))
        if hard >= 4:
            break
    if not asked:
        raise NotImplementedError("no random model has one clear best translation")
    if sum(case.hard for case in missed) > hard / 3 or len(missed) > asked / 8:
        _, found, expected, *_ = max(missed, key=lambda case: case.hard)
        counts = f"{len(missed)} of {asked} times a beam of {WIDTH} misses the most probable"
        said = f"{counts} translation: it returns {list(found)}, not {list(expected)}"
        raise Finding(said, possible=miss_cause(adapter, missed))
    return f"{asked} times the best of all translations, {hard} of which greedy search misses"


def clear_best(adapter: Adapter, table: Table) -> Words | None:
    """The most probable translation, if every right search finds it and no longer one wins."""
    expected = consensus(table, adapter, WIDTH, 0.0)
    everything, _ = find(table, adapter, 400, Variant(norms(0.0)[0], DEPTH, stop="never"))
    if expected is None or everything != expected:
        return None
    going_on = max(logp_of(table, words) for words in table if len(words) == DEPTH)
    ended = logp_of(table, expected) + table[expected][adapter.eos]
    return expected if going_on < ended - MARGIN else None


def logp_of(table: Table, words: Words) -> float:
    """The log-probability of a prefix."""
    return sum(table[words[:n]][word] for n, word in enumerate(words))


@check("beam.scores", "make_model", "beam", "resizable")
def scores(adapter: Adapter, seed: int) -> str:
    """Each hypothesis has the model's log-probability, and none is listed twice."""
    model, source = speaker(adapter, seed), sources(adapter, seed)
    found = beams(adapter, model, source, 4, 0.0, 12)
    for row, hypotheses in enumerate(found):
        refuse_extended(adapter, row, [ids for ids, _ in hypotheses])
    said = set(word_ids(adapter))
    rows = [
        (row, ids, score)
        for row, hypotheses in enumerate(found)
        for ids, score in hypotheses
        if said >= set(ids)  # other entries of a beam are ignored
    ]
    if any(score is None for *_, score in rows):
        return f"{len(rows)} hypotheses of words only, none twice; scores are not returned"
    target = pad([[adapter.bos, *ids] for _, ids, _ in rows], adapter.pad)
    table = logits(adapter, model, source[[row for row, *_ in rows]], target)
    for logp, (row, ids, score) in zip(table.log_softmax(-1).tolist(), rows, strict=True):
        steps = [logp[place][word] for place, word in enumerate([*ids, adapter.eos])]
        # At the length limit some searches return a hypothesis without its EOS.
        allowed = [sum(steps)] + ([sum(steps[:-1])] if len(ids) >= 10 else [])
        if min(abs(float(score) - p) for p in allowed) > 1e-2:
            given = (
                f"hypothesis {list(ids)} has the score {float(score):.3f} without length penalty"
            )
            cause = score_cause(adapter, model, source[row], ids, float(score))
            raise Finding(f"{given}; the model gives it {sum(steps):.3f}", possible=cause)
    return f"{len(rows)} hypotheses have the model's own log-probability, none twice"


def score_cause(adapter: Adapter, model: nn.Module, row: Tensor, ids: Words, score: float) -> str:
    """How a wrong score came about, told by computing what it might be; empty if unknown."""
    source = row[row != adapter.pad][None]
    found = beams(adapter, model, source, 4, 0.0, 12)[0]
    raw = logits(adapter, model, source, torch.tensor([[adapter.bos, *ids]]))[0].double()
    labels = torch.tensor([*ids, adapter.eos])[:, None]
    sums = {"raw": float(raw.gather(-1, labels).sum())}
    logp = float(raw.log_softmax(-1).gather(-1, labels).sum())
    if any(abs(own - logp) < 1e-2 for words, own in found if words == ids and own is not None):
        return "Only in a batch: the padding mask of the memory does not reach the search."
    if abs(score - sums["raw"]) < 1e-2:
        return "Raw logits are added up, not log-probabilities."
    if min(abs(score * (len(ids) + n) - logp) for n in (0, 1, 2)) < 1e-2:
        return "The score is divided by the length, although the length penalty is 0."
    return ""


def refuse_extended(adapter: Adapter, row: int, said: list[Words]) -> None:
    """A Finding where a hypothesis of one source comes twice, or where EOS or padding is left.

    PAD and BOS may fill the last places of a beam that finds no other words, but not the first.
    """
    for place, ids in enumerate(said):
        if said.count(ids) > 1 and set(ids) <= set(word_ids(adapter)):
            cause = "Finished hypotheses are extended: what follows EOS is removed later."
            if len(said) > 2 and len(set(said)) == 1:
                cause = (
                    "The beam starts with equal copies: give all but the first -inf at the start."
                )
            raise Finding(f"source {row} gets the hypothesis {list(ids)} twice", possible=cause)
        if adapter.eos in ids or (place == 0 and {adapter.pad, adapter.bos} & set(ids)):
            cause = "Finished hypotheses are extended, or not cut at EOS."
            raise Finding(f"a hypothesis holds special ids: {list(ids)}", possible=cause)
