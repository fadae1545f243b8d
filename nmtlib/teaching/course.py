"""The small trained models that ship with the course, and the sentence that goes through all of it.

They are runs of the presets toy-de-en and toy-en-zh, stored in half precision: about 2 MB each, no
download.

    python -m nmtlib.teaching.course --make              train both again (two minutes) and store them
    python -m nmtlib.teaching.course --make --from runs  store the runs that lie in runs/toy-de-en and runs/toy-en-zh
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from nmtlib.data.corpora import load
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.files import write_atomically
from nmtlib.inference.evaluate import evaluate
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer
from nmtlib.records import training_summary
from nmtlib.run import Run
from nmtlib.toy import translate
from nmtlib.toy.meaning import Event, Phrase, Sentence
from nmtlib.training.checkpoint import read_checkpoint, save_checkpoint
from nmtlib.training.measure import measure_all

DIRECTIONS = ("de-en", "en-zh")
CHECKPOINTS = Path(__file__).parents[1] / "trained"
COPIED = ("settings.json", "source.json", "target.json", "history.csv")

# One meaning, three languages.  German closes with the participle, English says the time last, and
# Mandarin says it first and counts books with a measure word: no two of them have their words in
# the same order.
GERMAN = "die Frau hat gestern zwei Bücher gekauft ."
ENGLISH = "the woman bought two books yesterday ."
CHINESE = "那 个 女人 昨天 买 了 两 本 书 。"
MEANING = Sentence(
    Event(
        Phrase("woman", "the"), "buy", "past", Phrase("book", "two", plural=True), time="yesterday"
    )
)


def load_toy(direction: str = "de-en", *, device: str = "cpu") -> Translator:
    """The shipped translator from German to English ("de-en") or from English to Chinese ("en-zh").

    Raises ValueError for another direction, FileNotFoundError where the installation lacks the
    model.

    >>> load_toy().translate([GERMAN])
    ['the woman bought two books yesterday .']
    """
    return Translator.load(_folder(direction), device=device)


def untrained_toy(direction: str = "de-en") -> Translator:
    """The same translator before its first update: the weights that its training started from.

    The state of torch's random numbers is left as it was.  Raises as `load_toy` does.
    """
    with torch.random.fork_rng(devices=[]):
        trained = load_toy(direction)
        torch.manual_seed(trained.settings.training.seed)
        model = Transformer(trained.model.config)
    return Translator(model, trained.source, trained.target, trained.settings)


def running_pair(direction: str = "de-en") -> Pair:
    """The sentence of the course with its translation and the gold alignment of their words.

    Raises ValueError for an unknown direction.

    >>> pair = running_pair("de-en")
    >>> [(pair.source.split()[i], pair.target.split()[j]) for i, j in pair.alignment][2:4]
    [('hat', 'bought'), ('gestern', 'yesterday')]
    """
    _folder(direction)
    return translate(MEANING, *direction.split("-"))


def _folder(direction: str) -> Path:
    if direction not in DIRECTIONS:
        raise ValueError(
            f"unknown direction {direction!r}; the shipped models go {' and '.join(DIRECTIONS)}"
        )
    return CHECKPOINTS / f"toy-{direction}"


def store(run: Path, folder: Path) -> dict[str, Any]:
    """Store what translating needs of a run, its weights in float16, in `folder`; returns the notes
    beside them.

    The notes hold how the run was trained, and the validation loss and test BLEU before and after
    rounding. Raises FileNotFoundError where `run` is no finished run.
    """
    trained = Translator.load(run, device="cpu")
    corpus = load(trained.settings.corpus.name)
    before = _scores(trained, corpus)
    folder.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        shutil.copyfile(run / name, folder / name)
    _, _, origin = read_checkpoint(Run(run).weights_file())
    save_checkpoint(folder / "model.safetensors", trained.model.half(), **origin)
    after = _scores(Translator.load(folder, device="cpu"), corpus)
    summary = training_summary(run)
    kept = {key: summary[key] for key in ("command", "seed", "epochs", "updates", "weights")}
    notes = {**kept, "as_trained": before, "as_shipped": after}
    write_atomically(folder / "notes.json", (json.dumps(notes, indent=2) + "\n").encode())
    return notes


def _scores(translator: Translator, corpus: Corpus) -> dict[str, float]:
    """Validation loss in nats a token, and test BLEU."""
    sums = measure_all(
        translator.model, [translator.example(p.source, p.target) for p in corpus.validation]
    )
    test, _ = evaluate(translator, corpus, "test")
    return {
        "validation_nll": round(sums.nll_per_token, 5),
        "test_bleu": round(test.scores.bleu, 2),
    }


def make(runs: Path | None = None) -> None:
    """Store the runs in `runs`, or train both presets again where no folder is given."""
    with tempfile.TemporaryDirectory() as scratch:
        for direction in DIRECTIONS:
            folder = _folder(direction)
            run = (runs or Path(scratch)) / folder.name
            if runs is None:
                command = [sys.executable, "-m", "nmtlib", "train", folder.name, "--out", str(run)]
                subprocess.run(command, check=True)
            print(f"{folder.name}: {json.dumps(store(run, folder))}", flush=True)


def main() -> None:
    """The command line: --make [--from RUNS]."""
    parser = argparse.ArgumentParser(description="Store the toy models that ship with the course.")
    parser.add_argument("--make", action="store_true", required=True, help="write nmtlib/trained")
    parser.add_argument(
        "--from", type=Path, dest="runs", metavar="RUNS", help="folder of finished runs"
    )
    make(parser.parse_args().runs)


if __name__ == "__main__":
    main()
