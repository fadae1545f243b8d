"""English-Chinese, ours beside the publisher's: nmtcourse/teaching/recorded/english_chinese.json.

    python benchmarks/chinese.py [--seeds 1 2 3] [--systems record original] [--minutes N]
                                 [--out RUNS]

Trains what is missing, each run for at most so many minutes, scores all of them on the test split
by several ways of cutting Chinese, and records the curves; the publisher's configuration has the
first seed alone.  A second call goes on where the first was stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared import parser, say, train_or_go_on, write_result

# isort: split
from nmtcourse.teaching.chinese import RECORDED
from nmtlib.data.corpora import load
from nmtlib.data.corpus import Corpus
from nmtlib.inference.evaluate import Scores, evaluate
from nmtlib.inference.metrics import bleu_sacre
from nmtlib.inference.translator import Translator
from nmtlib.machine import command_line, describe_machine
from nmtlib.presets import load_settings
from nmtlib.run import Run
from nmtlib.training.hardware import choose_device
from nmtlib.training.history import read_history

SYSTEMS = {  # preset and title of each
    "record": ("cmn-en-zh-small", "the model that ships"),
    "original": ("cmn-en-zh-original", "the publisher's configuration"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, score, record; the file is written after each system."""
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    options.add_argument("--minutes", type=float, metavar="N", help="stop each training then")
    options.add_argument("--out", type=Path, default=Path("runs/chinese"), metavar="RUNS")
    options.add_argument("--output", type=Path, default=RECORDED, help="JSON file")
    given = options.parse_args(arguments)
    systems: list[dict[str, Any]] = []
    outputs: list[str] = []
    for key in given.systems:
        seeds = given.seeds if key == "record" else given.seeds[:1]
        row, translations = system(key, seeds, given.out, given.minutes)
        systems.append(row)
        outputs = outputs or translations
        result = {
            "command": f"python benchmarks/{command_line()}",
            "machine": describe_machine(choose_device("cpu")),
            "systems": systems,
            "outputs": outputs,
        }
        write_result(given.output, result)


def system(
    key: str, seeds: Sequence[int], out: Path, minutes: float | None
) -> tuple[dict[str, Any], list[str]]:
    """Runs of one system, and what that of the first seed says of the test split."""
    (preset, title), corpus, found = SYSTEMS[key], load("cmn-en-zh"), []
    base = load_settings(preset)
    folders = [out / f"{key}-{seed}" for seed in seeds]
    for seed, folder in zip(seeds, folders, strict=True):
        train_or_go_on(folder, base.with_value("training.seed", seed), minutes)
        found.append(scored(folder, corpus))
        say(f"{key}, seed {seed}: NLTK {found[-1][0]['bleu_nltk']:.4f}")
    model, training, epochs = base.model, base.training, len(found[0][0]["history"])
    if epochs < training.epochs:
        title += f", {epochs} of {training.epochs} epochs"
    row = {
        "key": key,
        "title": title,
        "settings": [
            f"{model.n_encoder_layers}+{model.n_decoder_layers} layers",
            f"d_model {model.d_model}",
            f"dropout {model.dropout:g}",
            f"{training.schedule} rate {training.learning_rate:g}",
        ],
        "parameters": sum(Translator.load(folders[0]).model.parameter_table().values()),
        "runs": [{"seed": s, **run} for s, (run, _) in zip(seeds, found, strict=True)],
    }
    return row, found[0][1]


def scored(folder: Path, corpus: Corpus) -> tuple[dict[str, Any], list[str]]:
    """The scores, the curves and the translations of one run."""
    found, translations = evaluate(Translator.load(folder), corpus, "test")
    history = read_history(Run(folder).history_file)
    unleaked: Scores | None = found.scores_without_leaked
    references = [pair.target for pair in corpus.test]
    scores = {
        "minutes": round(history[-1].seconds / 60, 2),
        "bleu_nltk": found.scores.bleu_nltk,
        "bleu_nltk_unleaked": unleaked.bleu_nltk if unleaked else None,
        "bleu_zh": found.scores.bleu,
        "bleu_characters": bleu_sacre(
            translations, references, tokenize="char", lowercase=True
        ).score,
        "perplexity": found.perplexity,
        "history": [vars(record) for record in history],
    }
    return scores, translations


if __name__ == "__main__":
    main()
