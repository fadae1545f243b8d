"""The runs that a training makes use of: the one that it starts from, and its teachers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from nmtlib.inference.translator import Translator, find_run
from nmtlib.model.transformer import Transformer
from nmtlib.run import Run
from nmtlib.settings import Settings


def start_of(settings: Settings) -> Run:
    """The run that a training begins with.  Raises ValueError where its tokens are others."""
    run = find_run(settings.training.start)
    theirs, ours = run.settings().tokenizer, settings.tokenizer
    other = [
        f"{name} = {json.dumps(value)}"
        for name, value in asdict(theirs).items()
        if value != getattr(ours, name) and name != "bpe_dropout"
    ]
    if other:
        raise ValueError(
            f"training.start: the vocabularies of {run.folder} were made with {', '.join(other)}; "
            "give this training the same [tokenizer]"
        )
    _require_languages("start", run, settings, either_way=ours.joint)
    return run


def teachers_of(run: Run, settings: Settings) -> Iterator[Transformer]:
    """Those from which a run learns.  Raises ValueError where one of them cannot teach it."""
    for name in settings.training.teachers:
        theirs = find_run(name)
        _require_languages("teachers", theirs, settings, either_way=False)
        if theirs.codec_digests() != run.codec_digests():
            raise ValueError(
                f"training.teachers: {theirs.folder} has other vocabularies than this training; "
                "give both the same corpus and [tokenizer]"
            )
        if settings.corpus.both_directions and not theirs.settings().corpus.both_directions:
            raise ValueError(
                f"training.teachers: {theirs.folder} translates one way only; it cannot teach a "
                "training with corpus.both_directions"
            )
        model = Translator.load(name).model
        if model.config.max_length < settings.model.max_length:
            raise ValueError(
                f"training.teachers: {theirs.folder} reads sentences of at most "
                f"{model.config.max_length} tokens; set model.max_length to that, not to "
                f"{settings.model.max_length}"
            )
        yield model


def _require_languages(name: str, run: Run, settings: Settings, *, either_way: bool) -> None:
    """Raise ValueError where a run that is made use of translates other languages."""
    languages, known = settings.corpus.languages, run.settings().corpus.languages
    turned = either_way and sorted(languages) == sorted(known)
    if any(known) and languages != known and not turned:  # a prepared corpus tells none
        raise ValueError(
            f"training.{name}: {run.folder} translates {'-'.join(known)}, but this training is "
            f"{'-'.join(languages)}; give a run of these languages"
        )
