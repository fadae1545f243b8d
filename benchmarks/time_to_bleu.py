"""How good are the translations after so many seconds of training?  Train a preset and score it
after every epoch.

python benchmarks/time_to_bleu.py --preset multi30k-de-en --minutes 45 [--set KEY=VALUE …]
[--average]

Greedy translations of the *validation* split are scored with sacreBLEU as `nmtlib evaluate` would.
The seconds are those of training; validating and saving, and scoring, stand beside them.  The JSON
is written after every epoch, and the same command goes on where a killed one stopped.  `--out` is
then a run as any other.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nmtlib  # noqa: F401  (before torch: it chooses how threads wait)

# isort: split
import torch

from nmtlib.data.codec import Codec
from nmtlib.data.corpus import Corpus
from nmtlib.experiment import load_corpus, train
from nmtlib.inference.evaluate import Scores, bleu_tokenizer, score
from nmtlib.inference.translator import Translator
from nmtlib.machine import command_line, describe_machine
from nmtlib.model.transformer import Transformer
from nmtlib.presets import load_settings
from nmtlib.run import Run
from nmtlib.settings import Settings
from nmtlib.training.checkpoint import (
    average_checkpoints,
    load_model,
    load_weights,
    read_checkpoint,
    write_atomically,
)
from nmtlib.training.hardware import choose_device
from nmtlib.training.history import EpochRecord, read_history
from nmtlib.training.trainer import Trainer

RESULTS = Path(__file__).parent / "results"
MARKS = [30.0, 35.0, 36.52, 38.0, 40.0]


def first_reached(
    points: Sequence[dict[str, Any]], marks: Sequence[float], key: str = "bleu"
) -> dict[str, Any]:
    """The seconds of the first point that scores at least each mark, None where none does."""
    return {
        f"{mark:g}": next(
            (p["seconds"] for p in points if p.get(key) is not None and p[key] >= mark), None
        )
        for mark in marks
    }


def seconds_trained(folder: Path) -> float:
    """Seconds of training that the last checkpoint of a run has behind it."""
    last = folder / "last.safetensors"
    return read_checkpoint(last)[2]["progress"]["seconds"] if last.is_file() else 0.0


def score_validation(translator: Translator, corpus: Corpus, **search: Any) -> Scores:
    """The scores of the validation split, tokenized and lowercased as `nmtlib evaluate` does."""
    pairs = corpus.split("validation")
    hypotheses = translator.translate([pair.source for pair in pairs], **search)
    return score(
        hypotheses,
        pairs,
        tokenize=bleu_tokenizer(translator, corpus),
        lowercase=translator.settings.tokenizer.lowercase,
    )


class Board:
    """The points of one training, and the file that holds them."""

    def __init__(self, folder: Path, output: Path, settings: Settings, options: argparse.Namespace):
        self.paths = (folder / "time-to-bleu.json", output)
        self.settings, self.corpus = settings, load_corpus(settings.corpus)
        self.device = choose_device(settings.training.device)
        self.preset, self.average, self.marks = options.preset, options.average, options.marks
        self.points: list[dict[str, Any]] = []
        self.signature, self.parameters = "", 0
        self.looked: tuple[float, float] | None = (
            None  # the clock and the seconds of training at the last point
        )
        if self.paths[0].is_file():
            found = json.loads(self.paths[0].read_text("utf-8"))
            self.points, self.signature, self.parameters = (
                found["points"],
                found["signature"],
                found["parameters"],
            )

    def bleu(self, model: Transformer) -> float:
        """Greedy sacreBLEU of a model on the validation split."""
        folder = self.paths[0].parent
        codecs = (Codec.load(folder / f"{side}.json") for side in ("source", "target"))
        scores = score_validation(Translator(model, *codecs, self.settings), self.corpus, beam=1)
        self.signature, self.parameters = scores.signature, sum(model.parameter_table().values())
        return round(scores.bleu, 2)

    def catch_up(self) -> None:
        """Score the epochs that a killed command trained and did not score, where their weights are
        still there.
        """
        folder, scored = self.paths[0].parent, {point["epoch"] for point in self.points}
        for record in (
            read_history(folder / "history.csv") if (folder / "history.csv").is_file() else []
        ):
            path = folder / f"epoch-{record.epoch:03d}.safetensors"
            if record.epoch not in scored and path.is_file():
                self.measure(record, load_model(path).to(self.device), [], math.nan)

    def add(self, trainer: Trainer) -> None:
        """Score what an epoch ended with, and the average of the last epochs where that is asked
        for.
        """
        clock, trained = self.looked or (math.nan, 0.0)
        validation = time.monotonic() - clock - (trainer.progress.seconds - trained)
        last = trainer.epoch_files() if self.average else []
        self.measure(trainer.progress.history[-1], trainer.model, last, validation)
        self.looked = time.monotonic(), trainer.progress.seconds

    def measure(
        self, record: EpochRecord, model: Transformer, last: Sequence[Path], validation: float
    ) -> None:
        """Add the point of one epoch, write the file and say what it holds; `validation` took so
        many seconds.
        """
        started = time.monotonic()
        point = {
            "epoch": record.epoch,
            "updates": record.updates,
            "seconds": round(record.seconds, 2),
            "validation_perplexity": round(record.validation_perplexity, 4),
            "bleu": self.bleu(model),
        }
        if last:
            averaged = Transformer(model.config).to(self.device)
            load_weights(averaged, average_checkpoints(list(last)))
            point |= {"averaged_epochs": len(last), "bleu_average": self.bleu(averaged)}
        # Of the first epoch after a start only the sum is known, with reading the corpus in it.
        point["validation_seconds"] = None if math.isnan(validation) else round(validation, 2)
        point["scoring_seconds"] = round(time.monotonic() - started, 2)
        earlier = [
            p for p in self.points if p["epoch"] != record.epoch
        ]  # a resumed epoch may be lived again
        self.points = sorted([*earlier, point], key=lambda p: p["epoch"])
        self.write()
        average = f", average of {len(last)} epochs {point['bleu_average']:.2f}" if last else ""
        print(
            f"  BLEU {point['bleu']:.2f}{average} after {point['seconds']:.0f} s of training "
            f"(scored in {point['scoring_seconds']:.0f} s)",
            flush=True,
        )

    def write(self) -> None:
        """Write the JSON into the run folder, from which a killed command goes on, and to its
        place.
        """
        result = {
            "command": f"python benchmarks/{command_line()}",
            "preset": self.preset,
            "corpus": self.corpus.name,
            "split": "validation",
            "search": "greedy",
            "signature": self.signature,
            "parameters": self.parameters,
            "seed": self.settings.training.seed,
            "threads": torch.get_num_threads(),
            "seconds_are": "training only; validation_seconds (with saving) and scoring_seconds come on top",
            "marks": first_reached(self.points, self.marks),
            "marks_average": first_reached(self.points, self.marks, "bleu_average"),
            "points": self.points,
            "machine": describe_machine(self.device),
            "settings": json.loads(self.settings.to_json()),
        }
        for path in self.paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(
                path, (json.dumps(result, indent=2, ensure_ascii=False) + "\n").encode()
            )


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line, with the places that it leaves open filled in."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--preset", default="multi30k-de-en", help="name of a preset or path of a .toml file"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments"
    )
    parser.add_argument(
        "--minutes", type=float, help="stop after so many minutes of training and validation"
    )
    parser.add_argument("--seed", type=int)
    parser.add_argument("--device", help="auto, cpu, cuda, … (default: the preset's)")
    parser.add_argument("--threads", type=int, help="CPU threads of torch")
    parser.add_argument(
        "--average", action="store_true", help="also score the average of the last epochs"
    )
    parser.add_argument(
        "--marks", type=float, nargs="+", default=MARKS, help="the scores to wait for"
    )
    parser.add_argument("--out", type=Path, help="run folder (default: runs/NAME)")
    parser.add_argument(
        "--output", type=Path, help="JSON file (default: benchmarks/results/NAME.json)"
    )
    options = parser.parse_args(arguments)
    name = f"time-to-bleu-{Path(options.preset).stem}" + (
        f"-{options.device}" if options.device else ""
    )
    options.out = options.out or Path("runs") / name
    options.output = options.output or RESULTS / f"{name}.json"
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, or go on; raises ValueError where the run folder was made with other settings."""
    options = read_options(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    given = {"training.seed": options.seed, "training.device": options.device}
    settings = load_settings(options.preset).with_assignments(options.assignments)
    for key, value in given.items():
        settings = settings if value is None else settings.with_value(key, value)
    there = (options.out / "settings.json").is_file()
    if there and Run(options.out).settings() != settings:
        raise ValueError(f"{options.out} was trained with other settings; choose another --out")
    board = Board(options.out, options.output, settings, options)
    board.catch_up()
    minutes = (
        None if options.minutes is None else options.minutes - seconds_trained(options.out) / 60
    )
    if minutes is not None and minutes <= 0:
        print(f"{options.out} has had its {options.minutes:g} minutes")
        return
    train(
        options.out,
        None if there else settings,
        minutes=minutes,
        after_epoch=board.add,
        report=lambda line: print(line, flush=True),
    )
    print(
        f"seconds of training to reach a BLEU of {first_reached(board.points, board.marks)}; {options.output}"
    )


if __name__ == "__main__":
    main()
