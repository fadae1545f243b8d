"""How many pairs give what BLEU, with which settings: sub-samples of the corpora at hand.

Each call trains one row, on the first so many pairs of a shuffled training split, scores it on the
test split, and adds it to the record own-sizes.json as soon as it is done: to its `rows` where the
settings follow the text, which `nmtlib train` reads to say what to expect, otherwise to those that
were set `by_hand`.  Text is taken as an own corpus would have it: subword marks are joined, and
Chinese has no spaces.

    python benchmarks/own_sizes.py multi30k-de-en 2000                # the settings that fit 2,000
    python benchmarks/own_sizes.py cmn-en-zh 4000 --set dropout=0.3   # one setting of your own
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock
from shared import parser, say, write_result

from nmtcourse.provenance import describe_machine
from nmtcourse.recipes import own_text
from nmtlib.data.corpora import load_corpus
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.data.tokenizers import without_marks
from nmtlib.experiment import train
from nmtlib.inference.evaluate import Evaluation, evaluate
from nmtlib.inference.translator import Translator
from nmtlib.settings import Settings
from nmtlib.training.history import EpochRecord

RECORD = own_text.RECORD
VALIDATION, TEST = 500, 1_000  # pairs at most
SEED = 1


def subsample(name: str, count: int) -> Corpus:
    """The first `count` pairs of the shuffled training split, and small held-out splits."""
    corpus = load_corpus(name)
    splits = {split: list(getattr(corpus, split)) for split in ("train", "validation", "test")}
    random.Random(SEED).shuffle(splits["train"])
    sizes = {"train": count, "validation": VALIDATION, "test": TEST}
    if len(splits["train"]) < count:
        raise ValueError(f"{name} has {len(splits['train']):,} training pairs, not {count:,}")
    plain = {
        split: [as_own_text(pair, corpus) for pair in pairs[: sizes[split]]]
        for split, pairs in splits.items()
    }
    return Corpus("own", corpus.source_language, corpus.target_language, **plain)


def as_own_text(pair: Pair, corpus: Corpus) -> Pair:
    """A pair as it would be in a file of its own: whole words, and no spaces in Chinese."""
    sides = [without_marks(pair.source), without_marks(pair.target)]
    languages = corpus.source_language, corpus.target_language
    for side, language in enumerate(languages):
        if language == "zh":
            sides[side] = "".join(sides[side].split())
    return Pair(*sides)


def measure(name: str, count: int, assignments: list[str]) -> dict[str, Any]:
    """Train and score one row."""
    corpus = subsample(name, count)
    plan = own_text.plan_for(corpus.train)
    settings = Settings().changed(plan.sections()).with_assignments(assignments)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        history = train(run, settings, corpus=corpus, report=say)
        translator = Translator.load(run)
        evaluation, hypotheses = evaluate(translator, corpus)
        shutil.rmtree(run)
    say(f"BLEU {evaluation.scores.bleu:.2f}; {hypotheses[0]!r} for {corpus.test[0].target!r}")
    return row_of(name, plan, assignments, settings, history, evaluation, hypotheses)


def row_of(
    name: str,
    plan: own_text.Plan,
    assignments: Sequence[str],
    settings: Settings,
    history: Sequence[EpochRecord],
    evaluation: Evaluation,
    hypotheses: Sequence[str],
) -> dict[str, Any]:
    """What the record says of one training."""
    best = min(history, key=lambda record: record.validation_nll)
    values = asdict(settings)
    return {
        "corpus": name,
        "pairs": plan.pairs,
        "tokens": round(plan.tokens / plan.pairs, 1),  # the mean of the longer side
        "set": list(assignments),
        "changes": ", ".join(assignments),
        "settings": {s: values[s] for s in ("tokenizer", "model", "training", "recipe")},
        "parameters": evaluation.parameters,
        "updates": history[-1].updates,
        "epochs": len(history),
        "best_epoch": best.epoch,
        "validation_perplexity": round(best.validation_perplexity, 3),
        "bleu": round(evaluation.scores.bleu, 2),
        "chrf": round(evaluation.scores.chrf, 2),
        "signature": evaluation.scores.signature,
        "distinct": len(set(hypotheses)),
        "test_sentences": evaluation.scores.sentences,
        "busy_minutes": round(history[-1].busy_seconds / 60, 2),
        "minutes": round(history[-1].seconds / 60, 2),
    }


def keep(row: dict[str, Any]) -> None:
    """Add a row to the record; one of the same corpus, size and settings is replaced."""
    kind = "by_hand" if row["set"] else "rows"
    with FileLock(RECORD.with_name(f".{RECORD.name}.lock")):
        record = json.loads(RECORD.read_text("utf-8")) if RECORD.is_file() else {}
        lists = {"rows": record.get("rows", []), "by_hand": record.get("by_hand", [])}
        key = ("corpus", "pairs", "set")
        rows = [old for old in lists[kind] if [old[k] for k in key] != [row[k] for k in key]]
        rows.append(row)
        rows.sort(key=lambda row: (row["corpus"], row["pairs"], row["set"]))
        result = {"command": "python benchmarks/own_sizes.py CORPUS PAIRS", **lists, kind: rows}
        write_result(RECORD, result | {"machine": describe_machine()})


def main() -> None:
    """Measure one row."""
    options = parser(__doc__)
    options.add_argument("corpus")
    options.add_argument("pairs", type=int)
    changes: dict[str, Any] = {"action": "append", "default": [], "dest": "assignments"}
    options.add_argument("--set", metavar="KEY=VALUE", help="change a setting", **changes)
    given = options.parse_args()
    keep(measure(given.corpus, given.pairs, given.assignments))


if __name__ == "__main__":
    main()
