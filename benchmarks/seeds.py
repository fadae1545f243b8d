"""How much of a score is chance?  Train a preset with several seeds; score each on the test split.

    python benchmarks/seeds.py toy-de-en [--seeds 1 2 3] [--moses] [--neighbours 4] [--set K=V …]

Writes results/seeds-NAME.json after each training; the same command skips the seeds that are there
and goes on with a training that was stopped.  Nothing is chosen among the seeds: all of them are
reported.  At the end all models that are still there translate together, as an ensemble.  With
--neighbours each model is scored a second time, looking its next words up.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shared import (  # before torch, as it imports nmtlib first
    RESULTS,
    earlier_runs,
    say,
    train_or_go_on,
    training_parser,
    write_result,
)

# isort: split
from nmtlib.examples import load_corpus
from nmtlib.extras.ensemble import load_ensemble
from nmtlib.extras.neighbours import with_neighbours
from nmtlib.inference.evaluate import evaluate
from nmtlib.machine import command_line, describe_machine
from nmtlib.presets import load_settings
from nmtlib.records import training_summary
from nmtlib.settings import Settings
from nmtlib.training.hardware import choose_device

KEYS = ("bleu", "bleu_nltk", "bleu_moses")


def run(
    settings: Settings, folder: Path, neighbours: int | None = None, **how: bool
) -> dict[str, Any]:
    """Train with one seed, or go on with it, and score the test split."""
    train_or_go_on(folder, settings)
    found = {"seed": settings.training.seed, **both_ways([folder], neighbours, **how)}
    return {**found, "training": training_summary(folder)}


def both_ways(
    folders: Sequence[Path], neighbours: int | None = None, **how: bool
) -> dict[str, Any]:
    """The scores of one run, or of several together, and those with neighbours where asked."""
    found = scored(folders, **how)
    if neighbours:
        found["looked_up"] = scored(folders, neighbours=neighbours, **how)
    return found


def scored(
    folders: Sequence[Path], split: str = "test", neighbours: int | None = None, **how: bool
) -> dict[str, Any]:
    """The scores of one run, or of several together, on a split of their corpus."""
    translator = with_neighbours(load_ensemble(folders), neighbours)
    corpus = load_corpus(replace(translator.settings.corpus, synthetic=[]))
    evaluation, _ = evaluate(translator, corpus, split, **how)
    scores = evaluation.scores
    found = {
        "bleu": round(scores.bleu, 2),
        "bleu_nltk": round(scores.bleu_nltk, 4),
        "beam": evaluation.beam,
        "signature": scores.signature,
    }
    if neighbours:
        found |= {"neighbours": neighbours, "neighbour_weight": evaluation.neighbour_weight}
    if evaluation.bleu_moses is not None:
        found["bleu_moses"] = round(evaluation.bleu_moses, 2)
        found["moses_signature"] = evaluation.moses_signature
    return found


def spread(runs: Sequence[dict[str, Any]], key: str) -> dict[str, float | None]:
    """Mean and standard deviation (of a sample; None for one run) of a score over the seeds."""
    values = [found[key] for found in runs]
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.mean(values), "deviation": deviation}


def spreads(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The spread of each score that all runs have, and of those with neighbours."""
    keys = [key for key in KEYS if all(key in found for found in runs)]
    found: dict[str, Any] = {key: spread(runs, key) for key in keys}
    looked_up = [one["looked_up"] for one in runs if "looked_up" in one]
    if looked_up:
        found["looked_up"] = {
            "neighbours": looked_up[0]["neighbours"],
            "neighbour_weight": looked_up[0]["neighbour_weight"],
            **spreads(looked_up),
        }
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing; raises ValueError where the JSON holds results of other settings."""
    parser = training_parser(__doc__)
    parser.add_argument("preset", help="name of a preset or path of a .toml file")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--moses", action="store_true", help="BLEU on Moses' tokens, too")
    about = "score each model also with K neighbours (nmtlib evaluate --neighbours)"
    parser.add_argument("--neighbours", type=int, metavar="K", help=about)
    options = parser.parse_args(arguments)
    name = f"seeds-{Path(options.preset).stem}"
    folder, output = options.out or Path("runs") / name, options.output or RESULTS / f"{name}.json"
    base = load_settings(options.preset).with_assignments(options.assignments)
    setting = {"settings": json.loads(base.with_value("training.seed", 0).to_json())}
    runs, how = earlier_runs(output, setting), {"moses": True} if options.moses else {}
    if options.neighbours:  # earlier runs that were scored without are scored again
        runs = [one for one in runs if "looked_up" in one]
    for seed in options.seeds:
        if seed in [earlier["seed"] for earlier in runs]:
            continue
        say(f"seed {seed}")
        settings, place = base.with_value("training.seed", seed), folder / str(seed)
        runs.append(run(settings, place, neighbours=options.neighbours, **how))
        result = {
            "command": f"python benchmarks/{command_line()}",
            "preset": options.preset,
            "split": "test",
            **spreads(runs),
            "runs": runs,
            "machine": describe_machine(choose_device(base.training.device)),
            **setting,
        }
        write_result(output, result)
        there = [place for one in runs if (place := folder / str(one["seed"])).is_dir()]
        if len(runs) == len(there) > 1 and seed == options.seeds[-1]:
            say(f"all {len(there)} together")
            together = both_ways(there, options.neighbours, **how)
            result["ensemble"] = {"models": len(there), **together}
            write_result(output, result)
    show(spreads(runs), len(runs))


def show(found: dict[str, Any], seeds: int) -> None:
    """Print what `spreads` says of so many seeds."""
    for what, scores in {"": found, " with neighbours": found.get("looked_up", {})}.items():
        for key in [key for key in KEYS if key in scores]:
            one = scores[key]
            deviation = "" if one["deviation"] is None else f" ± {one['deviation']:.4g}"
            print(f"{key} of {seeds} seeds{what}: {one['mean']:.4g}{deviation}")


if __name__ == "__main__":
    main()
