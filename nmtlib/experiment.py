"""A run from its settings to its weights: builds corpus, codecs, model and trainer."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import torch

import nmtlib
from nmtlib import registry
from nmtlib.arguments import PathLike, checked, instance
from nmtlib.data.batching import Example
from nmtlib.data.codec import Codec, build_codecs, encode_pairs
from nmtlib.data.corpora import load_corpus
from nmtlib.data.corpus import Corpus
from nmtlib.errors import did_you_mean, require
from nmtlib.files import write_atomically
from nmtlib.inference.evaluate import write_samples
from nmtlib.inference.translator import Translator
from nmtlib.model.embeddings import DrawingFrom
from nmtlib.model.transformer import Transformer
from nmtlib.presets import load_settings
from nmtlib.run import Run, command_line, find_run
from nmtlib.settings import CorpusSettings, Settings
from nmtlib.specials import SPECIALS
from nmtlib.training.checkpoint import load_weights, read_weights
from nmtlib.training.hardware import LostProcess, Processes, choose_device
from nmtlib.training.history import EpochRecord
from nmtlib.training.trainer import SEEDS, Recipe, Trainer

Report = Callable[[str], None]
Remarks = Callable[[Settings, Corpus, tuple[Codec, Codec]], list[str]]
SIDES = ("source", "target")


@dataclass(frozen=True)
class Material:
    """What a run is trained on: `training` and `validation` are pairs of the corpus as ids."""

    settings: Settings
    corpus: Corpus
    codecs: tuple[Codec, Codec]
    training: Sequence[Example]
    validation: Sequence[Example]


class Variation:
    """What the section [recipe] of the settings changes about a run; this one changes nothing.

    What `nmtlib.registry` knows under its name makes one of its options.
    """

    def corpus(self, corpus: Corpus, settings: Settings) -> Corpus:
        """The corpus to train on, before vocabularies are made of it."""
        return corpus

    def recipe(self, material: Material, report: Report) -> Recipe:
        """How the `Trainer` trains."""
        return Recipe()


def find_variation(options: Mapping[str, Any]) -> Variation:
    """What the section [recipe] asks for.  Raises ValueError for an unknown name or option."""
    if not options:
        return Variation()
    known = registry.added("recipes")
    name = str(options.get("name", ""))
    if name not in known:
        raise ValueError(
            f"[recipe] has an unknown name {name!r}{did_you_mean(name, known)}; there are "
            f"{', '.join(known) or 'none'}{registry.missing('recipes')}"
        )
    return known[name]({key: value for key, value in options.items() if key != "name"})


@checked(
    folder=PathLike,
    settings=instance("Settings, the name of a preset, or a path", Settings, str, Path, type(None)),
    corpus=instance("a Corpus", Corpus, type(None)),
    resume=bool,
    minutes=float | None,
)
def train(
    folder: str | Path,
    settings: Settings | str | Path | None = None,
    *,
    corpus: Corpus | None = None,
    resume: bool = False,
    minutes: float | None = None,
    report: Report = print,
    after_epoch: Callable[[Trainer], None] | None = None,
    remarks: Remarks | None = None,
    moved: Settings | None = None,
) -> list[EpochRecord]:
    """Train a new run in `folder`, or `resume` the one that is there; returns the history.

    `settings` may be a preset's name or the path of a TOML file; `corpus` replaces the one that
    they name.  `remarks` makes lines to report of settings, corpus and codecs.  `moved` are the
    settings of a resumed run whose corpus is in another place now.  Under torchrun every process
    calls this, and rank 0 writes.  Raises FileExistsError for a folder that is in use or not empty,
    ValueError for settings that do not fit the data.
    """
    require(minutes is None or minutes > 0, "minutes", "a length of time above 0", minutes)
    if resume != (settings is None):
        raise ValueError("pass either settings, for a new run, or resume=True")
    settings = load_settings(settings) if isinstance(settings, str | Path) else settings
    settings = settings or Run(folder).settings()
    processes = Processes(choose_device(settings.training.device))
    try:
        run = Run(processes.broadcast(str(folder)))
        if processes.is_main and not resume:
            run.require_free()  # before a lock is left among somebody's other files
        gpus = [processes.device] if processes.device.type == "cuda" else []
        lock = run.lock() if processes.is_main else nullcontext()
        with lock, torch.random.fork_rng(gpus):  # the caller's random numbers stay his own
            lines: list[str] = [f"$ {command_line()}"]
            trainer, pairs = make_trainer(
                run, settings, corpus, resume, processes, lines.append, remarks
            )
            trainer.after_epoch = after_epoch
            trainer.report = run.reporting(report) if processes.is_main else lambda line: None
            trainer.report("\n".join(lines))
            return finish(trainer, run, pairs, minutes, moved)
    except LostProcess as error:
        if not Run(folder).last_file.is_file():  # nothing was trained
            raise
        advice = f"start the same torchrun command with train --resume --out {folder}"
        raise LostProcess(f"{error}; what was saved is sound: {advice}") from error
    finally:
        processes.close()


def finish(
    trainer: Trainer,
    run: Run,
    corpus: Corpus,
    minutes: float | None,
    moved: Settings | None = None,
) -> list[EpochRecord]:
    """Train from the last save, if there is one, and write samples of translations."""
    if run.last_file.is_file():
        trainer.resume()
        # `resume` has compared the digest of the corpus.  Its new place is written before the next
        # epoch: whatever reads the run after an epoch looks for the corpus there.
        if moved and trainer.processes.is_main:
            write_atomically(run.settings_file, moved.to_json())
        if trainer.progress.epoch >= trainer.settings.epochs:
            more = f"train on in a new run with --set training.init_from={run.folder}"
            trainer.report(f"all epochs are trained; {more}")
    history = trainer.fit(minutes)
    if trainer.processes.is_main and history:
        write_samples(Translator.load(run.folder), run.samples_file, corpus.validation[:5])
    return history


def make_trainer(
    run: Run,
    settings: Settings,
    corpus: Corpus | None,
    resume: bool,
    processes: Processes,
    report: Report,
    remarks: Remarks | None = None,
) -> tuple[Trainer, Corpus]:
    """Make corpus, codecs, examples, recipe, model and trainer, in this order.

    Raises ValueError where settings and data do not fit together; then nothing has been written.
    """
    variation = find_variation(settings.recipe)
    if corpus and not resume:
        languages = {f"{s}_language": getattr(corpus, f"{s}_language") for s in SIDES}
        settings = replace(settings, corpus=CorpusSettings(**languages))
    corpus = variation.corpus(corpus or load_corpus(settings.corpus), settings)
    origin = None if run.last_file.is_file() else find_origin(settings)
    codecs = run.codecs() if resume else make_codecs(settings, corpus, origin, processes)
    settings = settings.with_vocabularies(*(len(codec.vocab) for codec in codecs))
    material = read_material(settings, corpus, codecs, report)
    for remark in remarks(settings, corpus, codecs) if remarks else ():
        report(remark)
    recipe = variation.recipe(material, report)
    with DrawingFrom(torch.Generator().manual_seed(settings.training.seed % SEEDS)):
        model = Transformer(settings.model)
    if origin:
        tensors = read_weights(origin, model.config, free=("dropout", "attention_dropout"))
        load_weights(model, tensors, where=origin.folder)
    recipe = replace(recipe, identity={**recipe.identity, **identity_of(material)})
    split = material.training, material.validation
    trainer = Trainer(
        model, *split, settings.training, run, recipe, processes=processes, report=report
    )
    precision = str(trainer.precision).removeprefix("torch.")
    if nmtlib.SPINNING and trainer.device.type == "cpu" and trainer.threads > 1:
        advice = "import nmtlib first, or set OMP_WAIT_POLICY=passive in the environment"
        report(f"torch was imported first, so its threads spin, slowly on a busy machine: {advice}")
    report(
        f"model of {sum(model.parameter_table().values()):,} parameters, "
        f"{trainer.batches_per_epoch} batches an epoch, on {trainer.device} in {precision}"
        + f", {trainer.threads} threads"
        * (trainer.device.type == "cpu")
    )
    if processes.is_main and not resume:
        Run.create(run.folder, settings, *codecs)
    processes.wait()
    return trainer, corpus


def make_codecs(
    settings: Settings, corpus: Corpus, origin: Run | None, processes: Processes
) -> tuple[Codec, Codec]:
    """The codecs of a new run: those of the run that it starts from, or made of the corpus.

    Raises ValueError where a vocabulary holds no word.
    """
    pair: Any = None
    if processes.is_main:
        pair = origin.codecs() if origin else build_codecs(corpus, **asdict(settings.tokenizer))
        for side, codec in zip(SIDES, pair, strict=True):
            if len(codec.vocab) <= len(SPECIALS):
                raise ValueError(
                    f"the {side} vocabulary holds no word, so every sentence would be unknown "
                    "words; choose a larger tokenizer.size or a smaller tokenizer.min_count"
                )
    return processes.broadcast(pair)


def read_material(
    settings: Settings, corpus: Corpus, codecs: tuple[Codec, Codec], report: Report
) -> Material:
    """The pairs of a corpus as ids; reports how many there are and were left out."""
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
    for note in corpus.notes:
        report(note)
    return Material(settings, corpus, codecs, training, validation)


def find_origin(settings: Settings) -> Run | None:
    """The run that `training.init_from` names, by its folder or its name; None without a name.

    Raises FileNotFoundError where there is none, ValueError where it reads other text.
    """
    if not settings.training.init_from:
        return None
    try:
        run = find_run(settings.training.init_from)
        theirs = run.settings()
    except (FileNotFoundError, ValueError) as error:
        raise type(error)(f"training.init_from: {error}") from None
    require_languages("training.init_from", run, settings, either_way=settings.tokenizer.joint)
    if theirs.tokenizer != settings.tokenizer:
        raise ValueError(
            f"training.init_from: the vocabularies of {run.folder} were made with "
            f"{json.dumps(asdict(theirs.tokenizer))}; give this run the same [tokenizer]"
        )
    return run


def require_languages(where: str, run: Run, settings: Settings, *, either_way: bool) -> None:
    """Raise ValueError naming `where` a run is given that translates other languages."""
    languages, known = settings.corpus.languages, run.settings().corpus.languages
    turned = either_way and sorted(languages) == sorted(known)
    if languages != known and not turned:
        raise ValueError(
            f"{where}: {run.folder} translates {'-'.join(known)}, but this corpus is "
            f"{'-'.join(languages)}; give a run of these languages"
        )


def digest_of(examples: Iterable[Example]) -> str:
    """SHA-256 of the ids of some examples."""
    ids = sha256()
    for example in examples:
        ids.update(array("q", [len(example.source), *example.source, *example.target]))
    return ids.hexdigest()


def identity_of(material: Material) -> dict[str, str]:
    """SHA-256 of each thing without which this would be another run; see `Run.digests`."""
    pairs = zip(SIDES, material.codecs, strict=True)
    digests = {
        f"{side}.json": sha256(codec.to_json().encode()).hexdigest() for side, codec in pairs
    }
    corpus = digest_of(chain(material.training, material.validation))
    return {"settings": material.settings.digest(), **digests, "corpus": corpus}
