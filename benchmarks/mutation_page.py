"""MUTATION.md: which bug of the catalogue sets off which alarm, written by mutation.py."""

from __future__ import annotations

from typing import Any

from nmtcheck import CHECKS


def table(result: dict[str, Any]) -> str:
    """The results as Markdown."""
    clean = result["clean"]
    others = ", ".join(f"{loss:.3f}" for loss in clean["losses_of_other_seeds"])
    lines = [
        "# Which bug sets off which alarm",
        "",
        "Written by `python benchmarks/mutation.py` from `results/mutation.json`.",
        "",
        f"**{result['caught']} of {result['planted']}** planted bugs are caught by a check or a "
        "unit test that their entry in `nmtcourse/bugs` names; alarms on the clean code: "
        f"{len(clean['failed'])}.",
        "",
        f"{result['in_model']} of them are in the model: they change its construction, its forward "
        "pass or its gradients. The *short* adapter, which gives only `make_model`, finds "
        f"**{result['caught_by_short_adapter']} of these {result['in_model']}**; the others show "
        "only in the parts of a model, or not in a forward pass.",
        "",
        f"*Loss* and *right* are what you would see after {clean['updates']} updates of a tiny "
        "model that learns to reverse one to three words: the trainer's validation loss in nats, "
        f"and the share of {result['translations']} correct translations by beam search. The "
        f"clean code reaches {clean['loss']:.3f} and {clean['right']:.0%}. With other seeds its "
        f"loss is {others}, so small differences are chance. *Same* means the same to the last "
        "digit.",
        "",
        *merged(result["bugs"]),
        "| no. | bug | loss | right | caught by | also fails | short adapter |",
        "|--:|---|--:|--:|---|---|---|",
    ]
    return "\n".join([*lines, *(table_row(bug, clean) for bug in result["bugs"])]) + "\n"


def merged(bugs: list[dict[str, Any]]) -> list[str]:
    """What is said of checks that the results name and that are none today."""
    gone = sorted({id for bug in bugs for id in bug["failed"]} - CHECKS.keys())
    if not gone:
        return []
    names = ", ".join(f"`{id}`" for id in gone)
    return [f"Since this was measured, these checks became parts of others or tests: {names}.", ""]


def table_row(bug: dict[str, Any], clean: dict[str, Any]) -> str:
    """One bug as a row of the table."""
    begin = f"| {bug['number']} | {bug['title']} |"
    if not bug["planted"]:
        return f"{begin} | | not planted: {bug['why_not']} | | |"
    named = []
    for id in bug["caught_by"]:
        shown = id.partition("::")[0].removeprefix("tests/")
        named.append(f"~~`{shown}`~~" if id in bug["missed_by"] else f"`{shown}`")
    also = [f"`{id}`" for id in bug["failed"] if id not in bug["caught_by"]]
    shown = also if len(also) <= 3 else [*also[:2], f"{len(also) - 2} more"]
    figures = f"{figure(bug, clean, 'loss', '.3f')} | {figure(bug, clean, 'right', '.0%')}"
    found = ""  # for what no forward pass calls
    if "short" in bug:
        found = f"`{bug['short'][0]}`" if bug["short"] else "no"
    return f"{begin} {figures} | {', '.join(named)} | {', '.join(shown)} | {found} |"


def figure(bug: dict[str, Any], clean: dict[str, Any], key: str, form: str) -> str:
    """One number of a bug, or "same" if the clean code has the same."""
    if bug[key] is None:
        return bug["error"].partition(":")[0]
    return "same" if bug[key] == clean[key] else format(bug[key], form)
