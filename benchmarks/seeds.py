"""How much of a score is chance?  Train a preset with several seeds and score each on the test
split.

    python benchmarks/seeds.py toy-de-en [--seeds 1 2 3] [--set KEY=VALUE …]

Writes results/seeds-NAME.json after each training; the same command skips the seeds that are there
and goes on with a training that was stopped.  Nothing is chosen among the seeds: all of them are
reported.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nmtlib  # noqa: F401  (before torch: it chooses how threads wait)

# isort: split
from nmtlib.experiment import load_corpus, train
from nmtlib.files import write_atomically
from nmtlib.inference.evaluate import evaluate
from nmtlib.inference.translator import Translator
from nmtlib.machine import command_line, describe_machine
from nmtlib.presets import load_settings
from nmtlib.records import training_summary
from nmtlib.run import Run
from nmtlib.settings import Settings
from nmtlib.training.hardware import choose_device

RESULTS = Path(__file__).parent / "results"


def run(settings: Settings, folder: Path) -> dict[str, Any]:
    """Train with one seed, or go on with it, and score the test split as `nmtlib evaluate` does."""
    there = (folder / "settings.json").is_file()
    if there and Run(folder).settings() != settings:
        raise ValueError(f"{folder} was trained with other settings; choose another --out")
    train(folder, None if there else settings, report=lambda line: print(f"  {line}", flush=True))
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
    return {
        "mean": statistics.mean(values),
        "deviation": statistics.stdev(values) if len(values) > 1 else None,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing; raises ValueError where the JSON holds the results of other settings."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("preset", help="name of a preset or path of a .toml file")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments"
    )
    parser.add_argument(
        "--out", type=Path, help="where the run folders go (default: runs/seeds-NAME)"
    )
    parser.add_argument(
        "--output", type=Path, help="JSON file (default: benchmarks/results/seeds-NAME.json)"
    )
    options = parser.parse_args(arguments)
    name = f"seeds-{Path(options.preset).stem}"
    folder, output = options.out or Path("runs") / name, options.output or RESULTS / f"{name}.json"
    base = load_settings(options.preset).with_assignments(options.assignments)
    of_any_seed = json.loads(base.with_value("training.seed", 0).to_json())
    found = (
        json.loads(output.read_text("utf-8"))
        if output.is_file()
        else {"settings": of_any_seed, "runs": []}
    )
    if found["settings"] != of_any_seed:
        raise ValueError(f"{output} holds the results of other settings; choose another --output")
    runs = found["runs"]
    for seed in options.seeds:
        if seed in [earlier["seed"] for earlier in runs]:
            continue
        print(f"seed {seed}", flush=True)
        runs.append(run(base.with_value("training.seed", seed), folder / str(seed)))
        result = {
            "command": f"python benchmarks/{command_line()}",
            "preset": options.preset,
            "split": "test",
            "bleu": spread(runs, "bleu"),
            "bleu_nltk": spread(runs, "bleu_nltk"),
            "runs": runs,
            "machine": describe_machine(choose_device(base.training.device)),
            "settings": of_any_seed,
        }
        output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(output, (json.dumps(result, indent=2, ensure_ascii=False) + "\n").encode())
    for key in ("bleu", "bleu_nltk"):
        one = spread(runs, key)
        deviation = "" if one["deviation"] is None else f" ± {one['deviation']:.4g}"
        print(f"{key} of {len(runs)} seeds: {one['mean']:.4g}{deviation}")


if __name__ == "__main__":
    main()
