"""Train what notebooks 08 and 09 show as recorded: nmtcourse/teaching/recorded/training.json.

    python benchmarks/course_runs.py        about ten minutes of one core, in single precision

Five questions, each over at least three seeds: overfitting with and without what holds it down,
quality against updates for three sizes of the data, what a seed is worth, four learning rates,
and what label smoothing is worth where data is scarce and where it is not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shared import parser, say

# isort: split
import torch

from nmtcourse.provenance import command_line, describe_machine
from nmtcourse.teaching import load_toy
from nmtcourse.teaching.learning import RECORDED, Recipe, learn, to_json
from nmtlib import load_corpus
from nmtlib.files import write_atomically

SEEDS = (1, 2, 3)
HELD_DOWN = {  # what the 200 pairs are learned by heart with
    "nothing": {"smoothing": 0.0, "dropout": 0.0},
    "dropout": {"smoothing": 0.0},
    "dropout and smoothing": {},
}


def recipes() -> Iterator[Recipe]:
    """Every training of the notebook, each once."""
    for options in HELD_DOWN.values():
        for seed in SEEDS:
            yield Recipe(pairs=200, updates=500, every=25, seed=seed, **options)
    for pairs in (1_000, 5_000, 20_000):
        for seed in SEEDS if pairs < 20_000 else (1, 2, 3, 4, 5):
            yield Recipe(pairs=pairs, updates=900, every=75, seed=seed)
    for rate in (1e-3, 4e-3, 1.6e-2, 6.4e-2):
        for seed in SEEDS:
            yield Recipe(updates=400, every=100, seed=seed, rate=rate)
    for pairs in (600, 2_000):  # what label smoothing is worth, for notebook 08
        for smoothing in (0.0, 0.1):
            for seed in SEEDS:
                yield Recipe(pairs, updates=900, every=150, seed=seed, smoothing=smoothing)


def main() -> None:
    """Train them one after the other and write the file."""
    options = parser(__doc__)
    options.add_argument("--output", type=Path, default=RECORDED, help="JSON file")
    path = options.parse_args().output
    torch.set_num_threads(1)
    translator, corpus, trainings = load_toy("de-en"), load_corpus("toy-de-en"), []
    for recipe in recipes():
        started = time.process_time()
        training = learn(recipe, translator, corpus, keep=recipe.pairs == 200)
        trainings.append(to_json(training))
        seconds = time.process_time() - started
        say(f"{asdict(recipe)}: BLEU {training.points[-1].bleu:.1f}, {seconds:.0f} s")
    write_atomically(path, as_text(trainings))


def as_text(trainings: list[dict[str, Any]]) -> str:
    """The file: command, machine and versions, and a training a line."""
    made = {"command": command_line(), "machine": describe_machine()}
    head = json.dumps(made, indent=2).removesuffix("\n}")
    lines = ",\n".join(f"    {json.dumps(training)}" for training in trainings)
    return f'{head},\n  "trainings": [\n{lines}\n  ]\n}}\n'


if __name__ == "__main__":
    main()
