"""How every trained preset scores, as Markdown blocks and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from statistics import median
from typing import Any

import tables
from tables import read, table

from nmtcourse.teaching import neighbours
from nmtlib.presets import load_settings, presets

RUNS = {  # the row's name -> the preset, whose results are PRESET-SPLIT-beamN.json
    "German-English, bundled grammar": "toy-de-en",
    "English-Chinese, bundled grammar": "toy-en-zh",
    "German-English, Multi30k, R-Drop": "multi30k-de-en",
    "German-English, Multi30k, taught (teachers not counted)": "multi30k-de-en-taught",
    "German-English, Multi30k, quick (2 processes)": "multi30k-de-en-quick",
    "English-German, Multi30k": "multi30k-en-de",
    "German-English, Multi30k and captions, shipped": "multi30k-de-en-small",
    "English-Chinese, cmn-eng-simple": "cmn-en-zh",
    "English-Chinese, cmn-eng-simple, shipped": "cmn-en-zh-small",
}


def evaluations() -> list[tuple[str, dict[str, Any]]]:
    """Every evaluation of each trained preset, with the name of its row."""
    return [
        (name, read(path.name))
        for name, preset in RUNS.items()
        for split in ("test", "challenge")
        for path in sorted(tables.RESULTS.glob(f"{preset}-{split}-beam*.json"), reverse=True)
    ]


def best_searches() -> list[tuple[str, dict[str, Any]]]:
    """The evaluation of each trained preset by the search that scores best on its test split."""
    best: dict[str, dict[str, Any]] = {}
    for name, found in evaluations():
        if found["split"] == "test" and found["beam"] > 1:
            best[name] = max(best.get(name, found), found, key=lambda one: one["scores"]["bleu"])
    return list(best.items())


def size_and_training(found: dict[str, Any]) -> list[str]:
    """Parameters, epochs and minutes, as cells of a table."""
    training = found["training"]
    return [
        f"{found['parameters'] / 1e6:.1f} M",
        f"{training['epochs']} epochs, {training['minutes']:.0f} min",
    ]


def results() -> str:
    """The best search of each preset on its test split."""
    rows = [
        [name, *size_and_training(found), f"{found['scores']['bleu']:.1f}"]
        for name, found in best_searches()
    ]
    return table("system | parameters | training, on CPUs | sacreBLEU, test", rows)


def records() -> str:
    """What `nmtlib summary` tells of each preset, as JSON: the best search on its test split."""
    best = {
        (preset := RUNS[name]): {
            "parameters": size_and_training(found)[0],
            "minutes": f"{found['training']['minutes']:.0f}",
            "score": f"sacreBLEU {found['scores']['bleu']:.1f} ({what_was_changed(found, preset)})",
        }
        for name, found in best_searches()
    }
    for found in seeds_of_presets():
        runs = found["runs"]
        if found["preset"] not in best and "parameters" in runs[0] and not where_else(found):
            minutes = median(run["training"]["minutes"] for run in runs)  # one may have waited
            best[found["preset"]] = {
                "parameters": f"{runs[0]['parameters'] / 1e6:.1f} M",
                "minutes": f"{minutes:.0f}",
                "score": f"sacreBLEU {found['bleu']['mean']:.1f} ({len(runs)} seeds)",
            }
    return json.dumps(best, indent=2) + "\n"


def what_was_changed(found: dict[str, Any], preset: str) -> str:
    """What a training changed in a preset, or in the one that its command names, as for --set."""
    command = found["training"]["command"]
    named = re.search(r"(?:train|--preset) (\S+)", command)
    base = load_settings(preset if preset in presets() else named[1])
    changes = [change.strip("'") for change in re.findall(r"--set ('[^']*'|\S+)", command)]
    changes = [change for change in changes if base.with_assignments([change]) != base]
    return "with " + ", ".join(changes) if changes else "as it is"


def all_results() -> str:
    """One row for each evaluation of each preset, and how to read them."""
    rows, signatures = [], set()
    for name, found in evaluations():
        scores, clean = found["scores"], found["scores_without_leaked"]
        signatures.add(f"`{scores['signature']}`")
        bleu, nltk = f"{scores['bleu']:.2f}", f"{scores['bleu_nltk']:.4f}"
        if clean:
            bleu, nltk = f"{bleu} ({clean['bleu']:.2f})", f"{nltk} ({clean['bleu_nltk']:.4f})"
        search = "greedy"
        if found["beam"] > 1:
            search = f"beam {found['beam']}, length penalty {found['length_penalty']:g}"
        pairs = f"{scores['sentences']:,} {found['split']} pairs"
        speed = f"{found['sentences_per_second']:.0f}"
        rows.append([name, *size_and_training(found), pairs, search, bleu, nltk, speed])
    header = (
        "system | parameters | training | scored on | search | sacreBLEU | NLTK BLEU | sentences/s"
    )
    notes = [
        "One run and one seed a row, on shared machines with two virtual CPUs: the minutes and "
        "speeds of two rows cannot be compared.",
        *several_seeds(),
        *other_way(),
        *looking_up(),
        *on_moses_tokens(),
        "In brackets: without the test pairs whose source also stands in the training data.",
        "sacreBLEU runs from 0 to 100, NLTK BLEU from 0 to 1 over the words between spaces.",
        f"Signatures: {', '.join(sorted(signatures))}.",
    ]
    return table(header, rows) + "\n\n" + "\n".join(notes)


def on_moses_tokens() -> list[str]:
    """A line for each system whose test score was also counted as papers count it."""
    return [
        f"On Moses' tokens, on which papers report Multi30k: {name}, beam {found['beam']}, "
        f"{found['bleu_moses']:.2f} (`{found['moses_signature']}`)."
        for name, found in evaluations()
        if found.get("bleu_moses") and found["beam"] > 1
    ]


def several_seeds() -> list[str]:
    """A line for each preset that was trained with several seeds."""
    return [seeds_line(found) for found in seeds_of_presets()]


def seeds_of_presets() -> list[dict[str, Any]]:
    """The results of several seeds of a preset; one alone has no deviation to tell."""
    measured = [read(path.name) for path in sorted(tables.RESULTS.glob("seeds-*.json"))]
    return [found for found in measured if len(found["runs"]) > 1]


def seeds_line(found: dict[str, Any]) -> str:
    """How several seeds of one preset scored, and all of them together where that was measured."""
    return (
        f"`{found['preset']}`{where_else(found)} with {len(found['runs'])} seeds: "
        f"{spreads(found)} on the test pairs (mean and standard deviation)"
        f"{with_neighbours(found, spreads)}{of_all(found)}."
    )


def other_way() -> list[str]:
    """What captions, and then the pairs alone, made of the other direction."""
    found = read("other-way.json")
    stages = "; ".join(f"{name} {spreads(stage)}" for name, stage in found["stages"].items())
    what = f"`{found['corpus']}` by `benchmarks/other_way.py`, {found['ensemble']['models']} seeds"
    return [f"{what}: {stages}{of_all(found)}."]


def looking_up() -> list[str]:
    """What neighbours among the training pairs bring the models that ship."""
    models = json.loads(neighbours.RECORDED.read_text("utf-8"))["models"]
    how = f"{models[0]['neighbours']} neighbours of weight {models[0]['weight']:g}"
    each = [
        f"`{found['model']}` {single(found['plain'])} → {single(found['looked_up'])}"
        for found in models
    ]
    what = f"The models that ship, looking words up among {how} (`benchmarks/neighbours.py`)"
    return [f"{what}: {'; '.join(each)}."]


SCORES = {"sacreBLEU": ("bleu", 2), "NLTK": ("bleu_nltk", 4), "on Moses' tokens": ("bleu_moses", 2)}


def spreads(found: dict[str, Any]) -> str:
    """Mean and standard deviation of each score that was measured."""
    return ", ".join(
        f"{name} {found[key]['mean']:.{digits}f} ± {found[key]['deviation']:.{digits}f}"
        for name, (key, digits) in SCORES.items()
        if key in found
    )


def of_all(found: dict[str, Any]) -> str:
    """The scores of all models together, where there are any."""
    if not (together := found.get("ensemble")):
        return ""
    scores = f"{single(together)}{with_neighbours(together, single)}"
    return f"; all {together['models']} models together: {scores}"


def single(found: dict[str, Any]) -> str:
    """Each score that was measured, of one model or of one ensemble."""
    return ", ".join(
        f"{name} {found[key]:.{digits}f}" for name, (key, digits) in SCORES.items() if key in found
    )


def with_neighbours(found: dict[str, Any], told: Callable[[dict[str, Any]], str]) -> str:
    """The scores of a model that looks next words up, where it was scored so, as `told` says."""
    if not (looked_up := found.get("looked_up")):
        return ""
    how = f"{looked_up['neighbours']} neighbours of weight {looked_up['neighbour_weight']:g}"
    return f"; with {how} {told(looked_up)}"


def where_else(found: dict[str, Any]) -> str:
    """The corpus of a result, where it is not that of its preset."""
    corpus, usual = found["settings"]["corpus"]["name"], load_settings(found["preset"]).corpus.name
    return "" if corpus == usual else f" on {corpus}"
