"""From settings to a prepared corpus and back: encode it once, then train from it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nmtlib.data.codec import Codec
from nmtlib.experiment import load_corpus
from nmtlib.extras.prepared import (
    SAMPLE,
    MappedExamples,
    Prepared,
    check_free,
    learn_codecs,
    prepare,
)
from nmtlib.presets import load_settings
from nmtlib.run import Run
from nmtlib.settings import Settings


def prepare_corpus(
    settings: Settings,
    folder: str | Path,
    *,
    sample: int = SAMPLE,
    codecs: str | Path | None = None,
    report: Callable[[str], None] = print,
) -> None:
    """Encode the corpus of the settings into a new folder, for `[corpus] prepared` to name.

    The vocabularies are learnt from at most `sample` training pairs, or taken from `codecs`, a run
    or a prepared folder.  Raises ValueError where the settings do not allow it, and as `prepare`.
    """
    check_free(Path(folder))
    if settings.corpus.prepared:
        raise ValueError(f"this corpus is prepared already, in {settings.corpus.prepared}")
    if settings.tokenizer.bpe_dropout:
        raise ValueError(
            "tokenizer.bpe_dropout cuts sentences anew each epoch, and a prepared corpus is cut "
            "for good; set it to 0"
        )
    corpus = load_corpus(settings.corpus, streaming=True)
    if codecs:
        require_same_tokenizer(Path(codecs), settings)
        source, target = Run(codecs).codecs()
    else:
        source, target = learn_codecs(corpus, sample, **settings.tokenizer.codec_options())
    report(f"vocabularies {len(source.vocab):,} and {len(target.vocab):,}")
    prepare(folder, corpus, (source, target), settings.to_json(), report=report)


def open_prepared(settings: Settings) -> Prepared:
    """The prepared corpus of the settings.

    Raises ValueError where they speak of another corpus or another [tokenizer].
    """
    prepared = Prepared.open(settings.corpus.prepared)
    for key in ("name", "source_language", "target_language"):
        given, made = getattr(settings.corpus, key), prepared.notes[key]
        if given not in ("", made):
            raise ValueError(
                f"{prepared.folder} holds a corpus whose {key} is {made!r}, not {given!r}"
            )
    require_same_tokenizer(prepared.folder, settings)
    return prepared


def require_same_tokenizer(folder: Path, settings: Settings) -> None:
    """Raise ValueError where a folder was made with another [tokenizer] than is asked for."""
    made = Run(folder).settings().tokenizer
    if made != settings.tokenizer:
        raise ValueError(
            f"{folder} was made with another [tokenizer], {made}, than the settings ask for, "
            f"{settings.tokenizer}; they must be the same"
        )


def prepared_examples(
    settings: Settings, source: Codec, target: Codec, max_length: int
) -> tuple[MappedExamples, int]:
    """The training pairs of a prepared corpus, and how many were left out as too long.

    Raises ValueError where its codecs are not those of the run.
    """
    prepared = open_prepared(settings)
    codecs = zip(("source", "target"), (source, target), prepared.codecs(), strict=True)
    for side, mine, theirs in codecs:
        if mine.to_json() != theirs.to_json():
            raise ValueError(
                f"{prepared.folder} has another {side} vocabulary than this run: its ids are other "
                f"words; name the folder that the run was started with"
            )
    examples = prepared.examples()
    kept = examples.up_to(max_length)
    return kept, len(examples) - len(kept)


def command_prepare(options: Namespace) -> int:
    """`nmtlib data prepare`."""
    if not options.name or not options.out:
        raise ValueError("data prepare needs a preset or a .toml file, and --out FOLDER")
    settings = load_settings(options.name).with_assignments(options.assignments)
    limit = {} if options.sample is None else {"sample": options.sample}
    report = partial(print, flush=True)
    prepare_corpus(settings, options.out, codecs=options.codecs, report=report, **limit)
    print(
        f"the prepared corpus lies in {options.out}; train from it with: "
        f"--set corpus.prepared={options.out}"
    )
    return 0
