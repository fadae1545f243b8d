"""Records on one GPU: how good each corpus becomes with all that the course knows, and how fast.

    python benchmarks/gpu_records.py [--records NAME ...] [--seeds 1 2 3] [--out RUNS]
    python benchmarks/gpu_records.py --quick     # the same steps with a tiny model, on any device

Each record is a list of nmtlib commands; the last run is scored on the test split.  The file is
written after each seed.  A finished run is not made again; one that was stopped goes on.
"""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shared import RESULTS, parser, say, write_result

# isort: split
from nmtcourse import main as cli
from nmtcourse.provenance import describe_machine
from nmtlib.inference.evaluate import evaluate
from nmtlib.inference.translator import Translator
from nmtlib.run import Run
from nmtlib.training.history import read_history

Command = list[str]
PRESET = "multi30k-de-en-gpu"
PLAIN = {"recipe.r_drop": 0.0, "model.dropout": 0.2, "training.epochs": 12}
OTHER_WAY = {"corpus.name": "multi30k-en-de"}
TAUGHT = {"recipe.teacher_weight": 0.8, "recipe.r_drop": 0.0, "model.dropout": 0.1}
RECIPE = {"recipe.name": "course", "recipe.recorded": True, "recipe.r_drop": 5.0}
QUICK = {"d_model": 32, "d_ff": 64, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}


class Steps:
    """The commands of one record and seed, in a folder of their own."""

    def __init__(self, folder: Path, seed: int, quick: bool):
        self.folder, self.seed, self.quick = folder, seed, quick
        self.runs: list[Path] = []

    def train(self, name: str, preset: str = PRESET, seed: int = 0, **changes: Any) -> Command:
        """Train `preset` with changed settings, or go on with the run."""
        folder = self.folder / name
        self.runs.append(folder)
        if Run(folder).state_file.is_file():
            return ["train", "--resume", "--out", str(folder)]
        values = {**changes, "training.seed": seed or self.seed}
        if self.quick:  # the same recipe on a corpus that is always there
            recipe = {key: value for key, value in values.items() if "recipe." in key}
            recipe.pop("recipe.synthetic", None)
            sizes = {f"model.{key}": value for key, value in QUICK.items()}
            preset, values = "toy-de-en", {**RECIPE, **recipe, **sizes, "training.epochs": 1}
        sets = [f"--set={key}={toml(value)}" for key, value in values.items()]
        return ["train", preset, *sets, "--out", str(folder)]

    def plain(self) -> Iterator[Command]:
        """The preset as it is."""
        yield self.train("plain")

    def other_way(self) -> Iterator[Command]:
        """English to German."""
        yield self.train("plain", **OTHER_WAY)

    def taught(self) -> Iterator[Command]:
        """Three models of other seeds teach one."""
        for number in (1, 2, 3):
            yield self.train(f"teacher-{number}", seed=10 * self.seed + number)
        yield self.train("taught", **{"recipe.teachers": [*map(str, self.runs)], **TAUGHT})

    def captions(self) -> Iterator[Command]:
        """The monolingual captions, translated by two models, are read beside the real pairs."""
        files = [self.folder / "backward.tsv", self.folder / "forward.tsv"]
        translate = ["--text", "multi30k-captions", "--out"]
        yield self.train("other-way", **OTHER_WAY)
        yield ["backtranslate", str(self.runs[-1]), *translate, str(files[0])]
        more = {"recipe.synthetic_ratio": 3.0, **PLAIN}
        yield self.train("teacher", **{"recipe.synthetic": [str(files[0])], **more})
        yield ["backtranslate", str(self.runs[-1]), "--forward", *translate, str(files[1])]
        yield self.train("student", **{"recipe.synthetic": [*map(str, files)], **more})

    def chinese(self) -> Iterator[Command]:
        """cmn-eng-simple with R-Drop."""
        yield self.train("plain", "cmn-en-zh", **{**RECIPE, "training.device": "cuda"})


RECORDS = {
    "multi30k-de-en": Steps.plain,
    "multi30k-en-de": Steps.other_way,
    "multi30k-de-en, taught": Steps.taught,
    "multi30k-de-en, captions": Steps.captions,
    "cmn-en-zh": Steps.chinese,
}


def toml(value: Any) -> str:
    """A value as a TOML file has it."""
    return value if isinstance(value, str) and value.isidentifier() else json.dumps(value)


def make(name: str, seed: int, options: Namespace) -> dict[str, Any]:
    """Run the commands of a record with one seed, and score its last run."""
    folder = options.out / name.replace(", ", "-") / str(seed)
    steps, started = Steps(folder, seed, options.quick), time.monotonic()
    commands = []
    for command in RECORDS[name](steps):
        if command[0] == "backtranslate" and (options.quick or Path(command[-1]).is_file()):
            continue
        say(f"nmtlib {' '.join(command)}")
        if cli.main(command):
            raise SystemExit(f"failed: nmtlib {' '.join(command)}")
        commands.append(" ".join(command).replace(str(options.out), "RUNS"))
    scores = evaluate(Translator.load(steps.runs[-1]))[0].scores
    history = read_history(Run(steps.runs[-1]).history_file)
    return {
        "seed": seed,
        "commands": commands,
        "bleu": round(scores.bleu, 2),
        "bleu_nltk": round(scores.bleu_nltk, 4),
        "signature": scores.signature,
        "training_seconds_of_the_last": round(history[-1].seconds, 2),
        "seconds_of_all": round(time.monotonic() - started, 1),
    }


def main() -> int:
    made = parser(__doc__)
    made.add_argument("--records", nargs="+", choices=RECORDS, default=[*RECORDS], metavar="NAME")
    made.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    made.add_argument("--out", type=Path, default=Path("runs/gpu-records"), metavar="RUNS")
    made.add_argument("--output", type=Path, default=RESULTS / "gpu_records.json")
    made.add_argument("--quick", action="store_true", help="tiny models; no file is written")
    options = made.parse_args()
    device = "cpu" if options.quick else "cuda"
    result: dict[str, Any] = {"machine": describe_machine(device), "records": {}}
    for name in options.records:
        runs = result["records"][name] = []
        for seed in options.seeds:
            runs.append(make(name, seed, options))
            say(f"{name}: {runs[-1]}")
            if not options.quick:
                write_result(options.output, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
