"""Which failure causes which, and the code that reproduces a finding."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmtcheck.result import Result

RELATIONS = tomllib.loads(Path(__file__).with_name("relations.toml").read_text("utf-8"))
Ask = Callable[[Sequence[str], str], str | None]
FIRST = "model.shape"  # nothing else can hold where this does not


def related(
    results: Sequence[Result],
    ask_repaired: Ask = lambda causes, name: None,
) -> tuple[Result, ...]:
    """The results, each failure that is explained by another one naming it in `follows`.

    What several checks were told in the same words is one finding, and so is one exception.
    `ask_repaired(causes, name)` is what a check measures with the repairs of other findings: where
    it passes (''), it follows from them, and otherwise not.  Where no experiment can tell (None),
    or a finding has no repair, relations.toml says what may follow.
    """
    bad = {result.check.id: result for result in results if result.bad}
    repairable = [name for name, result in bad.items() if result.repairable]
    said: dict[str, str] = {}  # what was measured -> the first check that met it
    for name in sorted(bad, key=lambda name: name != FIRST):
        said.setdefault(_words(bad[name]), name)

    def source(name: str) -> str:
        """The failure that a failure follows from directly, '' for none."""
        if bad[name].follows in bad:
            return bad[name].follows
        if (first := said[_words(bad[name])]) != name:
            return first
        others = [each for each in repairable if each != name]
        if name in repairable:
            # Of two findings with repairs within attentions the first one comes first.  Others
            # stand: a causal mask alone tells the order of words, and positions are missing all
            # the same.
            before = others[: repairable.index(name)] if name.startswith("inside.") else []
            others = [each for each in before if each.startswith("inside.")]
        tried = {cause: ask_repaired([cause], name) for cause in others}
        refuted = [cause for cause, measured in tried.items() if measured is not None]
        for cause in refuted:
            if tried[cause] == "":
                return cause
        if several := _repair_in_turn(bad[name].measured, refuted, name, ask_repaired):
            return several
        if len(others) > 1 and ask_repaired(others, name) == "":
            return others[0]
        listed = RELATIONS.get(name, {}).get("follows", ())
        known = [each for each in listed if each in bad and each not in refuted]
        # What an experiment has shown to be the cause follows from no mere guess.
        return next((each for each in known if bad[each].proved or not bad[name].proved), "")

    sources = {name: source(name) for name in bad}

    def root(name: str) -> str:
        """The failure at the beginning of the chain; of a circle, the one that ran first."""
        chain = [name]
        while (before := sources[chain[-1]]) and before not in chain:
            chain.append(before)
        return min(chain[chain.index(before) :], key=list(bad).index) if before else chain[-1]

    roots = {name: root(name) for name in bad}
    return tuple(
        replace(r, follows=roots[r.check.id] if roots.get(r.check.id) != r.check.id else "")
        if r.bad
        else r
        for r in results
    )


def _repair_in_turn(measured: str, causes: Sequence[str], name: str, ask: Ask) -> str:
    """The first of several findings with whose repairs a check passes; '' where it does not.

    One after the other is repaired where that changes what the check measures.
    """
    repaired = list[str]()
    ahead = list(causes)
    while ahead:
        cause = ahead.pop(0)
        found = ask([*repaired, cause], name)
        if found == "" and repaired:
            return repaired[0]
        if found is not None and _without_numbers(found) != _without_numbers(measured):
            repaired.append(cause)
            measured, ahead = found, [each for each in causes if each not in repaired]
    return ""


def _without_numbers(measured: str) -> str:
    """A message without its numbers, which differ from one model to the next."""
    return re.sub(r"[\d.]+(e-?\d+)?", "", measured)


def _words(result: Result) -> str:
    """A proved cause, or what was measured; of an exception, its kind and line if that is known."""
    if result.verdict != "error":
        return result.cause if result.proved else result.measured
    known = re.sub(r"; raised in \S+$", "", result.measured)
    return re.sub(r"^(\w+): .*(; raised in line .*)$", r"\1\2", known, flags=re.DOTALL)


def reproduction(result: Result, where: str, seed: int) -> list[str]:
    """Three lines of Python that show the finding again; `where` is code for the adapter."""
    given, loading = where or "adapter", ", load_adapter" if where else ""
    if lines := RELATIONS.get(result.check.id, {}).get("show"):
        first = f"run, source, target = example({given}, seed={seed})"
        imported = f"from nmtcheck import example{loading}; "
        return [imported + first, *lines.strip().splitlines()]
    return [
        f"from nmtcheck import run_checks{loading}",
        f"report = run_checks({given}, only={result.check.id!r}, seed={seed})",
        "print(report)",
    ]


def fundamental(findings: Sequence[Result], results: Sequence[Result]) -> list[Result]:
    """The findings in the order in which they should be mended: most fundamental first."""
    order: list[Any] = [r.check.id for r in results]
    followers = [r.follows for r in results]

    def rank(result: Result) -> tuple:
        name = result.check.id
        everywhere = result.verdict != "failed" and followers.count(name) >= 3
        return name != FIRST, not everywhere, order.index(name)

    return sorted(findings, key=rank)
