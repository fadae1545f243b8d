"""What does each switch bring?  Train one small configuration, with one thing changed at a time.

    python benchmarks/ablation.py --epochs 12 [--seeds 1 2 3] [--preset NAME] [--set KEY=VALUE …]
    python benchmarks/ablation.py --minutes 5     # equal minutes; the schedule still runs over
                                                  # training.epochs

Scored on the *validation* split alone, so that no choice is made on the test split.  Writes
results/ablation.json after each training; the same command skips those that are there and goes on
with one that was stopped.
"""

from __future__ import annotations

import argparse
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
from time_to_bleu import score_validation

from nmtlib.data.corpus import Corpus
from nmtlib.experiment import training_summary
from nmtlib.inference.translator import Translator
from nmtlib.presets import load_settings
from nmtlib.recipe import load_corpus
from nmtlib.run import Run
from nmtlib.settings import Settings
from nmtlib.training.checkpoint import average_checkpoints, load_weights, read_checkpoint
from nmtlib.training.hardware import choose_device, command_line, describe_machine

SMALL = (
    "d_model=128",
    "n_heads=4",
    "n_encoder_layers=2",
    "n_decoder_layers=2",
    "d_ff=512",
    "training.max_tokens=2048",
    "learning_rate=2e-3",
    "warmup=300",
    "dropout=0.2",
    "attention_dropout=0.0",
    "average=3",
    "embedding_init=xavier",
)
SWITCHES = {  # name -> what is set
    "baseline": (),
    "no label smoothing": ("label_smoothing=0",),
    "pre-norm": ("norm=pre",),
    "post-norm": ("norm=post",),
    "normal embedding init": ("embedding_init=normal",),
    "no weight tying": ("tied=none",),
    "target embeddings tied": ("tied=target",),
    "all embeddings tied": ("tied=all",),
    "R-Drop, alpha 1": ("recipe.name=course", "recipe.r_drop=1"),
    "Muon": ("recipe.name=course", "recipe.optimizer=muon"),
}
# beam, exponent of the length penalty
SEARCHES = [(1, 1.0), *((5, penalty) for penalty in (0.0, 0.6, 1.0, 1.5))]


def variants(base: Settings) -> dict[str, Settings]:
    """The baseline, and every switch that can be set in it and changes something."""
    possible = {}
    for name, assignments in SWITCHES.items():
        settings = base.with_assignments(assignments)
        if settings.model.tied == "all" and not settings.tokenizer.joint:
            continue
        if settings not in possible.values():
            possible[name] = settings
    return possible


def score_searches(translator: Translator, corpus: Corpus) -> tuple[list[dict[str, Any]], str]:
    """BLEU of the same weights by several searches, and its signature."""
    found = []
    for beam, penalty in SEARCHES:
        scores = score_validation(translator, corpus, beam=beam, length_penalty=penalty)
        found.append({"beam": beam, "length_penalty": penalty, "bleu": round(scores.bleu, 2)})
    return found, scores.signature


def score_weights(folder: Path, translator: Translator, corpus: Corpus) -> dict[str, float]:
    """Greedy BLEU of the best epoch and of the average of the last: two choices, one training."""
    epochs = sorted(folder.glob("epoch-*.safetensors"))
    choices = {
        "best epoch": read_checkpoint(Run(folder).best_file)[1],
        "average of the last epochs": average_checkpoints(epochs),
    }
    found = {}
    for name, tensors in choices.items():
        load_weights(translator.model, tensors)
        found[name] = round(score_validation(translator, corpus, beam=1).bleu, 2)
    return found


def run(
    name: str, settings: Settings, corpus: Corpus, folder: Path, minutes: float | None
) -> dict[str, Any]:
    """Train one variant, or go on with it, and score it; returns its entry in the results."""
    train_or_go_on(folder, settings, minutes)
    translator = Translator.load(folder)
    searches, signature = score_searches(translator, corpus)
    return {
        "name": name,
        "seed": settings.training.seed,
        "parameters": sum(translator.model.parameter_table().values()),
        "training": training_summary(folder),
        "signature": signature,
        "searches": searches,
        "weights": score_weights(folder, translator, corpus),
    }


