"""Checks of when a beam search stops, and of its length penalty."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from nmtcheck.adapter import Adapter
from nmtcheck.checks.beam import UNTOLD, best
from nmtcheck.measure.searching import Table, Variant, consensus, find, norms, sources, tables, torn
from nmtcheck.registry import Finding, check


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
            wrong.append(said)
        if asked == 5:
            break
    if asked < 2:
        raise NotImplementedError(UNTOLD)
    if len(wrong) > asked / 2:
        raise Finding(f"{len(wrong)} of {asked} times the search {wrong[0]}")
    return f"{asked} times the winner ends later than another hypothesis and is found"


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
