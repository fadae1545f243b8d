"""The runs that a distilled model learns from: what must fit."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from nmtlib.data.codec import Codec
from nmtlib.experiment import require_languages
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer
from nmtlib.run import Run, find_run
from nmtlib.settings import Settings
from nmtlib.training.checkpoint import describe_run


def load_teachers(
    names: Sequence[str], settings: Settings, codecs: tuple[Codec, Codec], both_directions: bool
) -> tuple[list[Transformer], str]:
    """The models that a run learns from, and the SHA-256 of their weights.

    Raises FileNotFoundError where there is no such run, ValueError where one is unfinished, or
    cannot read what the run reads.
    """
    models, digest = [], sha256()
    for name in names:
        run = find_teacher(name, settings, both_directions)
        translator = Translator.load(run.folder, device="cpu")
        if (translator.source, translator.target) != codecs:
            raise ValueError(
                f"recipe.teachers: {run.folder} has other vocabularies than this run; give both "
                "the same corpus and [tokenizer]"
            )
        longest = translator.model.config.max_length
        if longest < settings.model.max_length:
            raise ValueError(
                f"recipe.teachers: {run.folder} reads sentences of at most {longest} tokens; set "
                f"model.max_length to that, not to {settings.model.max_length}"
            )
        digest.update(run.model_file.read_bytes())
        models.append(translator.model)
    return models, digest.hexdigest()


def find_teacher(name: str, settings: Settings, both_directions: bool) -> Run:
    """The finished run that a name or a folder stands for, of the same languages."""
    try:
        run = find_run(name)
        known = describe_run(run).settings
    except (FileNotFoundError, ValueError) as error:
        raise type(error)(f"recipe.teachers: {error}") from None
    both = bool(known.recipe.get("both_directions"))
    where = f"recipe.teachers: {run.folder}"
    require_languages(where, known, settings.corpus.languages, either_way=both)
    if both_directions and not both:
        raise ValueError(
            f"recipe.teachers: {run.folder} translates one way only; it cannot teach a run with "
            "both_directions"
        )
    if not run.model_file.is_file():
        raise ValueError(
            f"recipe.teachers: {run.folder} is not trained to its end; continue with: nmtlib "
            f"train --resume --out {run.folder}"
        )
    return run
