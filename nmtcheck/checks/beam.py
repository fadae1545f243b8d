"""Checks of beam search, against the result of every correct search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from torch import Tensor, nn

from nmtcheck.adapter import Adapter
from nmtcheck.measure.helpers import logits, pad
from nmtcheck.measure.searching import (
    Table,
    Variant,
    Words,
    consensus,
    ending,
    find,
    norms,
    sources,
    speaker,
    tables,
    torn,
    word_ids,
)
from nmtcheck.registry import Finding, check

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


@check("beam.scores", "make_model", "beam", "resizable")
def scores(adapter: Adapter, seed: int) -> str:
    """Each hypothesis has the model's log-probability, and none is listed twice."""
    model, source = speaker(adapter, seed), sources(adapter, seed)
    found = beams(adapter, model, source, 4, 0.0, 12)
    for row, hypotheses in enumerate(found):
        refuse_extended(adapter, row, [ids for ids, _ in hypotheses])
        ranked = [float(score) for _, score in hypotheses if score is not None]
        if ranked != sorted(ranked, reverse=True):
            raise Finding(f"the hypotheses of source {row} are not the best first: {ranked}")
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
            if len(said) > 2 and len(set(said)) == 1:
                cause = "The beam starts with equal copies: give all but the first -inf there."
            raise Finding(f"source {row} gets the hypothesis {list(ids)} twice", cause)
        if adapter.eos in ids or (place == 0 and {adapter.pad, adapter.bos} & set(ids)):
            cause = "Finished hypotheses are extended, or not cut at EOS."
            raise Finding(f"a hypothesis holds special ids: {list(ids)}", cause)


Case = tuple[nn.Module, Tensor, Table]  # a model, a source (1, S), and all probabilities


def cases(
    adapter: Adapter, make: Callable[[Adapter, int], nn.Module], count: int, seed: int
) -> Iterator[Case]:
    """Sources of `count` models of a kind, and their probabilities."""
    for number in range(count):
        model = make(adapter, seed + 1000 * number)
        for source, table in tables(adapter, model, sources(adapter, seed, 3)):
            yield model, source, table


def contested(
    adapter: Adapter,
    every: Iterator[Case],
    penalty: float,
    decides: Callable[[Table, Words], bool],
    allowed: float,
) -> int:
    """How many sources decide; a Finding where the search misses more than the share allowed."""
    asked, wrong = 0, []
    for model, source, table in every:
        expected = consensus(table, adapter, 4, penalty)
        if expected is None or not decides(table, expected):
            continue
        asked, found = asked + 1, best(adapter, model, source, 4, penalty, 4)
        if found != expected:
            wrong.append(f"returns {list(found)}, although {list(expected)} is better")
        if asked == 5:
            break
    if asked < 2:
        raise NotImplementedError(UNTOLD)
    if len(wrong) > asked * allowed:
        raise Finding(f"{len(wrong)} of {asked} times the search {wrong[0]}")
    return asked


@check("beam.does_not_stop_early", "make_model", "beam", "resizable")
def does_not_stop_early(adapter: Adapter, seed: int) -> str:
    # With a length penalty, a translation of three words beats one of one word that ends earlier.
    """The search continues while a live hypothesis can still win."""
    penalty, short = (2.0, 0.47) if adapter.length_penalty else (0.0, 0.35)
    # The result of a hasty search; without a length penalty the best hypothesis may stop it.
    stops = ("any", "first") if penalty else ("any",)
    hasty = [Variant(norm, stop=stop) for norm in norms(penalty) for stop in stops]

    def decides(table: Table, expected: Words) -> bool:
        return expected not in [find(table, adapter, 4, variant)[0] for variant in hasty]

    every = cases(adapter, partial(torn, short=short), 4, seed)
    asked = contested(adapter, every, penalty, decides, 1 / 2)
    return f"{asked} times the winner ends later than another hypothesis and is found"


@check("beam.length_penalty", "make_model", "beam", "resizable", "length_penalty")
def length_penalty(adapter: Adapter, seed: int) -> str:
    """A larger length penalty favours longer translations."""
    lengths = list[tuple[int, int]]()  # with penalty 0, with penalty 2
    for model, source, table in cases(adapter, partial(torn, short=0.47), 4, seed):
        short, long = (consensus(table, adapter, 4, penalty) for penalty in (0.0, 2.0))
        if short is None or long is None or len(short) >= len(long):
            continue
        searched = (best(adapter, model, source, 4, penalty, 4) for penalty in (0.0, 2.0))
        a, b = map(len, searched)
        lengths.append((a, b))
        if len(lengths) == 5:
            break
    if len(lengths) < 2:
        raise NotImplementedError(UNTOLD)
    without, with_penalty = (sum(side) / len(side) for side in zip(*lengths, strict=True))
    if without >= with_penalty:
        cause = "The penalty is not used." if without == with_penalty else ""
        became = f"{with_penalty:.1f} words with penalty 2"
        raise Finding(f"{without:.1f} words without penalty become {became}", cause)
    return f"{without:.1f} words without penalty, {with_penalty:.1f} with penalty 2"


@check("beam.ends_at_eos", "make_model", "beam", "resizable")
def ends_at_eos(adapter: Adapter, seed: int) -> str:
    """Tokens after EOS do not affect the score of a hypothesis."""
    every = cases(adapter, ending, 3, 0)  # the same for every seed
    asked = contested(adapter, every, 0.0, lambda _, expected: len(expected) == 1, 1 / 4)
    return f"{asked} times a short hypothesis wins, whatever follows its EOS"
