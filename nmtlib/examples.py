"""What a run reads: its corpus, and the pairs as ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nmtlib.data.batching import Example, fits, make_example
from nmtlib.data.codec import Codec
from nmtlib.data.corpora import load
from nmtlib.data.corpus import Corpus, Pair, read_pairs
from nmtlib.errors import remarks
from nmtlib.sections import FILES, CorpusSettings
from nmtlib.settings import Settings


def load_corpus(settings: CorpusSettings) -> Corpus:
    """The corpus that the settings name, or the one that their files hold.

    Raises ValueError where they give neither a name nor training and validation files, or both.
    """
    settings.require_one_origin()
    if settings.name:
        return load(settings.name)
    languages = settings.languages
    if not (settings.train and settings.validation and all(languages)):
        raise ValueError(
            "[corpus] needs a name, or source_language, target_language, train and validation "
            "(each one TSV file, or a source and a target file)"
        )
    splits: dict[str, Any] = {}
    for split in FILES:
        files = getattr(settings, split)
        if len(files) > 2:
            raise ValueError(f"[corpus] {split} is one TSV file or two text files, not {files}")
        if files:
            splits[split] = read_pairs(files, languages)
    return Corpus("own", *languages, **splits)


def encode_pairs(
    pairs: Sequence[Pair], source: Codec, target: Codec, max_length: int | None = None
) -> tuple[list[Example], int]:
    """Pairs as ids, and how many were left out as longer than `max_length`, specials included."""
    sources = source.encode_all([p.source for p in pairs])
    targets = target.encode_all([p.target for p in pairs])
    examples = list(map(make_example, sources, targets))
    kept = [e for e in examples if max_length is None or fits(e, max_length)]
    return kept, len(examples) - len(kept)


def read_examples(
    settings: Settings, corpus: Corpus, codecs: tuple[Codec, Codec], report: Callable[[str], None]
) -> tuple[list[Example], list[Example]]:
    """Training and validation examples; reports how many there are and were left out."""
    readable = settings.model.max_length
    longest = min(settings.training.max_length, readable)
    training, left_out = encode_pairs(corpus.train, *codecs, longest)
    validation, unread = encode_pairs(corpus.validation, *codecs, readable)
    sizes = " and ".join(f"{len(codec.vocab):,}" for codec in codecs)
    report(
        f"{corpus.name}: {len(training):,} training pairs, {len(validation):,} for validation; "
        f"vocabularies {sizes}"
    )
    report(
        f"left out: {left_out} training pairs longer than {longest} tokens, {unread} pairs for "
        f"validation longer than {readable}"
    )
    for note in [*corpus.notes, *remarks("training", settings, corpus, codecs)]:
        report(note)
    return training, validation
