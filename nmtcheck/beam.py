"""Checks of beam search, against the result of every correct search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor, nn

from nmtcheck.adapter import Adapter
from nmtcheck.decoding import NO_END, greedy
from nmtcheck.helpers import logits, pad, unequal
from nmtcheck.registry import Finding, check
from nmtcheck.searching import (
    DEPTH,
    MARGIN,
    WIDTH,
    Table,
    Variant,
    Words,
    consensus,
    find,
    likely_paths,
    norms,
    sources,
    speaker,
    tables,
    torn,
    word_ids,
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


def miss_cause(adapter: Adapter, missed: list[Missed]) -> str:
    """Which wrong search would give all these results; empty if none."""
    plain = norms(0.0)[0]
    kinds = {
        "Only one hypothesis is kept: the result is that of greedy search.": (1, Variant(plain)),
        "It stops at the first finished hypothesis.": (WIDTH, Variant(plain, stop="any")),
        "It stops when the best hypothesis is finished.": (WIDTH, Variant(plain, stop="first")),
        "Scores are divided by the length, although the length penalty is 0.": (
            WIDTH,
            Variant(lambda n: n + 1),
        ),
    }
    for cause, (width, variant) in kinds.items():
        if all(find(case.table, adapter, width, variant)[0] == case.found for case in missed):
            return cause
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
                missed.append(Missed(not easy, found, expected, table))
        if hard >= 4:
            break
    if not asked:
        raise NotImplementedError("no random model has one clear best translation")
    if sum(case.hard for case in missed) > hard / 3 or len(missed) > asked / 8:
        _, found, expected, _ = max(missed, key=lambda case: case.hard)
        counts = f"{len(missed)} of {asked} times a beam of {WIDTH} misses the most probable"
        said = f"{counts} translation: it returns {list(found)}, not {list(expected)}"
        raise Finding(said, miss_cause(adapter, missed))
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
    for logp, (_, ids, score) in zip(table.log_softmax(-1).tolist(), rows, strict=True):
        steps = [logp[place][word] for place, word in enumerate([*ids, adapter.eos])]
        # At the length limit some searches return a hypothesis without its EOS.
        allowed = [sum(steps)] + ([sum(steps[:-1])] if len(ids) >= 10 else [])
        if min(abs(float(score) - p) for p in allowed) > 1e-2:
            given = (
                f"hypothesis {list(ids)} has the score {float(score):.3f} without length penalty"
            )
            raise Finding(f"{given}; the model gives it {sum(steps):.3f}")
    return f"{len(rows)} hypotheses have the model's own log-probability, none twice"


def refuse_extended(adapter: Adapter, row: int, said: list[Words]) -> None:
    """A Finding where a hypothesis of one source comes twice, or where EOS or padding is left.

    PAD and BOS may fill the last places of a beam that finds no other words, but not the first.
    """
    for place, ids in enumerate(said):
        if said.count(ids) > 1 and set(ids) <= set(word_ids(adapter)):
            cause = "Finished hypotheses are extended: what follows EOS is removed later."
            raise Finding(f"source {row} gets the hypothesis {list(ids)} twice", cause)
        if adapter.eos in ids or (place == 0 and {adapter.pad, adapter.bos} & set(ids)):
            cause = "Finished hypotheses are extended, or not cut at EOS."
            raise Finding(f"a hypothesis holds special ids: {list(ids)}", cause)


def torn_cases(
    adapter: Adapter, seed: int, short: float
) -> Iterator[tuple[nn.Module, Tensor, Table]]:
    """Models with a short and a long translation of similar probability, and their sources."""
    for number in range(4):
        model = torn(adapter, seed + 1000 * number, short)
        for source, table in tables(adapter, model, sources(adapter, seed, 3)):
            yield model, source, table


@check("beam.does_not_stop_early", "make_model", "beam", "resizable")
def does_not_stop_early(adapter: Adapter, seed: int) -> str:
    # With a length penalty, a translation of three words beats one of one word that ends earlier.
    """The search continues while a live hypothesis can still win."""
    penalty, short = (2.0, 0.47) if adapter.length_penalty else (0.0, 0.35)
    # The result of a hasty search; without a length penalty the best hypothesis may stop it.
    stops = ("any", "first") if penalty else ("any",)
    hasty = [Variant(norm, stop=stop) for norm in norms(penalty) for stop in stops]
    asked, wrong = 0, []
    for model, source, table in torn_cases(adapter, seed, short):
        expected = consensus(table, adapter, 4, penalty)
        early = [find(table, adapter, 4, variant)[0] for variant in hasty]
        if expected is None or expected in early:
            continue
        asked, found = asked + 1, best(adapter, model, source, 4, penalty, 4)
        if found != expected:
            said = f"returns {list(found)}, although {list(expected)}, which ends later, is better"
            wrong.append((said, hasty_cause(adapter, model, source, found in early)))
        if asked == 5:
            break
    if asked < 2:
        raise NotImplementedError(UNTOLD)
    if len(wrong) > asked / 2:
        said, cause = wrong[0]
        raise Finding(f"{len(wrong)} of {asked} times the search {said}", cause)
    return f"{asked} times the winner ends later than another hypothesis and is found"


def hasty_cause(adapter: Adapter, model: nn.Module, source: Tensor, early: bool) -> str:
    """Why the wrong translation wins; empty where it is that of a hasty search."""
    if not early:
        return "A different fault: see beam.finds_the_best, beam.length_penalty."
    if beams(adapter, model, source, 4, 0.0, 4) == beams(adapter, model, source, 4, 2.0, 4):
        return "The length penalty changes nothing, or the search ends with the first hypothesis."
    return ""


@check("beam.length_penalty", "make_model", "beam", "resizable", "length_penalty")
def length_penalty(adapter: Adapter, seed: int) -> str:
    """A larger length penalty favours longer translations."""
    found: dict[float, list[int]] = {0.0: [], 2.0: []}  # penalty -> lengths
    for model, source, table in torn_cases(adapter, seed, 0.47):
        short, long = (consensus(table, adapter, 4, penalty) for penalty in found)
        if short is None or long is None or len(short) >= len(long):
            continue
        for penalty, lengths in found.items():
            lengths.append(len(best(adapter, model, source, 4, penalty, 4)))
        if len(found[0.0]) == 5:
            break
    if len(found[0.0]) < 2:
        raise NotImplementedError(UNTOLD)
    without, with_penalty = (sum(lengths) / len(lengths) for lengths in found.values())
    if without == with_penalty:
        message = f"penalties 0 and 2 give translations of {without:.1f} words"
        raise Finding(message, "The penalty is not used.")
    if without > with_penalty:
        became = f"{with_penalty:.1f} words with penalty 2"
        raise Finding(f"{without:.1f} words without penalty become {became}")
    return f"{without:.1f} words without penalty, {with_penalty:.1f} with penalty 2"
