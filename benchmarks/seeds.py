"""How much of a score is chance?  Train a preset with several seeds; score each on the test split.

    python benchmarks/seeds.py toy-de-en [--seeds 1 2 3] [--moses] [--neighbours 4] [--set K=V …]

Writes results/seeds-NAME.json after each training; the same command skips the seeds that are there
and goes on with a training that was stopped.  Nothing is chosen among the seeds: all of them are
reported.  At the end all models translate together, as an ensemble, where they are still there.
With --neighbours each model is scored a second time, looking its next words up.  All seeds of one
file are scored in the same ways.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
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
from nmtcourse.corpora import load_corpus
from nmtcourse.provenance import command_line, describe_machine, training_summary
from nmtcourse.recipes.ensemble import load_ensemble
from nmtcourse.recipes.moses import moses_scorer
from nmtcourse.recipes.neighbours import with_neighbours
from nmtlib.inference.evaluate import evaluate
from nmtlib.presets import load_settings
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
    folders: Sequence[Path], split: str = "test", neighbours: int | None = None, moses: bool = False
) -> dict[str, Any]:
    """The scores of one run, or of several together, on a split of their corpus."""
    translator = with_neighbours(load_ensemble(folders), neighbours)
    corpus = load_corpus(translator.settings.corpus)
    scorers = [moses_scorer(corpus.target_language)] if moses else []
    evaluation, _ = evaluate(translator, corpus, split, scorers=scorers)
    scores = evaluation.scores
    found = {
        "bleu": round(scores.bleu, 2),
        "bleu_nltk": round(scores.bleu_nltk, 4),
        "beam": evaluation.beam,
        "parameters": evaluation.parameters,
        "signature": scores.signature,
    }
    more = {name: value for name, value in evaluation.more.items() if name != "models"}
    if moses:
        more["bleu_moses"] = round(more["bleu_moses"], 2)
    return found | more


def spread(runs: Sequence[dict[str, Any]], key: str) -> dict[str, float | None]:
    """Mean and standard deviation (of a sample; None for one run) of a score over the seeds."""
    values = [found[key] for found in runs]
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.mean(values), "deviation": deviation}


def spreads(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The spread of each score that all runs have, also of those with as many neighbours."""
    keys = [key for key in KEYS if all(key in found for found in runs)]
    found: dict[str, Any] = {key: spread(runs, key) for key in keys}
    looked_up = [one["looked_up"] for one in runs if "looked_up" in one]
    kinds = {(one["neighbours"], one["neighbour_weight"]) for one in looked_up}
    if len(looked_up) == len(runs) and len(kinds) == 1:
        ((neighbours, weight),) = kinds
        how = {"neighbours": neighbours, "neighbour_weight": weight}
        found["looked_up"] = how | spreads(looked_up)
    return found


def ways(runs: Sequence[dict[str, Any]], neighbours: int | None, moses: bool) -> dict[str, Any]:
    """How all seeds are scored: as is asked for, and in the ways in which earlier ones were."""
    before = [found["looked_up"]["neighbours"] for found in runs if "looked_up" in found]
    return {
        "neighbours": neighbours or next(iter(before), None),
        "moses": moses or any("bleu_moses" in found for found in runs),
    }


def is_scored(found: dict[str, Any], neighbours: int | None, moses: bool) -> bool:
    """Whether one run, or several together, were scored in these ways."""
    looked_up = found.get("looked_up", {})
    if neighbours and looked_up.get("neighbours") != neighbours:
        return False
    return not moses or all("bleu_moses" in one for one in (found, looked_up) if one)


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line, with the places that it leaves open filled in."""
    parser = training_parser(__doc__)
    parser.add_argument("preset", help="name of a preset or path of a .toml file")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--moses", action="store_true", help="BLEU on Moses' tokens, too")
    about = "score each model also with K neighbours (nmtlib evaluate --neighbours)"
    parser.add_argument("--neighbours", type=int, metavar="K", help=about)
    options = parser.parse_args(arguments)
    name = f"seeds-{Path(options.preset).stem}"
    options.out = options.out or Path("runs") / name
    options.output = options.output or RESULTS / f"{name}.json"
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Train and score what is missing.

    Raises ValueError where the JSON holds results of other settings, or of seeds that are not given
    and would have to be scored again.
    """
    options = read_options(arguments)
    base = load_settings(options.preset).with_assignments(options.assignments)
    text = base.changed({"training": {"seed": 0}}).to_json()  # teachers may lie in runs/
    setting = {"settings": json.loads(text.replace(f"{Path.cwd()}/", ""))}
    runs = {found["seed"]: found for found in earlier_runs(options.output, setting)}
    how = ways([*runs.values()], options.neighbours, options.moses)
    done = [seed for seed in runs if is_scored(runs[seed], **how)]
    if others := [seed for seed in runs if seed not in [*done, *options.seeds]]:
        raise ValueError(
            f"{options.output} holds seeds that were scored in another way; give them, too, or "
            f"choose another --output: --seeds {' '.join(map(str, others))}"
        )
    for seed in dict.fromkeys(options.seeds):
        if seed in done:
            continue
        say(f"seed {seed}")
        settings, place = base.changed({"training": {"seed": seed}}), options.out / str(seed)
        runs[seed] = run(settings, place, **how)
        result = {
            "command": f"python benchmarks/{command_line()}",
            "preset": options.preset,
            "split": "test",
            **spreads([*runs.values()]),
            "runs": [*runs.values()],
            "machine": describe_machine(choose_device(base.training.device)),
            **setting,
        }
        write_result(options.output, result)
    add_ensemble(options.output, options.out, **how)
    show(spreads([*runs.values()]), len(runs))


def add_ensemble(output: Path, folder: Path, **how: Any) -> None:
    """Score all models together where that is missing in a file of results, and all are there."""
    result = json.loads(output.read_text("utf-8"))
    seeds, together = [found["seed"] for found in result["runs"]], result.get("ensemble")
    there = [place for seed in seeds if (place := folder / str(seed)).is_dir()]
    if (together and is_scored(together, **how)) or not len(seeds) == len(there) > 1:
        return
    say(f"all {len(there)} together")
    result["ensemble"] = {"models": len(there), **both_ways(there, **how)}
    write_result(output, result)


def show(found: dict[str, Any], seeds: int) -> None:
    """Print what `spreads` says of so many seeds."""
    for what, scores in {"": found, " with neighbours": found.get("looked_up", {})}.items():
        for key in [key for key in KEYS if key in scores]:
            one = scores[key]
            deviation = "" if one["deviation"] is None else f" ± {one['deviation']:.4g}"
            print(f"{key} of {seeds} seeds{what}: {one['mean']:.4g}{deviation}")


if __name__ == "__main__":
    main()