def summarize(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each variant and search: mean and deviation of BLEU over the seeds, and gain.

    Other searches and the choice of the weights are rows of the baseline alone.  The gain is
    against the baseline of the same seeds with the same search, None where that is not there.
    """
    scores: dict[tuple[str, str], dict[int, float]] = {}  # (name, search) -> seed -> BLEU
    minutes: dict[str, list[float]] = {}
    for found in runs:
        minutes.setdefault(found["name"], []).append(found["training"]["minutes"])
        for row, bleu in rows_of(found).items():
            scores.setdefault(row, {})[found["seed"]] = bleu
    rows = []
    for (name, search), found in scores.items():
        base = scores.get(("baseline", search), {})
        gains = [bleu - base[seed] for seed, bleu in found.items() if seed in base]
        rows.append(
            {
                "name": name,
                "search": search,
                "seeds": len(found),
                "bleu": round(statistics.mean(found.values()), 2),
                "deviation": round(statistics.stdev(found.values()), 2) if len(found) > 1 else None,
                "gain": round(statistics.mean(gains), 2) if gains and name != "baseline" else None,
                "minutes": round(statistics.mean(minutes[name.partition(":")[0]]), 2),
            }
        )
    return rows


def rows_of(found: dict[str, Any]) -> dict[tuple[str, str], float]:
    """What one training is shown with: (name, search) -> BLEU."""
    name, is_base = found["name"], found["name"] == "baseline"
    rows = {
        (name, describe_search(**search)): search["bleu"]
        for search in found["searches"]
        if is_base or search["beam"] == 1 or search["length_penalty"] == 1
    }
    if is_base:
        rows |= {(f"{name}: {kept}", "greedy"): bleu for kept, bleu in found["weights"].items()}
    return rows


def describe_search(beam: int, length_penalty: float, bleu: float = 0.0) -> str:
    """A search in words."""
    return "greedy" if beam == 1 else f"beam {beam}, length penalty {length_penalty:g}"


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The summary for people; the gain is against the baseline with the same search."""
    head = ("variant", "search", "BLEU", "sd", "gain", "seeds", "minutes")
    lines = ["{:<44}{:<28}{:>7}{:>7}{:>7}{:>7}{:>9}".format(*head)]
    for row in rows:
        deviation = "" if row["deviation"] is None else f"{row['deviation']:.2f}"
        gain = "" if row["gain"] is None else f"{row['gain']:+.2f}"
        lines.append(
            f"{row['name']:<44}{row['search']:<28}{row['bleu']:>7.2f}{deviation:>7}{gain:>7}"
            f"{row['seeds']:>7}{row['minutes']:>9.1f}"
        )
    return "\n".join(lines)


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = training_parser(f"{__doc__}\nThe baseline is the preset with {' '.join(SMALL)}.")
    parser.add_argument("--preset", default="cmn-en-zh", help="name, or path of a .toml file")
    equal = parser.add_mutually_exclusive_group(required=True)
    equal.add_argument("--epochs", type=int, help="train every variant for so many epochs")
    equal.add_argument("--minutes", type=float, help="stop every variant after so many minutes")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    names = list(SWITCHES)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    parser.set_defaults(out=Path("runs/ablation"), output=RESULTS / "ablation.json")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing; raises ValueError where the JSON is of another baseline."""
    options = read_options(arguments)
    plain = replace(load_settings(options.preset), recipe={})
    base = plain.with_assignments([*SMALL, *options.assignments])
    if options.epochs:
        base = base.with_value("training.epochs", options.epochs, where="--epochs")
    corpus = load_corpus(base.corpus)
    setting = {"baseline": json.loads(base.to_json()), "minutes": options.minutes}
    runs = earlier_runs(options.output, setting)
    done = {(earlier["name"], earlier["seed"]) for earlier in runs}
    for seed in options.seeds:
        for name, settings in variants(base.with_value("training.seed", seed)).items():
            if name not in options.only or (name, seed) in done:
                continue
            say(f"{name}, seed {seed}")
            folder = options.out / f"{name.lower().replace(',', '').replace(' ', '-')}-seed{seed}"
            runs.append(run(name, settings, corpus, folder, options.minutes))
            result = {
                "command": f"python benchmarks/{command_line()}",
                "corpus": corpus.name,
                "split": "validation",
                "signature": runs[-1]["signature"],
                "summary": summarize(runs),
                **setting,
                "runs": runs,
                "machine": describe_machine(choose_device(base.training.device)),
            }
            write_result(options.output, result)
    print(table(summarize(runs)))


if __name__ == "__main__":
    main()
