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
    run = _found("start", settings.training.start)
    theirs, ours = run.settings().tokenizer, settings.tokenizer
    other = [
        f"{name} = {json.dumps(value)}"
        for name, value in asdict(theirs).items()
        if value != getattr(ours, name)
    ]
    if other:
        raise ValueError(
            f"training.start: the vocabularies of {run.folder} were made with {', '.join(other)}; "
            "give this training the same [tokenizer]"
        )
    require_languages("training.start", run, settings, either_way=ours.joint)
    both = run.settings().corpus.both_directions
    if settings.corpus.both_directions and not (ours.joint or both):
        raise ValueError(
            f"training.start: {run.folder} has a vocabulary of each language, and reads one only; "
            "a training with corpus.both_directions needs a start with tokenizer.joint=true"
        )
    return run


def teacher_runs(settings: Settings) -> list[Run]:
    """The runs that a training learns from.

    Raises FileNotFoundError where there is none, ValueError where one has not chosen its weights
    yet or translates something else.
    """
    runs = [_found("teachers", name) for name in settings.training.teachers]
    for run in runs:
        both = run.settings().corpus.both_directions
        require_languages("training.teachers", run, settings, either_way=both)
        if settings.corpus.both_directions and not both:
            raise ValueError(
                f"training.teachers: {run.folder} translates one way only; it cannot teach a "
                "training with corpus.both_directions"
            )
        if not run.model_file.is_file():
            raise ValueError(
                f"training.teachers: {run.folder} is not trained to its end; go on with: nmtlib "
                f"train --resume --out {run.folder}"
            )
    return runs


def teachers_of(run: Run, settings: Settings) -> Iterator[Transformer]:
    """The models that a run learns from.  Raises ValueError where one cannot read what it reads."""
    for theirs in teacher_runs(settings):
        if theirs.codec_digests() != run.codec_digests():
            raise ValueError(
                f"training.teachers: {theirs.folder} has other vocabularies than this training; "
                "give both the same corpus and [tokenizer]"
            )
        model = Translator.load(theirs.folder, device="cpu").model
        if model.config.max_length < settings.model.max_length:
            raise ValueError(
                f"training.teachers: {theirs.folder} reads sentences of at most "
                f"{model.config.max_length} tokens; set model.max_length to that, not to "
                f"{settings.model.max_length}"
            )
        yield model


def _found(name: str, given: str) -> Run:
    """The run that an entry of [training] names."""
    try:
        return find_run(given)
    except (FileNotFoundError, ValueError) as error:
        raise type(error)(f"training.{name}: {error}") from None


def require_languages(where: str, run: Run, settings: Settings, *, either_way: bool) -> None:
    """Raise ValueError naming `where` a run is given that translates other languages."""
    languages, known = settings.corpus.languages, run.settings().corpus.languages
    turned = either_way and sorted(languages) == sorted(known)
    if languages != known and not turned:
        raise ValueError(
            f"{where}: {run.folder} translates {'-'.join(known)}, but this corpus is "
            f"{'-'.join(languages)}; give a run of these languages"
        )
