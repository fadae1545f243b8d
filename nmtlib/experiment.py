"""A run from its settings to its weights: what ties the rooms of the package together."""

from __future__ import annotations

import json
import math
import statistics
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from nmtlib.data.batching import Example
from nmtlib.data.codec import Codec, build_codecs
from nmtlib.data.corpus import Corpus
from nmtlib.errors import require
from nmtlib.inference.evaluate import write_samples
from nmtlib.inference.translator import Translator
from nmtlib.model.transformer import Transformer
from nmtlib.presets import load_settings
from nmtlib.recipe import Start, find_recipe, find_start, load_corpus, read_examples
from nmtlib.run import Run
from nmtlib.sections import CorpusSettings
from nmtlib.settings import Settings
from nmtlib.specials import SPECIALS
from nmtlib.training.checkpoint import weights_notes
from nmtlib.training.hardware import LostProcess, Processes, choose_device, command_line
from nmtlib.training.history import EpochRecord, draw_curves, read_history
from nmtlib.training.trainer import SEEDS, Trainer

Report = Callable[[str], None]
SIDES = ("source", "target")


def train(
    folder: str | Path,
    settings: Settings | str | Path | None = None,
    *,
    corpus: Corpus | None = None,
    resume: bool = False,
    minutes: float | None = None,
    report: Report = print,
    after_epoch: Callable[[Trainer], None] | None = None,
) -> list[EpochRecord]:
    """Train a new run in `folder`, or `resume` the one that is there; returns the history.

    `settings` may be a preset's name or the path of a TOML file; `corpus` replaces the one that
    they name.  Under torchrun every process calls this, and rank 0 writes.  Raises FileExistsError
    for a folder that is in use or not empty, ValueError for settings that do not fit the data.
    """
    require(minutes is None or minutes > 0, "minutes", "a length of time above 0", minutes)
    if resume != (settings is None):
        raise ValueError("give the settings of a new run or resume=True, not both and not neither")
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
            hooks: dict[str, Any] = {"after_epoch": after_epoch, "report": lines.append}
            trainer, pairs = make_trainer(run, settings, corpus, resume, processes, **hooks)
            trainer.report = run.reporting(report) if processes.is_main else lambda line: None
            trainer.report("\n".join(lines))
            return finish(trainer, run, pairs, minutes)
    except LostProcess as error:
        if not Run(folder).last_file.is_file():  # nothing was trained
            raise
        advice = f"continue it with torchrun … -m nmtlib train --resume --out {folder}"
        raise LostProcess(f"{error}; what was saved is sound: {advice}") from error
    finally:
        processes.close()


def finish(trainer: Trainer, run: Run, corpus: Corpus, minutes: float | None) -> list[EpochRecord]:
    """Train from the last save, if there is one, and write what is left to be read."""
    if run.last_file.is_file():
        trainer.resume()
        if trainer.progress.epoch >= trainer.settings.epochs:
            more = f"train on in a new run with --set training.init_from={run.folder}"
            trainer.report(f"all epochs are trained; {more}")
    history = trainer.fit(minutes)
    if trainer.processes.is_main and history:
        draw_curves(run.curves_file, history, title=corpus.name)
        write_samples(Translator.load(run.folder), run.samples_file, corpus.validation[:5])
    return history


def make_trainer(
    run: Run,
    settings: Settings,
    corpus: Corpus | None,
    resume: bool,
    processes: Processes,
    report: Report,
    **hooks: Any,
) -> tuple[Trainer, Corpus]:
    """The trainer of a run, and its corpus.  A new run is written when all of it is known to work.

    Raises ValueError where settings and data do not fit together; then nothing has been written.
    """
    recipe = find_recipe(settings.recipe)
    if corpus and not resume:
        languages = {f"{s}_language": getattr(corpus, f"{s}_language") for s in SIDES}
        settings = replace(settings, corpus=CorpusSettings(**languages))
    corpus = recipe.corpus(corpus or load_corpus(settings.corpus), settings)
    start = None if run.last_file.is_file() else find_start(settings)
    codecs = run.codecs() if resume else make_codecs(settings, corpus, start, processes)
    settings = settings.with_vocabularies(*(len(codec.vocab) for codec in codecs))
    training, validation = read_examples(settings, corpus, codecs, report)
    hooks |= recipe.hooks(corpus, settings, codecs, training, report)
    torch.manual_seed(settings.training.seed % SEEDS)
    model = Transformer(settings.model)
    if start:
        start.load(model)
    identity = hooks.pop("identity", {}) | identity_of(settings, codecs, training, validation)
    options = {"processes": processes, "report": report, "identity": identity, **hooks}
    trainer = Trainer(model, training, validation, settings.training, run, **options)
    precision = str(trainer.precision).removeprefix("torch.")
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
    settings: Settings, corpus: Corpus, start: Start | None, processes: Processes
) -> tuple[Codec, Codec]:
    """The codecs of a new run: those of what it starts from, or made of the corpus.

    Raises ValueError where a vocabulary holds no word.
    """
    pair: Any = None
    if processes.is_main:
        pair = start.codecs() if start else build_codecs(corpus, **asdict(settings.tokenizer))
        for side, codec in zip(SIDES, pair, strict=True):
            if len(codec.vocab) <= len(SPECIALS):
                raise ValueError(
                    f"the {side} vocabulary holds no word, so every sentence would be unknown "
                    "words; choose a larger tokenizer.size or a smaller tokenizer.min_count"
                )
    return processes.broadcast(pair)


def digest_of(examples: Iterable[Example]) -> str:
    """SHA-256 of the ids of some examples."""
    ids = sha256()
    for example in examples:
        ids.update(array("q", [len(example.source), *example.source, *example.target]))
    return ids.hexdigest()


def identity_of(
    settings: Settings,
    codecs: tuple[Codec, Codec],
    training: Sequence[Example],
    validation: Sequence[Example],
) -> dict[str, str]:
    """SHA-256 of each thing without which this would be another run.

    The device and the place of the corpus may change.
    """
    sections = asdict(settings)
    del sections["training"]["device"], sections["corpus"], sections["decoding"]
    texts = {"settings": json.dumps(sections, sort_keys=True)}
    texts |= {f"{side}.json": codec.to_json() for side, codec in zip(SIDES, codecs, strict=True)}
    digests = {part: sha256(text.encode()).hexdigest() for part, text in texts.items()}
    return digests | {"corpus": digest_of(chain(training, validation))}


def training_summary(folder: str | Path) -> dict[str, Any]:
    """How a run was trained: the command, seed, epochs, minutes, speed, and which weights it kept.

    Without a log, as in the models that ship with the package, the command is None.
    """
    run = Run(folder)
    history = read_history(run.history_file)
    notes = weights_notes(run.weights_file())
    return {
        "command": run.command(),
        "seed": run.settings().training.seed,
        "epochs": len(history),
        "updates": history[-1].updates,
        "minutes": round(history[-1].seconds / 60, 2),
        "tokens_per_second": round(statistics.median(r.tokens_per_second for r in history)),
        "weights": notes.weights,
        "validation_perplexity": round(math.exp(notes.validation_nll), 3),
    }
