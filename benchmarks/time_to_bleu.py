"""How good are the translations after so many seconds of training?  Score a preset every epoch.

    python benchmarks/time_to_bleu.py --preset multi30k-de-en --minutes 45 [--set KEY=VALUE …]
                                      [--average] [--beam]

Greedy translations of the *validation* split are scored with sacreBLEU as `nmtlib evaluate` would;
with --beam also those of the search that the preset decodes with.  The seconds are those of
training; validating and saving, and scoring, stand beside them.  The JSON is written after every
epoch, and the same command goes on where a killed one stopped.  `--out` is then a run as any other.
In several processes: torchrun --nproc-per-node=2 in place of python.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared import (  # before torch, as it imports nmtlib first
    RESULTS,
    require_same_settings,
    train_or_go_on,
    training_parser,
    write_result,
)

# isort: split
import torch

from nmtcourse.corpora import load_corpus
from nmtcourse.provenance import command_line, describe_machine
from nmtlib.data.corpus import Corpus
from nmtlib.inference.evaluate import Scores, bleu_tokenizer, score
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer
from nmtlib.presets import load_settings
from nmtlib.run import Run
from nmtlib.settings import Settings
from nmtlib.training.checkpoint import (
    average_checkpoints,
    describe_file,
    load_model,
    load_weights,
)
from nmtlib.training.hardware import choose_device
from nmtlib.training.history import EpochRecord, read_history
from nmtlib.training.trainer import Trainer

MARKS = [30.0, 35.0, 36.52, 38.0, 40.0]


def first_reached(points: Sequence[dict[str, Any]], marks: Sequence[float]) -> dict[str, Any]:
    """The seconds of the first point that scores at least each mark, None where none does."""
    return {
        f"{mark:g}": next((p["seconds"] for p in points if p["bleu"] >= mark), None)
        for mark in marks
    }


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
        self.run, self.paths = Run(folder), (folder / "time-to-bleu.json", output)
        self.settings, self.corpus = settings, load_corpus(settings.corpus)
        self.device = choose_device(settings.training.device)
        self.preset, self.average, self.beam = options.preset, options.average, options.beam
        self.marks = options.marks
        self.points: list[dict[str, Any]] = []
        self.signature, self.parameters = "", 0
        # The clock and the seconds of training at the last point.
        self.looked: tuple[float, float] | None = None
        if self.paths[0].is_file():
            found = json.loads(self.paths[0].read_text("utf-8"))
            self.points, self.signature = found["points"], found["signature"]
            self.parameters = found["parameters"]

    def bleu(self, model: Transformer, **search: Any) -> float:
        """sacreBLEU of a model on the validation split, with the preset's search where not told."""
        about = describe_file(self.run.state_file)
        translator = Translator(model, about.source, about.target, self.settings)
        scores = score_validation(translator, self.corpus, **search)
        self.signature, self.parameters = scores.signature, sum(model.parameter_table().values())
        return round(scores.bleu, 2)

    def catch_up(self) -> None:
        """Score what an earlier command only trained, or only greedily, where the weights are."""
        points = {point["epoch"]: point for point in self.points}
        history = self.run.history_file
        for record in read_history(history) if history.is_file() else []:
            path, point = self.run.epoch_file(record.epoch), points.get(record.epoch)
            if not path.is_file():
                continue
            if point is None:
                self.measure(record, load_model(path).to(self.device), [], math.nan)
            elif self.beam and "bleu_beam" not in point:
                point["bleu_beam"] = self.bleu(load_model(path).to(self.device))
                self.write()

    def add(self, trainer: Trainer) -> None:
        """Score what an epoch ended with, and the average of the last epochs if asked for."""
        clock, trained = self.looked or (math.nan, 0.0)
        validation = time.monotonic() - clock - (trainer.progress.seconds - trained)
        last = trainer.epoch_files() if self.average else []
        self.measure(trainer.progress.history[-1], trainer.model, last, validation)
        self.looked = time.monotonic(), trainer.progress.seconds

    def measure(
        self, record: EpochRecord, model: Transformer, last: Sequence[Path], validation: float
    ) -> None:
        """Add the point of one epoch, after so many seconds of validation, and write the file."""
        started = time.monotonic()
        point = {
            "epoch": record.epoch,
            "updates": record.updates,
            "seconds": round(record.seconds, 2),
            "validation_perplexity": round(record.validation_perplexity, 4),
            "bleu": self.bleu(model, beam=1),
        }
        if self.beam:
            point["bleu_beam"] = self.bleu(model)
        if last:
            averaged = Transformer(model.config).to(self.device)
            load_weights(averaged, average_checkpoints(list(last)))
            point |= {"averaged_epochs": len(last), "bleu_average": self.bleu(averaged, beam=1)}
        # Of the first epoch after a start only the sum is known, with reading the corpus in it.
        point["validation_seconds"] = None if math.isnan(validation) else round(validation, 2)
        point["scoring_seconds"] = round(time.monotonic() - started, 2)
        # A resumed epoch may be lived again.
        earlier = [p for p in self.points if p["epoch"] != record.epoch]
        self.points = sorted([*earlier, point], key=lambda p: p["epoch"])
        self.write()
        average = f", average of {len(last)} epochs {point['bleu_average']:.2f}" if last else ""
        print(
            f"  BLEU {point['bleu']:.2f}{average} after {point['seconds']:.0f} s of training "
            f"(scored in {point['scoring_seconds']:.0f} s)",
            flush=True,
        )

    def write(self) -> None:
        """Write the JSON to its place, and into the run folder for a killed command to go on."""
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        program = "python" if processes == 1 else f"torchrun --nproc-per-node={processes}"
        result = {
            "command": f"{program} benchmarks/{command_line()}",
            "preset": self.preset,
            "corpus": self.corpus.name,
            "split": "validation",
            "search": "greedy",
            "signature": self.signature,
            "parameters": self.parameters,
            "seed": self.settings.training.seed,
            "threads": torch.get_num_threads(),  # of each process
            "processes": processes,
            "preloaded": Path(os.environ.get("LD_PRELOAD", "")).name,
            "seconds_are": "training only; validation_seconds (with saving) and scoring_seconds "
            "come on top",
            "marks": first_reached(self.points, self.marks),
            "points": self.points,
            "machine": describe_machine(self.device),
            "settings": json.loads(self.settings.to_json()),
        }
        for path in self.paths:
            write_result(path, result)


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line, with the places that it leaves open filled in."""
    parser = training_parser(__doc__)
    add = parser.add_argument
    add("--preset", default="multi30k-de-en", help="name of a preset or path of a .toml file")
    add("--minutes", type=float, help="stop after so many minutes of training and validation")
    add("--seed", type=int)
    add("--device", help="auto, cpu, cuda, … (default: the preset's)")
    add("--threads", type=int, help="CPU threads of torch")
    add("--average", action="store_true", help="also score the average of the last epochs")
    add("--beam", action="store_true", help="also score each epoch with the preset's own search")
    add("--marks", type=float, nargs="+", default=MARKS, help="the scores to wait for")
    options = parser.parse_args(arguments)
    device = f"-{options.device}" if options.device else ""
    name = f"time-to-bleu-{Path(options.preset).stem}{device}"
    options.out = options.out or Path("runs") / name
    options.output = options.output or RESULTS / f"{name}.json"
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, or go on; raises ValueError where the run folder was made with other settings."""
    options = read_options(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    chosen = {"seed": options.seed, "device": options.device}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    settings = load_settings(options.preset).with_assignments(options.assignments)
    settings = settings.changed({"training": chosen})
    require_same_settings(options.out, settings)  # before anything there is scored
    board = Board(options.out, options.output, settings, options)
    speaks = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun started
    if speaks:
        board.catch_up()
    if not train_or_go_on(options.out, settings, options.minutes, after_epoch=board.add):
        print(f"{options.out} was trained before, or has had its minutes")
    if speaks:
        reached = first_reached(board.points, board.marks)
        print(f"seconds of training to reach a BLEU of {reached}; {options.output}")


if __name__ == "__main__":
    main()
