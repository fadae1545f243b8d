"""How every trained preset scores, as Markdown blocks and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from statistics import median
from typing import Any

import tables
from tables import read, table

from nmtcourse.teaching import neighbours
from nmtlib.presets import load_settings, presets

RUNS = {  # the row's name -> the preset, whose results are PRESET-SPLIT-beamN.json
    "German-English, bundled toy grammar": "toy-de-en",
    "English-Chinese, bundled toy grammar": "toy-en-zh",
    "German-English, Multi30k, R-Drop": "multi30k-de-en",
    "German-English, Multi30k, distilled (teachers not counted)": "multi30k-de-en-taught",
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


def results(words: Mapping[str, str] | None = None) -> str:
    """The best search of each preset on its test split; `words` are replaced, the longest first."""
    rows = [
        [name, *size_and_training(found), f"{found['scores']['bleu']:.1f}"]
        for name, found in best_searches()
    ]
    block = table("system | parameters | training, on CPUs | sacreBLEU, test", rows)
    for old in sorted(words or (), key=len, reverse=True):
        block = block.replace(old, words[old])
    return block


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
        scores, clean = found["scores"], found.get("scores_without_leaked")
        signatures.add(f"`{scores['signature']}`")
        bleu, nltk = f"{scores['bleu']:.2f}", f"{scores['bleu_nltk']:.4f}"
        if clean:
            bleu, nltk = f"{bleu} ({clean['bleu']:.2f})", f"{nltk} ({clean['bleu_nltk']:.4f})"
        search = "greedy"
        if found["beam"] > 1:
            search = f"beam {found['beam']}, length penalty {found['length_penalty']:g}"
        pairs = f"{scores['sentences']:,} {found['split']} pairs"
        speed = f"{scores['sentences'] / found['seconds']:.0f}"
        rows.append([name, *size_and_training(found), pairs, search, bleu, nltk, speed])
    header = (
        "system | parameters | training | scored on | search | sacreBLEU | NLTK BLEU | sentences/s"
    )
    notes = [
        "Each row is one run with one seed, on shared machines with two virtual CPUs: do not "
        "compare the minutes and speeds of different rows.",
        "The score in brackets leaves out test pairs whose source is also in the training data.",
        "sacreBLEU runs from 0 to 100. NLTK BLEU runs from 0 to 1 and counts the words between "
        "spaces.",
        *on_moses_tokens(),
        f"Signatures: {', '.join(sorted(signatures))}.",
    ]
    return table(header, rows) + "\n\n" + "\n".join(f"- {note}" for note in notes)


def on_moses_tokens() -> list[str]:
    """A line for each system whose test score was also counted as papers count it."""
    return [
        f"Papers report Multi30k on Moses tokens: {name}, beam {found['beam']}, "
        f"{found['bleu_moses']:.2f} (`{found['moses_signature']}`)."
        for name, found in evaluations()
        if found.get("bleu_moses") and found["beam"] > 1
    ]


def several_seeds() -> str:
    """Each preset that was trained with several seeds, alone, as an ensemble, and with kNN."""
    other = read("other-way.json")
    corpus, ensemble = f"`{other['corpus']}`", other["ensemble"]
    rows = [row for found in seeds_of_presets() for row in seed_rows(found)]
    for stage, scores in other["stages"].items():
        rows += scored(f"{corpus}, {stage}", f"mean of {ensemble['models']}", scores)
    rows += scored(f"{corpus}, {stage}", f"ensemble of {ensemble['models']}", ensemble)
    for found in json.loads(neighbours.RECORDED.read_text("utf-8"))["models"]:
        rows += scored(f"`{found['model']}`, shipped", "one", found["plain"] | {"looked_up": found})
    header = "system | models | kNN: k, weight"
    return table(f"{header} | {' | '.join(name for name, _, _ in SCORES)}", rows)


def seeds_of_presets() -> list[dict[str, Any]]:
    """The results of several seeds of a preset; one alone has no deviation to tell."""
    measured = [read(path.name) for path in sorted(tables.RESULTS.glob("seeds-*.json"))]
    return [found for found in measured if len(found["runs"]) > 1]


SCORES = (("sacreBLEU", "bleu", 2), ("NLTK BLEU", "bleu_nltk", 4), ("Moses", "bleu_moses", 2))


def seed_rows(found: dict[str, Any]) -> list[list[str]]:
    """The mean of several seeds of one preset, and their ensemble where that was measured."""
    name, ensemble = f"`{found['preset']}`{where_else(found)}", found.get("ensemble")
    rows = scored(name, f"mean of {len(found['runs'])}", found)
    return rows + (scored(name, f"ensemble of {ensemble['models']}", ensemble) if ensemble else [])


def scored(name: str, models: str, found: dict[str, Any]) -> list[list[str]]:
    """One row of scores, and one more where the same models were also scored with kNN."""
    rows = [[name, models, "–", *score_cells(found)]]
    if with_knn := found.get("looked_up"):
        weight = with_knn.get("neighbour_weight", with_knn.get("weight"))
        how = f"{with_knn['neighbours']}, {weight:g}"
        rows.append([name, models, how, *score_cells(with_knn.get("looked_up", with_knn))])
    return rows


def score_cells(found: dict[str, Any]) -> list[str]:
    """Each score as a number, or as mean and standard deviation, or "–" where not measured."""
    cells = []
    for _, key, digits in SCORES:
        score = found.get(key)
        if isinstance(score, dict):
            cells.append(f"{score['mean']:.{digits}f} ± {score['deviation']:.{digits}f}")
        else:
            cells.append("–" if score is None else f"{score:.{digits}f}")
    return cells


def where_else(found: dict[str, Any]) -> str:
    """The corpus of a result, where it is not that of its preset."""
    corpus, usual = found["settings"]["corpus"]["name"], load_settings(found["preset"]).corpus.name
    return "" if corpus == usual else f" on {corpus}"
