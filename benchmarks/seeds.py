"""How much of a score is chance?  Train a preset with several seeds; score each on the test split.

    python benchmarks/seeds.py toy-de-en [--seeds 1 2 3] [--set KEY=VALUE …]

Writes results/seeds-NAME.json after each training; the same command skips the seeds that are there
and goes on with a training that was stopped.  Nothing is chosen among the seeds: all of them are
reported.
"""

from __future__ import annotations

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
from nmtlib.experiment import load_corpus
from nmtlib.inference.evaluate import evaluate
from nmtlib.inference.translator import Translator
from nmtlib.machine import command_line, describe_machine
from nmtlib.presets import load_settings
from nmtlib.records import training_summary
from nmtlib.settings import Settings
from nmtlib.training.hardware import choose_device


def run(settings: Settings, folder: Path) -> dict[str, Any]:
    """Train with one seed, or go on with it, and score the test split as `nmtlib evaluate` does."""
    train_or_go_on(folder, settings)
    evaluation, _ = evaluate(Translator.load(folder), load_corpus(settings.corpus), "test")
    scores = evaluation.scores
    return {
        "seed": settings.training.seed,
        "bleu": round(scores.bleu, 2),
        "bleu_nltk": round(scores.bleu_nltk, 4),
        "beam": evaluation.beam,
        "signature": scores.signature,
        "training": training_summary(folder),
    }


def spread(runs: Sequence[dict[str, Any]], key: str) -> dict[str, float | None]:
    """Mean and standard deviation (of a sample; None for one run) of a score over the seeds."""
    values = [found[key] for found in runs]
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.mean(values), "deviation": deviation}


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing; raises ValueError where the JSON holds results of other settings."""
    parser = training_parser(__doc__)
    parser.add_argument("preset", help="name of a preset or path of a .toml file")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options = parser.parse_args(arguments)
    name = f"seeds-{Path(options.preset).stem}"
    folder, output = options.out or Path("runs") / name, options.output or RESULTS / f"{name}.json"
    base = load_settings(options.preset).with_assignments(options.assignments)
    setting = {"settings": json.loads(base.with_value("training.seed", 0).to_json())}
    runs = earlier_runs(output, setting)
    for seed in options.seeds:
        if seed in [earlier["seed"] for earlier in runs]:
            continue
        say(f"seed {seed}")
        runs.append(run(base.with_value("training.seed", seed), folder / str(seed)))
        result = {
            "command": f"python benchmarks/{command_line()}",
            "preset": options.preset,
            "split": "test",
            "bleu": spread(runs, "bleu"),
            "bleu_nltk": spread(runs, "bleu_nltk"),
            "runs": runs,
            "machine": describe_machine(choose_device(base.training.device)),
            **setting,
        }
        write_result(output, result)
    for key in ("bleu", "bleu_nltk"):
        one = spread(runs, key)
        deviation = "" if one["deviation"] is None else f" ± {one['deviation']:.4g}"
        print(f"{key} of {len(runs)} seeds: {one['mean']:.4g}{deviation}")


if __name__ == "__main__":
    main()
