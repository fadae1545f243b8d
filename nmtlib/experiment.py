"""A run from its settings to its weights, in the order of the work."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import torch

import nmtlib
from nmtlib.arguments import PathLike, checked, instance
from nmtlib.data.batching import Example
from nmtlib.data.codec import Codec, build_codecs, encode_pairs
from nmtlib.data.corpora import load_corpus
from nmtlib.data.corpus import Corpus
from nmtlib.errors import require
from nmtlib.files import write_atomically
from nmtlib.inference.evaluate import write_samples
from nmtlib.inference.translator import Translator
from nmtlib.model.attention import AttentionClass, MultiHeadAttention
from nmtlib.model.config import TransformerConfig
from nmtlib.model.embeddings import DrawingFrom
from nmtlib.model.transformer import Transformer
from nmtlib.presets import load_settings
from nmtlib.run import Run, command_line, find_weights
from nmtlib.settings import CorpusSettings, Settings, TokenizerSettings
from nmtlib.specials import SPECIALS
from nmtlib.training.checkpoint import (
    Checkpoint,
    Description,
    describe_file,
    load_weights,
    read_checkpoint,
)
from nmtlib.training.hardware import LostProcess, Processes, choose_device
from nmtlib.training.history import EpochRecord
from nmtlib.training.trainer import SEEDS, Recipe, Trainer

Report = Callable[[str], None]
Codecs = tuple[Codec, Codec]
SIDES = ("source", "target")


@dataclass(frozen=True)
class Material:
    """What a recipe may have to see before it can be made.

    `training` and `validation` are pairs of the corpus as ids; lines for `report` are also written
    into the log of the run.
    """

    corpus: Corpus
    codecs: Codecs
    training: Sequence[Example]
    validation: Sequence[Example]
    report: Report


@checked(
    folder=PathLike,
    settings=instance("Settings, the name of a preset, or a path", Settings, str, Path, type(None)),
    corpus=instance("a Corpus", Corpus, type(None)),
    recipe=instance("a Recipe, or a function that makes one", Recipe, Callable, type(None)),
    resume=bool,
    minutes=float | None,
)
def train(
    folder: str | Path,
    settings: Settings | str | Path | None = None,
    *,
    corpus: Corpus | None = None,
    recipe: Recipe | Callable[[Material], Recipe] | None = None,
    attention: AttentionClass = MultiHeadAttention,
    after_epoch: Callable[[Trainer], None] | None = None,
    report: Report = print,
    resume: bool = False,
    minutes: float | None = None,
) -> list[EpochRecord]:
    """Train a new run in `folder`, or `resume` the one that is there; returns the history.

    `settings` may be a preset's name or the path of a TOML file.  What settings cannot say is an
    argument: a `corpus` other than they name; a `recipe` of losses, examples, an optimizer or
    updates of your own, or a function that makes it of the `Material`; a class of `attention` for
    the `Transformer`, which `load` then needs too; and `after_epoch`, called with the trainer when
    an epoch is saved.  A resume needs the same again.

    Under torchrun every process calls this, and rank 0 writes.  Raises FileExistsError for a folder
    that is in use or not empty, ValueError for settings that do not fit the data.
    """
    require(minutes is None or minutes > 0, "minutes", "a length of time above 0", minutes)
    if resume != (settings is None):
        raise ValueError("pass either settings, for a new run, or resume=True")
    settings = load_settings(settings) if isinstance(settings, str | Path) else settings
    settings = settings or Run(folder).settings()
    Run(folder).require_current()
    if settings.recipe and recipe is None:
        raise ValueError(
            "these settings have a section [recipe], and the core reads none: train with the "
            "command nmtlib, with nmtcourse.recipes.recipe.train, or pass recipe="
        )

    with working_in(folder, settings.training.device, resume=resume) as (run, processes):
        # Reported when the run is created, so that what is refused before leaves nothing behind.
        lines = [f"$ {command_line()}"]
        saved = describe_file(run.state_file) if run.state_file.is_file() else None

        corpus = corpus or load_corpus(settings.corpus)
        if not resume:
            tags = {f"{side}_language": getattr(corpus, f"{side}_language") for side in SIDES}
            settings = replace(settings, corpus=corpus.origin or CorpusSettings(**tags))

        start = None
        if settings.training.init_from and not saved:
            languages = settings.corpus.languages
            start = find_start(settings.training.init_from, languages, settings.tokenizer)

        # A resume has the vocabularies of its run, and a run that starts from another has those.
        if saved:
            codecs = saved.source, saved.target
        elif start:
            codecs = start.described().source, start.described().target
        else:
            codecs = make_codecs(corpus, settings.tokenizer, processes)
        settings = settings.with_vocabularies(*(len(codec.vocab) for codec in codecs))

        readable = settings.model.max_length
        longest = min(settings.training.max_length, readable)
        training, too_long = encode_pairs(corpus.train, *codecs, longest)
        validation, unread = encode_pairs(corpus.validation, *codecs, readable)
        sizes = " and ".join(f"{len(codec.vocab):,}" for codec in codecs)
        lines.append(
            f"{corpus.name}: {len(training):,} training pairs, {len(validation):,} for validation; "
            f"vocabularies {sizes}"
        )
        if too_long or unread:
            lines.append(
                f"left out: {too_long} training pairs longer than {longest} tokens, {unread} pairs "
                f"for validation longer than {readable}"
            )
        lines += corpus.notes

        if callable(recipe):
            recipe = recipe(Material(corpus, codecs, training, validation, lines.append))
        if not isinstance(recipe, Recipe | None):
            raise ValueError(f"recipe= made {recipe!r}; expected a Recipe")
        recipe = recipe or Recipe()
        identity = {**recipe.identity, "corpus": digest_of(chain(training, validation))}
        recipe = replace(recipe, identity=identity)
        command = saved.command if saved else run.command() or command_line()
        description = Description(settings, *codecs, command)

        model = make_model(settings.model, settings.training.seed, attention, start)
        trainer = Trainer(
            model,
            training,
            validation,
            settings.training,
            run,
            recipe,
            after_epoch=after_epoch,
            processes=processes,
            description=description,
            report=run.reporting(report),
        )

        if processes.is_main and not resume:
            Run.create(run.folder, settings)
        processes.wait()
        trainer.report("\n".join([*lines, *describe_trainer(trainer)]))

        if saved:
            trainer.resume()
            # It has compared the digest of the corpus.  Where that is in another place now, this is
            # written before the next epoch: whatever reads the run after one looks for it there.
            if corpus.origin not in (None, settings.corpus):
                moved = replace(settings, corpus=corpus.origin)
                trainer.description = replace(description, settings=moved)
                if processes.is_main:
                    write_atomically(run.settings_file, moved.to_json())
        history = trainer.fit(minutes)

        if processes.is_main and history:
            translator = Translator.load(run.folder, attention=attention)
            write_samples(translator, run.samples_file, corpus.validation[:5])
        return history


@contextmanager
def working_in(folder: str | Path, device: str, *, resume: bool) -> Iterator[tuple[Run, Processes]]:
    """A block that trains: the run, which no other process may train, and who works at it.

    The caller's random numbers stay his own.  Raises FileExistsError for a folder that is in use,
    or not empty where nothing is resumed.
    """
    processes = Processes(choose_device(device))
    try:
        run = Run(processes.broadcast(str(folder)))
        with ExitStack() as stack:
            if processes.is_main:
                if not resume:
                    run.require_free()  # before a lock is left among somebody's other files
                stack.enter_context(run.lock())
            gpus = [processes.device] if processes.device.type == "cuda" else []
            stack.enter_context(torch.random.fork_rng(gpus))
            yield run, processes
    except LostProcess as error:
        if not Run(folder).state_file.is_file():  # nothing was trained
            raise
        advice = f"start the same torchrun command with train --resume --out {folder}"
        raise LostProcess(f"{error}; what was saved is sound: {advice}") from error
    finally:
        processes.close()


def find_start(name: str, languages: tuple[str, str], tokenizer: TokenizerSettings) -> Checkpoint:
    """The weights that `training.init_from` names: a run, by folder or name, or one file of it.

    Raises FileNotFoundError where there is none, ValueError where it reads other text.
    """
    try:
        start = read_checkpoint(find_weights(name))
        theirs = start.described().settings
    except (FileNotFoundError, ValueError) as error:
        raise type(error)(f"training.init_from: {error}") from None
    require_languages(f"training.init_from: {name}", theirs, languages, either_way=tokenizer.joint)
    if theirs.tokenizer != tokenizer:
        raise ValueError(
            f"training.init_from: the vocabularies of {name} were made with "
            f"{json.dumps(asdict(theirs.tokenizer))}; give this run the same [tokenizer]"
        )
    return start


def require_languages(
    where: str, theirs: Settings, languages: tuple[str, str], *, either_way: bool
) -> None:
    """Raise ValueError naming `where` a run with the settings `theirs` has other languages."""
    known = theirs.corpus.languages
    turned = either_way and sorted(languages) == sorted(known)
    if languages != known and not turned:
        raise ValueError(
            f"{where} translates {'-'.join(known)}, but this corpus is "
            f"{'-'.join(languages)}; give a run of these languages"
        )


def make_codecs(corpus: Corpus, tokenizer: TokenizerSettings, processes: Processes) -> Codecs:
    """The codecs of a new run, made of the corpus, by one process for all.

    Raises ValueError where a vocabulary holds no word.
    """
    pair: Any = None
    if processes.is_main:
        pair = build_codecs(corpus, **asdict(tokenizer))
        for side, codec in zip(SIDES, pair, strict=True):
            if len(codec.vocab) <= len(SPECIALS):
                raise ValueError(
                    f"the {side} vocabulary holds no word, so every sentence would be unknown "
                    "words; choose a larger tokenizer.size or a smaller tokenizer.min_count"
                )
    return processes.broadcast(pair)


def make_model(
    config: TransformerConfig, seed: int, attention: AttentionClass, start: Checkpoint | None
) -> Transformer:
    """A model with the first weights of a seed, or with those of the run that it starts from."""
    with DrawingFrom(torch.Generator().manual_seed(seed % SEEDS)):
        model = Transformer(config, attention)
    if start:
        start.require_config(config, free=("dropout", "attention_dropout"))
        start.require_attention(attention)
        load_weights(model, start.tensors, where=start.path)
    return model


def describe_trainer(trainer: Trainer) -> list[str]:
    """Lines about the model, and what it is trained on."""
    lines, precision = [], str(trainer.precision).removeprefix("torch.")
    on_cpu = trainer.device.type == "cpu"
    if nmtlib.SPINNING and on_cpu and trainer.threads > 1:
        lines.append(
            "torch was imported first, so its threads spin, slowly on a busy machine: import "
            "nmtlib first, or set OMP_WAIT_POLICY=passive in the environment"
        )
    size = sum(trainer.model.parameter_table().values())
    line = (
        f"model of {size:,} parameters, {trainer.batches_per_epoch} batches an epoch, on "
        f"{trainer.device} in {precision}"
    )
    if on_cpu:
        line += f", {trainer.threads} threads"
    return [*lines, line]


def digest_of(examples: Iterable[Example]) -> str:
    """SHA-256 of the ids of some examples."""
    ids = sha256()
    for example in examples:
        ids.update(array("q", [len(example.source), *example.source, *example.target]))
    return ids.hexdigest()
