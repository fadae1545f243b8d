"""Checks of beam search, against the result of every correct search."""

from __future__ import annotations

from torch import Tensor, nn

from nmtcheck.adapter import Adapter
from nmtcheck.measure.helpers import logits, pad
from nmtcheck.measure.searching import Words, sources, speaker, word_ids
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
