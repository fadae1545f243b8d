"""Train what notebooks 08 and 09 show as recorded: nmtcourse/teaching/recorded/training.json.

    python benchmarks/course_runs.py        about ten minutes of one core, in single precision

Seven questions, each over at least three seeds: overfitting with and without what holds it down,
quality against updates for three sizes of the data, what a seed is worth, four learning rates,
what label smoothing is worth where data is scarce and where it is not, and how high a rate
post-norm bears with and without a warm-up.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shared import parser, say

# isort: split
import torch

from nmtcourse.provenance import command_line, describe_machine
from nmtcourse.teaching import load_toy
from nmtcourse.teaching.learning import RECORDED, Recipe, encoded, learn, small_model, to_json
from nmtlib import load_corpus
from nmtlib.data.batching import Example, collate
from nmtlib.files import write_atomically
from nmtlib.training import inverse_sqrt_rate, label_smoothed_loss
from nmtlib.training.trainer import ADAM

SEEDS = (1, 2, 3)
HELD_DOWN = {  # what the 200 pairs are learned by heart with
    "nothing": {"smoothing": 0.0, "dropout": 0.0},
    "dropout": {"smoothing": 0.0},
    "dropout and smoothing": {},
}
PEAKS = (0.001, 0.002, 0.004, 0.008, 0.016)
SCHEDULES: dict[str, Callable[[int, float], float]] = {  # the rate of an update, by its peak
    "constant rate": lambda n, peak: peak,
    "Noam, with this peak": lambda n, peak: inverse_sqrt_rate(n, peak, 40),
}
DEEP = {"norm": "post", "n_encoder_layers": 3, "n_decoder_layers": 3, "d_ff": 128}


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


def end(model: torch.nn.Module, examples: Sequence[Example], rate: Any, seed: int) -> float:
    """The mean loss of the last 10 of 100 updates: `train` of notebook 08, in batches of 32."""
    adam = torch.optim.Adam(model.parameters(), fused=True, **ADAM)
    random, order, found = torch.Generator().manual_seed(seed), [], []
    for n in range(1, 101):
        order = order or torch.randperm(len(examples), generator=random).tolist()
        batch, order = collate([examples[i] for i in order[:32]]), order[32:]
        loss = label_smoothed_loss(
            model(batch.source, batch.decoder_input), batch.labels, label_smoothing=0.0
        )
        loss.backward()
        adam.param_groups[0]["lr"] = rate(n)
        adam.step()
        adam.zero_grad()
        found.append(loss.item())
    return sum(found[-10:]) / 10


def ends(seed: int) -> dict[str, dict[str, float]]:
    """Where a post-norm model ends with each schedule at each peak."""
    translator, found = load_toy("de-en"), {}
    examples = encoded(translator, load_corpus("toy-de-en").train[:2000])
    for name, schedule in SCHEDULES.items():
        found[name] = {}
        for peak in PEAKS:
            model = small_model(translator, seed=seed, dropout=0.0, **DEEP)
            loss = end(model, examples, lambda n, p=peak, at=schedule: at(n, p), seed)
            found[name][str(peak)] = round(loss, 4)
    return found


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
    seeds = [ends(seed) for seed in (0, 1, 2)]
    write_atomically(path, as_text(trainings, by_schedule(seeds)))


def by_schedule(seeds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What `ends` found, by schedule and then by seed."""
    return {name: [found[name] for found in seeds] for name in SCHEDULES}


def as_text(trainings: list[dict[str, Any]], ends: dict[str, Any]) -> str:
    """The file: command, machine and versions, where deep models ended, and a training a line."""
    made = {"command": command_line(), "machine": describe_machine(), "ends": ends}
    head = json.dumps(made, indent=2).removesuffix("\n}")
    lines = ",\n".join(f"    {json.dumps(training)}" for training in trainings)
    return f'{head},\n  "trainings": [\n{lines}\n  ]\n}}\n'


if __name__ == "__main__":
    main()
