"""Count what notebook 13 says about Multi30k: nmtcourse/teaching/recorded/corpus_facts.json.

    python benchmarks/corpus_facts.py           a minute; fetches Multi30k and its captions

Nothing is trained.  The file holds numbers and single words, and the points of the trainings
that `time_to_bleu.py` scored epoch by epoch; so the notebook needs no corpus.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared import RESULTS, parser, write_result

# isort: split
from nmtcourse.recipes.monolingual import CAPTIONS
from nmtcourse.teaching.case_studies import FACTS
from nmtlib.data.codec import Codec, Vocab, build_codecs
from nmtlib.data.corpora import load
from nmtlib.data.corpus import Corpus
from nmtlib.data.tokenizers import SpacyTokenizer
from nmtlib.specials import UNK
from nmtlib.training.hardware import command_line, describe_machine

SIDES = {"de": "source", "en": "target"}
FIRST = 16  # entries of a vocabulary that are listed
TIMED = {"dropout 0.15, 8 epochs": "fast", "R-Drop, 20 epochs": "r-drop"}


def texts(corpus: Corpus, split: str, language: str) -> list[str]:
    """One side of a split."""
    return [getattr(pair, SIDES[language]) for pair in corpus.split(split)]


def words_of(corpus: Corpus, language: str) -> Codec:
    """The words of one side as the classic tutorial cuts them, those seen twice or more."""
    tokenizer = SpacyTokenizer(language, lowercase=True, mark_spaces=False)
    words = tokenizer.encode_all(texts(corpus, "train", language))
    return Codec(tokenizer, Vocab.build(words, min_count=2))


def side(corpus: Corpus, codec: Codec, language: str) -> dict[str, Any]:
    """What the tokens of one language are like: counted in training, looked up in test."""
    tokens = codec.tokenizer.encode_all(texts(corpus, "train", language))
    counts = Counter(token for sentence in tokens for token in sentence)
    test = codec.encode_all(texts(corpus, "test", language))
    unknown = [ids.count(UNK) for ids in test]
    return {
        "tokens": counts.total(),
        "mean_length": round(counts.total() / len(tokens), 2),
        "different": len(counts),
        "once": sum(count == 1 for count in counts.values()),
        "vocabulary": len(codec.vocab),
        "first": codec.vocab.tokens[:FIRST],
        "test_tokens": sum(map(len, test)),
        "test_unknown": sum(unknown),
        "test_sentences_with_unknown": sum(map(bool, unknown)),
    }


def both_sides(corpus: Corpus, codecs: Sequence[Codec]) -> dict[str, Any]:
    """`side` of both languages."""
    return {name: side(corpus, codec, name) for name, codec in zip(SIDES, codecs, strict=True)}


def captions(language: str) -> dict[str, Any]:
    """How many captions there are, and what the audit leaves of them."""
    kept, left_out = CAPTIONS.sentences(language)
    return {"lines": len(kept) + sum(left_out.values()), "kept": len(kept), "left_out": left_out}


def timed(name: str) -> dict[str, Any]:
    """The points of a training that was scored after every epoch."""
    found = json.loads((RESULTS / f"time-to-bleu-multi30k-de-en-{name}.json").read_text("utf-8"))
    points = [[point["seconds"], point["bleu"]] for point in found["points"]]
    keys = ("command", "split", "search", "parameters", "seed", "threads", "machine")
    around = ("processes", "preloaded")  # which older records do not have
    kept = {key: found[key] for key in (*keys, *around) if key in keys or key in found}
    return {**kept, "points": points}


def main() -> None:
    """Count, and write the file."""
    options = parser(__doc__)
    options.add_argument("--output", type=Path, default=FACTS, help="JSON file")
    path = options.parse_args().output
    corpus = load("multi30k-de-en")
    words = [words_of(corpus, language) for language in SIDES]
    pieces = build_codecs(corpus, "bpe", size=4_000, joint=True, lowercase=True)
    facts = {
        "command": command_line(),
        "machine": describe_machine(),
        "pairs": {split: len(corpus.split(split)) for split in ("train", "validation", "test")},
        "words": both_sides(corpus, words),
        "pieces": both_sides(corpus, pieces),
        "captions": {language: captions(language) for language in SIDES},
        "time_to_bleu": {title: timed(name) for title, name in TIMED.items()},
    }
    write_result(path, facts)


if __name__ == "__main__":
    main()
