"""What a training reads: its corpus, the pairs as ids, and which of them each epoch takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

from nmtlib.data.batching import Example, fits, make_example
from nmtlib.data.codec import Codec
from nmtlib.data.corpora import load
from nmtlib.data.corpus import Corpus, Pair, TextPairs
from nmtlib.data.mixing import mixed_by_epoch
from nmtlib.sections import FILES, CorpusSettings, TrainingSettings
from nmtlib.settings import Settings

ByEpoch = Callable[[int], Sequence[Example]]


def load_corpus(settings: CorpusSettings) -> Corpus:
    """The corpus that the settings name, or the one that their files hold, with what they add.

    Raises ValueError where the settings give neither a name nor training and validation files, or
    both.
    """
    corpus = _parallel_corpus(settings)
    if settings.synthetic:
        more = chain.from_iterable(TextPairs([file]) for file in settings.synthetic)
        corpus = corpus.with_synthetic(more)
    return corpus.in_both_directions() if settings.both_directions else corpus


def load_corpus_to_score(settings: CorpusSettings) -> Corpus:
    """The corpus that a run is judged on: pairs of its own direction, and none that a model made.

    Raises as `load_corpus` does, but the files of synthetic pairs may be gone.
    """
    return load_corpus(replace(settings, synthetic=[], both_directions=False))


def _parallel_corpus(settings: CorpusSettings) -> Corpus:
    settings.require_one_origin()
    if settings.name:
        return load(settings.name)
    languages = settings.source_language, settings.target_language
    if not (settings.train and settings.validation and all(languages)):
        raise ValueError(
            "[corpus] needs a name, or source_language, target_language, train and validation "
            "(each one TSV file, or a source and a target file)"
        )
    splits: dict = {}
    for split in FILES:
        files = getattr(settings, split)
        if len(files) > 2:
            raise ValueError(f"[corpus] {split} is one TSV file or two text files, not {files}")
        if files:
            splits[split] = list(TextPairs(files))
    return Corpus("own", *languages, **splits)


def encode_pairs(
    pairs: Sequence[Pair], source: Codec, target: Codec, max_length: int | None = None
) -> tuple[list[Example], int]:
    """Pairs as ids, and how many were left out as longer than `max_length`, specials included."""
    sides = (
        source.encode_all([p.source for p in pairs]),
        target.encode_all([p.target for p in pairs]),
    )
    examples = [make_example(*pair) for pair in zip(*sides, strict=True)]
    kept = [e for e in examples if max_length is None or fits(e, max_length)]
    return kept, len(examples) - len(kept)


def read_examples(
    settings: Settings,
    corpus: Corpus,
    source: Codec,
    target: Codec,
    report: Callable[[str], None],
) -> tuple[Sequence[Example], list[Example], ByEpoch | None]:
    """Training and validation examples, and what chooses the former for each epoch."""
    readable = settings.model.max_length
    longest = min(settings.training.max_length, readable)
    training, left_out = encode_pairs(corpus.train, source, target, longest)
    validation, unread = encode_pairs(corpus.validation, source, target, readable)
    report(
        f"{corpus.name}: {len(training):,} training pairs, {len(validation):,} for validation; "
        f"vocabularies {len(source.vocab):,} and {len(target.vocab):,}"
    )
    for note in corpus.notes:
        report(note)
    if left_out or unread:
        report(
            f"left out: {left_out} training pairs longer than {longest} tokens, {unread} pairs "
            f"for validation longer than {readable}"
        )
    if not settings.corpus.synthetic:
        return training, validation, None
    synthetic, too_long = encode_pairs(corpus.synthetic, source, target, longest)
    mixed = _mixed(training, synthetic, settings.training)
    report(
        f"{len(synthetic):,} synthetic pairs, of which an epoch takes "
        f"{settings.training.synthetic_ratio:g} for each real one; left out as too long: {too_long}"
    )
    return [*training, *synthetic], validation, mixed  # all of them say which training this is


def _mixed(
    training: Sequence[Example], synthetic: Sequence[Example], settings: TrainingSettings
) -> ByEpoch:
    """What an epoch takes of both.  Raises ValueError where it would take no synthetic example."""
    ratio = settings.synthetic_ratio
    if not round(ratio * len(training)) or not synthetic:
        raise ValueError(
            f"corpus.synthetic: an epoch would take none of {len(synthetic):,} synthetic pairs "
            f"(synthetic_ratio {ratio:g} of {len(training):,} real ones); give others, raise the "
            "ratio, or leave them out"
        )
    return mixed_by_epoch(training, synthetic, ratio, seed=settings.seed)
