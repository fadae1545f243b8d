"""English-German with captions, and what the last epochs should read: results/other-way.json.

    python benchmarks/other_way.py [--seeds 1 2 3] [--out RUNS]

The German-English model that ships translates the German captions.  With each seed the small model
of its preset learns the other way from the pairs and the captions (nine epochs), and then from the
pairs alone (four more).  Both are scored on validation and test, and all seeds together.  The
captions are another German: people wrote them who saw the picture, while those of the pairs were
translated from English.  What is finished is not made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seeds import run, scored, spread
from shared import RESULTS, parser, say, write_result

# isort: split
from nmtlib import cli
from nmtlib.presets import load_settings
from nmtlib.settings import Settings
from nmtlib.training.hardware import command_line, describe_machine

MODEL, PRESET = "multi30k-de-en", "multi30k-de-en-small"
LAST = {"epochs": 4, "learning_rate": 5e-4, "warmup": 100, "dropout": 0.2}
KEYS = ("validation_bleu", "bleu", "bleu_moses")


def stages(out: Path, seed: int) -> dict[str, tuple[Settings, Path]]:
    """The settings and the folder of each training with one seed, in their order."""
    base = load_settings(PRESET).with_value("corpus.name", "multi30k-en-de")
    base = base.with_value("training.seed", seed)
    captions, pairs = out / "en-de" / str(seed), out / "en-de-tuned" / str(seed)
    mixed = base.with_assignments([f'recipe.synthetic=["{text_of(out).as_posix()}"]'])
    last = base.with_value("training.init_from", str(captions))
    for key, value in LAST.items():
        last = last.with_value(key, value)
    return {"captions": (mixed, captions), "then pairs alone": (last, pairs)}


def text_of(out: Path) -> Path:
    """Where the captions and their translations lie."""
    return out / "captions" / "backward-en-de.tsv"


def main(arguments: Sequence[str] | None = None) -> None:
    """Make what is missing, and score it."""
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options.add_argument("--out", type=Path, default=Path("runs"), metavar="RUNS")
    options.add_argument("--output", type=Path, default=RESULTS / "other-way.json")
    given = options.parse_args(arguments)
    text = ["--text", "multi30k-captions", "--out", str(text_of(given.out)), "--precision", "bf16"]
    if failed := cli.main(["backtranslate", MODEL, *text]):
        raise SystemExit(failed)
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in given.seeds:
        for stage, (settings, folder) in stages(given.out, seed).items():
            say(f"seed {seed}, {stage}")
            one = run(settings, folder, moses=True)
            one["validation_bleu"] = scored([folder], split="validation")["bleu"]
            found.setdefault(stage, []).append(one)
    models = [stages(given.out, seed)["then pairs alone"][1] for seed in given.seeds]
    result = {
        "command": f"python benchmarks/{command_line()}",
        "preset": PRESET,
        "corpus": "multi30k-en-de",
        "stages": {
            stage: {**{key: spread(runs, key) for key in KEYS}, "runs": runs}
            for stage, runs in found.items()
        },
        "ensemble": {"models": len(models), **scored(models, moses=True)},
        "machine": describe_machine(),
    }
    write_result(given.output, result)


if __name__ == "__main__":
    main()
