"""Checks of beam search, against what every right search would find."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from nmtlib.checks.adapter import Adapter
from nmtlib.checks.helpers import logits, pad
from nmtlib.checks.registry import Finding, check
from nmtlib.checks.searching import (
    DEPTH,
    MARGIN,
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
)

NOTEBOOK = "10_decoding"
NEEDS = ("make_model", "beam", "resizable")


def beams(
    adapter: Adapter, model: nn.Module, source, width: int, penalty: float, longest: int
) -> list[list[tuple]]:
    """The hypotheses (ids, score) of each source, best first."""
    found = adapter.beam(model, source, width, penalty, longest)
    if len(found) != len(source) or not all(found):
        raise Finding(f"{len(source)} sources got {sum(map(bool, found))} lists of hypotheses")
    return [
        [(tuple(int(i) for i in ids), score) for ids, score in hypotheses] for hypotheses in found
    ]


def best(
    adapter: Adapter, model: nn.Module, source, width: int, penalty: float, longest: int
) -> Words:
    """The best hypothesis of one source."""
    return beams(adapter, model, source, width, penalty, longest)[0][0][0]


@check(
    "beam.one_is_greedy",
    cause="Beam search scores, starts or stops otherwise than greedy search.",
    notebook=NOTEBOOK,
    needs=("make_model", "beam", "greedy"),
)
def one_is_greedy(adapter: Adapter, seed: int) -> str:
    """A beam of one is greedy search."""
    model, source = speaker(adapter, seed), sources(adapter, seed)
    clear = [
        row for row, path in enumerate(likely_paths(adapter, model, source, adapter.bos)) if path
    ]
    if not clear:
        raise NotImplementedError("no random model was found that ends its sentences")
    greedy = adapter.greedy(model, source[clear], 20)
    searched = [hypotheses[0][0] for hypotheses in beams(adapter, model, source[clear], 1, 0.0, 20)]
    wrong = [n for n, ids in enumerate(greedy) if tuple(ids) != searched[n]]
    if wrong:
        raise Finding(
            f"for {len(wrong)} of {len(clear)} sources a beam of one says {list(searched[wrong[0]])}, greedy "
            f"search {list(greedy[wrong[0]])}"
        )
    return f"equal for {len(clear)} sources"


@check(
    "beam.finds_the_best",
    cause="The cache is not reordered with the hypotheses, candidates are taken from one "
    "beginning only, or the search starts or stops otherwise.",
    notebook=NOTEBOOK,
    needs=NEEDS,
)
def finds_the_best(adapter: Adapter, seed: int) -> str:
    """A wide beam finds the most probable of all translations."""
    asked, wrong = (
        {"easy": 0, "hard": 0},
        {"easy": [], "hard": []},
    )  # greedy search finds the easy ones too
    for number in range(4):
        model = speaker(adapter, seed + 1000 * number)
        for source, table in tables(adapter, model, sources(adapter, seed)):
            expected = clear_best(adapter, table)
            if expected is None:
                continue
            kind = (
                "easy"
                if find(table, adapter, 1, Variant(norms(0.0)[0], DEPTH))[0] == expected
                else "hard"
            )
            asked[kind] += 1
            if (found := best(adapter, model, source, 8, 0.0, 8)) != expected:
                wrong[kind].append((found, expected))
        if asked["hard"] >= 4:
            break
    total, missed = sum(asked.values()), [*wrong["hard"], *wrong["easy"]]
    if not total:
        raise NotImplementedError("no random model has one clear best translation")
    if len(wrong["hard"]) > asked["hard"] / 3 or len(missed) > total / 8:
        raise Finding(
            f"{len(missed)} of {total} times a beam of 8 misses the most probable translation: it says "
            f"{list(missed[0][0])}, not {list(missed[0][1])}"
        )
    return (
        f"{total} times the best of all translations, {asked['hard']} of which greedy search misses"
    )


def clear_best(adapter: Adapter, table: Table) -> Words | None:
    """The most probable translation, where every right search finds it and no longer one could be
    better.
    """
    expected = consensus(table, adapter, 8, 0.0)
    everything, _ = find(table, adapter, 400, Variant(norms(0.0)[0], DEPTH, stop="never"))
    if expected is None or everything != expected:
        return None
    going_on = max(logp_of(table, words) for words in table if len(words) == DEPTH)
    ended = logp_of(table, expected) + table[expected][adapter.eos]
    return expected if going_on < ended - MARGIN else None


def logp_of(table: Table, words: Words) -> float:
    """The log-probability of a beginning."""
    return sum(table[words[:n]][word] for n, word in enumerate(words))


@check(
    "beam.scores",
    cause="Finished hypotheses are extended, the cache is in another order, or scores are added up "
    "wrongly.",
    notebook=NOTEBOOK,
    needs=NEEDS,
)
def scores(adapter: Adapter, seed: int) -> str:
    """Each hypothesis has the log-probability that the model gives it, and none comes twice."""
    model, source = speaker(adapter, seed), sources(adapter, seed)
    found = beams(adapter, model, source, 4, 0.0, 12)
    rows = [(row, ids, score) for row, hypotheses in enumerate(found) for ids, score in hypotheses]
    for row, hypotheses in enumerate(found):
        said = [ids for ids, _ in hypotheses]
        if len(set(said)) < len(said):
            twice = next(ids for ids in said if said.count(ids) > 1)
            raise Finding(
                f"source {row} gets the hypothesis {list(twice)} twice",
                "Finished hypotheses are extended: what follows EOS is cut off later.",
            )
        for ids in said:
            if {adapter.pad, adapter.bos, adapter.eos} & set(ids):
                raise Finding(
                    f"a hypothesis holds special ids: {list(ids)}",
                    "Finished hypotheses are extended, or not cut at EOS.",
                )
    if any(score is None for *_, score in rows):
        return f"{len(rows)} hypotheses of words only, none twice; scores are not returned"
    target = pad([[adapter.bos, *ids] for _, ids, _ in rows], adapter.pad)
    logp = (
        logits(adapter, model, source[[row for row, *_ in rows]], target).log_softmax(-1).tolist()
    )
    for number, (_, ids, score) in enumerate(rows):
        steps = [logp[number][place][word] for place, word in enumerate([*ids, adapter.eos])]
        # At the length limit some searches return a hypothesis without its EOS.
        allowed = [sum(steps)] + ([sum(steps[:-1])] if len(ids) >= 10 else [])
        if min(abs(float(score) - p) for p in allowed) > 1e-2:
            raise Finding(
                f"hypothesis {list(ids)} has the score {float(score):.3f} without length penalty; the model "
                f"gives it {sum(steps):.3f}"
            )
    return f"{len(rows)} hypotheses have the model's own log-probability, none twice"


def torn_cases(
    adapter: Adapter, seed: int, short: float
) -> Iterator[tuple[nn.Module, Tensor, Table]]:
    """Models torn between a short and a long translation, and three sources for each."""
    for number in range(4):
        model = torn(adapter, seed + 1000 * number, short)
        for source, table in tables(adapter, model, sources(adapter, seed, 3)):
            yield model, source, table


@check(
    "beam.does_not_stop_early",
    cause="It stops as soon as one hypothesis, or the best one, has ended.",
    notebook=NOTEBOOK,
    needs=NEEDS,
)
def does_not_stop_early(adapter: Adapter, seed: int) -> str:
    # With a length penalty, a translation of three words beats the one of one word that ends before
    # it.
    """The search goes on while another hypothesis can still win."""
    penalty, short = (2.0, 0.47) if adapter.length_penalty else (0.0, 0.35)
    # What a search that stops too early would say; without a length penalty the best one may stop
    # it.
    hasty = [
        Variant(norm, stop=stop)
        for norm in norms(penalty)
        for stop in (("any", "first") if penalty else ("any",))
    ]
    asked, wrong = 0, []
    for model, source, table in torn_cases(adapter, seed, short):
        expected = consensus(table, adapter, 4, penalty)
        if expected is None or expected in {
            find(table, adapter, 4, variant)[0] for variant in hasty
        }:
            continue
        asked, found = asked + 1, best(adapter, model, source, 4, penalty, 4)
        if found != expected:
            wrong.append((found, expected))
        if asked == 5:
            break
    if asked < 2:
        raise NotImplementedError("the model did not learn what would have told")
    if len(wrong) > asked / 2:
        raise Finding(
            f"{len(wrong)} of {asked} times the search says {list(wrong[0][0])}, though {list(wrong[0][1])}, "
            f"which ends later, is better"
        )
    return f"{asked} times the winner ends later than another, and is found"


@check(
    "beam.length_penalty",
    cause="The wrong sign: log-probabilities are negative, so dividing them by more makes "
    "them better.",
    notebook=NOTEBOOK,
    needs=(*NEEDS, "length_penalty"),
)
def length_penalty(adapter: Adapter, seed: int) -> str:
    """A greater length penalty favours longer translations."""
    lengths, asked = [0, 0], 0
    for model, source, table in torn_cases(adapter, seed, 0.47):
        expected = [consensus(table, adapter, 4, penalty) for penalty in (0.0, 2.0)]
        if None in expected or len(expected[0]) >= len(expected[1]):
            continue
        asked += 1
        for place, penalty in enumerate((0.0, 2.0)):
            lengths[place] += len(best(adapter, model, source, 4, penalty, 4))
        if asked == 5:
            break
    if asked < 2:
        raise NotImplementedError("the model did not learn what would have told")
    means = [total / asked for total in lengths]
    if means[0] == means[1]:
        raise Finding(
            f"penalties 0 and 2 give translations of {means[0]:.1f} words",
            "The penalty is not used.",
        )
    if means[0] > means[1]:
        raise Finding(
            f"{means[0]:.1f} words without penalty become {means[1]:.1f} words with penalty 2"
        )
    return f"{means[0]:.1f} words without penalty, {means[1]:.1f} with penalty 2"
