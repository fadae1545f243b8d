"""Is a bad teacher worse than none?  Back-translation in miniature, for notebook 13.

    python benchmarks/teachers.py           a minute; nmtcourse/teaching/recorded/teachers.json

English to German with 400 pairs of the bundled corpus and 1,600 German sentences more.  They are
translated back by a model that learned from the same 400 pairs, or by the shipped one, which
learned from 20,000; an epoch holds as many synthetic pairs as real ones, or four times as many.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared import parser, say, write_result

# isort: split
import torch

from nmtcourse.provenance import command_line, describe_machine
from nmtcourse.teaching import learning, load_toy
from nmtcourse.teaching.case_studies import TEACHERS
from nmtcourse.teaching.learning import Loop, Recipe, encoded, small_model
from nmtcourse.toy import load_toy as toy_corpus
from nmtlib.data.corpus import Pair
from nmtlib.inference.translator import Translator

PAIRS, ALONE, UPDATES, SEEDS = 400, 1_600, 150, (1, 2, 3)


def train(codecs: Translator, pairs: Sequence[Pair], seed: int) -> Translator:
    """A small model after `UPDATES` updates on some pairs; of `codecs` only the vocabularies."""
    model = small_model(codecs, seed=seed)
    recipe = Recipe(pairs=len(pairs), updates=UPDATES, rate=8e-3, warmup=40, seed=seed)
    loop = Loop(model, encoded(codecs, pairs), recipe)
    for _ in range(UPDATES):
        loop.step()
    return Translator(model, codecs.source, codecs.target)


def lesson(shipped: Translator, seed: int) -> dict[str, Any]:
    """Validation BLEU of the teacher, and of each student."""
    corpus = toy_corpus("toy-de-en", train=PAIRS + ALONE, validation=200, test=0, challenge=0)
    forward, real = corpus.reversed(), corpus.train[:PAIRS]
    sentences = [pair.source for pair in corpus.train[PAIRS:]]
    young = train(shipped, real, seed)
    codecs = Translator(young.model, shipped.target, shipped.source)  # English to German

    def student(teacher: Translator | None, ratio: int) -> float:
        made = teacher.translate(sentences[: ratio * PAIRS], beam=1) if teacher else []
        pairs = [Pair(text, s) for text, s in zip(made, sentences, strict=False) if text]
        found = train(codecs, [*forward.train[:PAIRS], *pairs], seed)
        return round(learning.bleu(found.model, codecs, forward.validation), 2)

    return {
        "seed": seed,
        "young teacher": round(learning.bleu(young.model, shipped, corpus.validation), 2),
        "no synthetic pairs": [student(None, 0)] * 2,
        "from the young teacher": [student(young, ratio) for ratio in (1, 4)],
        "from the shipped teacher": [student(shipped, ratio) for ratio in (1, 4)],
    }


def main() -> None:
    """Train them one after the other and write the file."""
    options = parser(__doc__)
    options.add_argument("--output", type=Path, default=TEACHERS, help="JSON file")
    path = options.parse_args().output
    torch.set_num_threads(1)
    runs = []
    for seed in SEEDS:
        runs.append(lesson(load_toy("de-en"), seed))
        say(str(runs[-1]))
    made = {"command": command_line(), "machine": describe_machine()}
    sizes = {"pairs": PAIRS, "sentences": ALONE, "updates": UPDATES, "ratios": [1, 4]}
    write_result(path, {**made, **sizes, "runs": runs})


if __name__ == "__main__":
    main()
