"""What a run reads: its corpus, the pairs as ids, and what a recipe may change about both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Protocol

from nmtlib.data.batching import Example, fits, make_example
from nmtlib.data.codec import Codec
from nmtlib.data.corpora import load
from nmtlib.data.corpus import Corpus, Pair, read_pairs
from nmtlib.errors import did_you_mean, remarks, require
from nmtlib.model.transformer import Transformer
from nmtlib.sections import FILES, CorpusSettings
from nmtlib.settings import Settings


class Recipe:
    """A run without changes; a recipe overrides what it changes.

    It is an entry point in the group `nmtlib.recipes`: called with the options of [recipe], it
    returns an object with these two methods, or raises ValueError for options it does not know.
    """

    def corpus(self, corpus: Corpus, settings: Settings) -> Corpus:
        """The corpus to train on, before vocabularies are made of it."""
        return corpus

    def hooks(
        self,
        corpus: Corpus,
        settings: Settings,
        codecs: tuple[Codec, Codec],
        training: Sequence[Example],
        report: Callable[[str], None],
    ) -> dict[str, Any]:
        """Arguments of the `Trainer`: loss, examples, optimizer, and an addition to identity."""
        return {}


def find_recipe(options: Mapping[str, Any]) -> Recipe:
    """The recipe that the section [recipe] names.  Raises ValueError for an unknown one."""
    if not options:
        return Recipe()
    known = {entry.name: entry for entry in entry_points(group="nmtlib.recipes")}
    name = str(options.get("name", ""))
    if name not in known:
        raise ValueError(
            f"[recipe] has an unknown name {name!r}{did_you_mean(name, known)}; installed are "
            f"{', '.join(known) or 'none'}"
        )
    return known[name].load()({key: value for key, value in options.items() if key != "name"})


class Start(Protocol):
    """What a run begins with in place of new vocabularies and random weights."""

    def codecs(self) -> tuple[Codec, Codec]:
        """The codecs of both sides."""

    def load(self, model: Transformer) -> None:
        """Give a new model its weights.  Raises ValueError where they do not fit."""


def find_start(settings: Settings) -> Start | None:
    """What `training.init_from` names, made by the entry point of that name in `nmtlib.starts`."""
    given = settings.training.init_from
    offered = entry_points(group="nmtlib.starts", name="init_from")
    require(bool(offered or not given), "training.init_from", "empty: nothing offers it", given)
    return [*offered][0].load()(settings) if given else None


def load_corpus(settings: CorpusSettings) -> Corpus:
    """The corpus that the settings name, or the one that their files hold.

    Raises ValueError where they give neither a name nor training and validation files, or both.
    """
    settings.require_one_origin()
    if settings.name:
        return load(settings.name)
    languages = settings.languages
    if all(languages) and not any(getattr(settings, split) for split in FILES):
        raise ValueError(
            "this run was trained on pairs in memory, which it does not keep; pass them again in "
            "Python, as corpus="
        )
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
            splits[split] = read_pairs(files, (settings.source_language, settings.target_language))
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
    if left_out or unread:
        report(
            f"left out: {left_out} training pairs longer than {longest} tokens, {unread} pairs for "
            f"validation longer than {readable}"
        )
    for note in [*corpus.notes, *remarks("training", settings, corpus, codecs)]:
        report(note)
    return training, validation
