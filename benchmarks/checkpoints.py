"""Store the models that ship with the course in nmtlib/trained, in half precision.

python benchmarks/checkpoints.py              train both toy models again (two minutes), store them
python benchmarks/checkpoints.py --from runs  store runs/toy-de-en and runs/toy-en-zh
python benchmarks/checkpoints.py cmn-en-zh    train the small model of a preset and store it

The model multi30k-de-en comes from benchmarks/captions.py.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shared import require_finished

from nmtcourse import confidence
from nmtcourse.corpora import load_corpus
from nmtcourse.provenance import training_summary
from nmtcourse.teaching.case_studies import CAPTIONS
from nmtcourse.teaching.course import DIRECTIONS
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.data.tokenizers import JOIN_MARK
from nmtlib.files import write_atomically
from nmtlib.inference.evaluate import evaluate, write_samples
from nmtlib.inference.translator import Translator
from nmtlib.run import SHIPPED, Run
from nmtlib.training.checkpoint import read_checkpoint, save_checkpoint
from nmtlib.training.loss import measure_all

SAMPLES = 60  # sentences that ride along with a model
FEWEST_WORDS, MOST_WORDS = 5, 12
READ_AS_WRONG = {"Viele Leute stehen nachts auf einer beleuchteten Straße."}  # "a light street"


def store(run: Path, folder: Path) -> dict[str, Any]:
    """Store what translating needs of a run in `folder`; returns the notes put beside it.

    The weights become float16, and the settings name no file of the machine that trained them.  The
    notes hold how the run was trained, and the validation loss and test BLEU before and after
    rounding.  Raises FileNotFoundError where `run` is no finished run.
    """
    trained = Translator.load(run, device="cpu")
    corpus = load_corpus(trained.settings.corpus.name)
    before = scores(trained, corpus)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(run / "history.csv", folder / "history.csv")
    recipe = {
        k: v for k, v in trained.settings.recipe.items() if k not in ("synthetic", "teachers")
    }
    settings = replace(trained.settings, recipe=recipe).changed({"training": {"init_from": ""}})
    write_atomically(folder / "settings.json", settings.to_json())
    saved = read_checkpoint(Run(run).weights_file())
    save_checkpoint(
        Run(folder).model_file,
        trained.model.half(),
        weights=saved.header.weights,
        validation_nll=saved.header.validation_nll,
        description=replace(saved.described(), settings=settings),
    )
    after = scores(Translator.load(folder, device="cpu"), corpus)
    summary = training_summary(run)
    kept = {key: summary[key] for key in ("command", "seed", "epochs", "updates", "weights")}
    notes = {**kept, "as_trained": before, "as_shipped": after}
    confidence.learn(folder, corpus)
    store_samples(Run(folder), corpus)
    write_atomically(folder / "notes.json", json.dumps(notes, indent=2) + "\n")
    return notes


def store_samples(run: Run, corpus: Corpus) -> None:
    """Translate sentences that may be passed on, for the explorer; the toys bring their own.

    The captions are the course's own; the sentences of `cmn-en-zh` are under CC BY 2.0 FR.
    """
    if corpus.name == "multi30k-de-en":
        credit, lines = "Sentences of this course.", CAPTIONS.read_text("utf-8").splitlines()
        pairs = [Pair(*line.split("\t")) for line in lines]
    elif corpus.name == "cmn-en-zh":
        credit = "Sentences of tatoeba.org, CC BY 2.0 FR, by way of cmn-eng-simple."
        pairs = [
            p for p in corpus.validation if FEWEST_WORDS <= len(p.source.split()) <= MOST_WORDS
        ]
        pairs = [replace(p, source=p.source.replace(f"{JOIN_MARK} ", "")) for p in pairs]
    else:
        return
    pairs = right_ones(run, pairs)[:SAMPLES]
    write_samples(Translator.load(run.folder, device="cpu"), run.samples_file, pairs)
    write_atomically(run.samples_file, f"# {credit}\n\n{run.samples_file.read_text('utf-8')}")


def right_ones(run: Run, pairs: list[Pair]) -> list[Pair]:
    """The pairs that the model translates rightly and without doubt: what a page may offer.

    Of the captions, whose references have many other forms, a person read the translations; those
    of `cmn-en-zh` have to be the reference itself.
    """
    rule, translator = confidence.load(run.folder), Translator.load(run.folder, device="cpu")
    assert rule is not None, "store the limit first"
    sure = [one for one in confidence.judge(translator, pairs) if not rule.doubts(one.perplexity)]
    if translator.settings.corpus.name == "cmn-en-zh":
        return [one.pair for one in sure if one.translation == one.pair.target]
    return [one.pair for one in sure if one.good and one.pair.source not in READ_AS_WRONG]


def scores(translator: Translator, corpus: Corpus) -> dict[str, float]:
    """Validation loss in nats a token, and test BLEU."""
    examples = [translator.example(pair.source, pair.target) for pair in corpus.validation]
    sums = measure_all(translator.model, examples)
    test, _ = evaluate(translator, corpus, "test")
    return {"validation_nll": round(sums.nll_per_token, 5), "test_bleu": round(test.scores.bleu, 2)}


TOYS = [f"toy-{direction}" for direction in DIRECTIONS]


def make(runs: Path | None = None, models: Sequence[str] = TOYS) -> None:
    """Store the runs of some models in `runs`, or train them again where no folder is given."""
    with tempfile.TemporaryDirectory() as scratch:
        for model in models:
            run = (runs or Path(scratch)) / model
            preset = model if model in TOYS else f"{model}-small"
            if runs is None:
                command = [sys.executable, "-m", "nmtcourse", "train", preset, "--out", str(run)]
                subprocess.run(command, check=True)
                require_finished(Run(run))
            print(f"{model}: {json.dumps(store(run, SHIPPED / model))}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=TOYS, help="default: both toy models")
    runs = "folder of finished runs to store; without it, they are trained again"
    parser.add_argument("--from", type=Path, dest="runs", metavar="RUNS", help=runs)
    given = parser.parse_args()
    make(given.runs, given.models)
