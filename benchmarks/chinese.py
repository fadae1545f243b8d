"""English-Chinese with several seeds: nmtcourse/teaching/recorded/english_chinese.json.

    python benchmarks/chinese.py [--seeds 1 2 3] [--minutes N] [--out RUNS]

Trains what is missing, each run for at most so many minutes, scores all of them on the test split
by several metrics, and records the curves, with the translations of the first seed.  A second call
continues where the first was stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared import parser, say, train_or_go_on, unleaked, write_result

# isort: split
from nmtcourse.teaching.chinese import RECORDED
from nmtlib.data.corpora import load
from nmtlib.data.corpus import Corpus
from nmtlib.inference.evaluate import evaluate
from nmtlib.inference.metrics import bleu_sacre
from nmtlib.inference.translator import Translator
from nmtlib.presets import load_settings
from nmtlib.run import Run
from nmtlib.training.hardware import choose_device, command_line, describe_machine
from nmtlib.training.history import read_history

PRESET = "cmn-en-zh-small"


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, score, record; the file is written when all seeds are scored."""
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options.add_argument("--minutes", type=float, metavar="N", help="stop each run then")
    options.add_argument("--out", type=Path, default=Path("runs/chinese"), metavar="RUNS")
    options.add_argument("--output", type=Path, default=RECORDED, help="JSON file")
    given = options.parse_args(arguments)
    base, corpus = load_settings(PRESET), load("cmn-en-zh")
    runs: list[dict[str, Any]] = []
    outputs: list[str] = []
    for seed in given.seeds:
        folder = given.out / f"record-{seed}"
        train_or_go_on(folder, base.with_value("training.seed", seed), given.minutes)
        run, translations = scored(folder, corpus)
        runs.append({"seed": seed, **run})
        outputs = outputs or translations
        say(f"seed {seed}: NLTK {run['bleu_nltk']:.4f}")
    result = {
        "command": f"python benchmarks/{command_line()}",
        "machine": describe_machine(choose_device("cpu")),
        "runs": runs,
        "outputs": outputs,
    }
    write_result(given.output, result)


def scored(folder: Path, corpus: Corpus) -> tuple[dict[str, Any], list[str]]:
    """The scores, the curves and the translations of one run."""
    translator = Translator.load(folder)
    found, translations = evaluate(translator, corpus, "test")
    history = read_history(Run(folder).history_file)
    references = [pair.target for pair in corpus.test]
    scores = {
        "minutes": round(history[-1].seconds / 60, 2),
        "bleu_nltk": found.scores.bleu_nltk,
        "bleu_nltk_unleaked": unleaked(translator, corpus, translations).bleu_nltk,
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
