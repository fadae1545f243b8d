"""What a teacher is worth: nmtcourse/teaching/recorded/taught.json, for notebook 14.

    python benchmarks/taught.py [--output FILE]

How sure of the training and validation pairs the model that ships is, as it translates and with
dropout, as recipe.teachers asks it; the first places of the training pairs at which dropout makes
it think again; and how the seeds of its recipe, and those that three of them taught, have scored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from neighbours import token
from shared import RESULTS, parser, write_result

# isort: split
import torch
from torch import Tensor

from nmtcourse.teaching.taught import RECORDED
from nmtlib.data.batching import Example, collate, lengths_of, token_batches
from nmtlib.data.corpus import Pair
from nmtlib.examples import load_corpus
from nmtlib.inference.translator import Translator
from nmtlib.machine import command_line, describe_machine
from nmtlib.model.transformer import Transformer
from nmtlib.presets import load_settings
from nmtlib.training.loss import Totals, compute_loss

LABELS, TAUGHT = "cmn-en-zh-small", "cmn-en-zh-taught"  # presets
PASSES, SHOWN, FIRST = 30, 4, 3  # with dropout; places; tokens at each
SURE, UNSURE = 0.9, 0.5  # without dropout and with it


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and record."""
    options = parser(__doc__)
    options.add_argument("--output", type=Path, default=RECORDED, help="JSON file")
    given = options.parse_args(arguments)
    scores = {"labels": seeds(LABELS), "taught": seeds(TAUGHT)}
    if not all(scores.values()):
        raise ValueError(f"score the seeds of {LABELS} and {TAUGHT} first: seeds.py --neighbours 4")
    settings = load_settings(TAUGHT)
    name = settings.recipe["teachers"][0]
    teacher = Translator.load(name)
    corpus = load_corpus(teacher.settings.corpus)
    examples = {
        split: [teacher.example(pair.source, pair.target) for pair in pairs]
        for split, pairs in (("training", corpus.train), ("validation", corpus.validation))
    }
    found = {
        "teacher": name,
        "teacher_weight": settings.recipe["teacher_weight"],
        "perplexity": {
            split: {
                "plain": perplexity(teacher.model, some, dropout=False),
                "dropout": perplexity(teacher.model, some, dropout=True),
            }
            for split, some in examples.items()
        },
        "passes": PASSES,
        "sure": SURE,
        "unsure": UNSURE,
        "places": [*islice(places(teacher, corpus.train), SHOWN)],
        "seeds": scores,
        "together": together(LABELS),
        "command": f"python benchmarks/{command_line()}",
        "machine": describe_machine(),
    }
    write_result(given.output, found)


def seeds(preset: str) -> list[dict[str, Any]]:
    """Validation perplexity of each seed of a preset, and NLTK BLEU as `seeds.py` has scored it."""
    measured = RESULTS / f"seeds-{preset}.json"
    runs = json.loads(measured.read_text("utf-8"))["runs"] if measured.is_file() else []
    return [
        {
            "seed": run["seed"],
            "perplexity": run["training"]["validation_perplexity"],
            "plain": run["bleu_nltk"],
            "looked_up": run["looked_up"]["bleu_nltk"],
        }
        for run in runs
    ]


def together(preset: str) -> dict[str, float]:
    """NLTK BLEU of all seeds of a preset as an ensemble, as `seeds.py` has scored them."""
    ensemble = json.loads((RESULTS / f"seeds-{preset}.json").read_text("utf-8"))["ensemble"]
    looked_up = ensemble["looked_up"]["bleu_nltk"]
    return {"models": ensemble["models"], "plain": ensemble["bleu_nltk"], "looked_up": looked_up}


@torch.no_grad()
def perplexity(model: Transformer, examples: Sequence[Example], *, dropout: bool) -> float:
    """That of all labels, in one pass."""
    torch.manual_seed(0)
    totals = Totals()
    model.train(dropout)
    for numbers in token_batches(examples, int(max(4096, lengths_of(examples).max()))):
        totals += compute_loss(model, collate([examples[i] for i in numbers]))[1]
    model.eval()
    return totals.floats().perplexity


@torch.no_grad()
def places(teacher: Translator, pairs: Sequence[Pair]) -> Iterator[dict[str, Any]]:
    """Where the teacher is sure of the label, and with dropout no longer, one of a pair."""
    torch.manual_seed(0)
    for pair in pairs:
        example = teacher.example(pair.source, pair.target)
        one, many = collate([example]), collate([example] * PASSES)
        plain = teacher.model.eval()(one.source, one.decoder_input)[0].softmax(-1)  # (T, V)
        asked = teacher.model.train()(many.source, many.decoder_input).softmax(-1).mean(0)  # (T, V)
        teacher.model.eval()
        labels = one.labels[0]  # (T,)
        rows = torch.arange(len(labels))
        turned = (plain[rows, labels] > SURE) & (asked[rows, labels] < UNSURE)  # (T,)
        for place in turned.nonzero()[:1, 0].tolist():
            yield {
                "source": pair.source,
                "before": teacher.target.decode(labels[:place].tolist()),
                "label": token(teacher.target, int(labels[place])),
                "plain": likeliest(teacher, plain[place]),
                "dropout": likeliest(teacher, asked[place]),
            }


def likeliest(teacher: Translator, probabilities: Tensor) -> list[tuple[str, float]]:
    """The most probable tokens (V,), with their probabilities."""
    values, ids = probabilities.topk(FIRST)
    words = [token(teacher.target, word) for word in ids.tolist()]
    return [*zip(words, values.tolist(), strict=True)]


if __name__ == "__main__":
    main()
