"""A training from its settings to its weights: what ties the rooms of the package together."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path

import torch

from nmtlib.data.batching import Example
from nmtlib.data.codec import build_codecs
from nmtlib.data.corpus import Corpus
from nmtlib.earlier_runs import start_of, teacher_runs, teachers_of
from nmtlib.examples import load_corpus, read_examples
from nmtlib.machine import command_line
from nmtlib.model.transformer import Transformer
from nmtlib.presets import load_settings
from nmtlib.records import write_samples
from nmtlib.run import Run
from nmtlib.settings import Settings
from nmtlib.specials import SPECIALS
from nmtlib.training.checkpoint import (
    load_weights,
    read_checkpoint,
    require_config,
    require_identity,
)
from nmtlib.training.distributed import LostProcess, Processes
from nmtlib.training.feed import SEEDS
from nmtlib.training.hardware import choose_device
from nmtlib.training.history import EpochRecord, draw_curves
from nmtlib.training.trainer import Trainer

Report = Callable[[str], None]
DROPOUTS = ("dropout", "attention_dropout")  # what may be another when a training starts from a run


def start_run(folder: str | Path, settings: Settings, corpus: Corpus) -> Run:
    """Make a run folder with its settings and codecs.

    Raises FileExistsError where a run is there already, ValueError where settings and data do not
    fit together; then nothing has been written.
    """
    kinds = (settings.tokenizer.kind, settings.tokenizer.target_kind)
    if settings.corpus.both_directions and "given" in kinds:
        raise ValueError(
            "corpus.both_directions: the vocabularies that a corpus is published with are of one "
            "language each; set tokenizer.kind=bpe, and no target_kind"
        )
    teacher_runs(settings)  # are they there?
    if settings.training.start:
        source, target = start_of(settings).codecs()
    else:
        source, target = build_codecs(corpus, **asdict(settings.tokenizer))
    for side, codec in (("source", source), ("target", target)):
        if len(codec.vocab) <= len(SPECIALS):
            raise ValueError(
                f"the {side} vocabulary holds no word, so every sentence would be unknown words; "
                f"choose a larger tokenizer.size or a smaller tokenizer.min_count"
            )
    complete = settings.with_vocabularies(len(source.vocab), len(target.vocab))
    return Run.create(folder, complete, source, target)


def train(
    folder: str | Path,
    settings: Settings | str | Path | None = None,
    *,
    minutes: float | None = None,
    report: Report = print,
    after_epoch: Callable[[Trainer], None] | None = None,
) -> list[EpochRecord]:
    """Train a new run in `folder`, or resume the one that is there; returns the history.

    `settings` may be the name of a preset or the path of a TOML file; where none are given, the run
    is resumed.  Nobody else can train there meanwhile.  Under torchrun every process calls this,
    and the first one writes.  Raises ValueError for `minutes` that are no length of time.
    """
    if minutes is not None and not minutes > 0:
        raise ValueError(f"minutes is a length of time greater than 0, not {minutes}")
    resuming = settings is None
    given = load_settings(settings) if isinstance(settings, str | Path) else settings
    settings = given or Run(folder).settings()
    processes = Processes(choose_device(settings.training.device))
    try:
        run = Run(processes.agree(str(folder)))
        if processes.is_main and not resuming:
            run.require_free()  # before a lock is left among somebody's other files
        with run.claimed() if processes.is_main else nullcontext():
            corpus = load_corpus(settings.corpus)
            if processes.is_main and not resuming:
                start_run(run.folder, settings, corpus)
            processes.wait()
            with nullcontext() if resuming else _removed_on_failure(run, processes):
                trainer = make_trainer(run, corpus, processes, report, after_epoch)
            if resuming and run.can_resume():
                trainer.resume()
            history = trainer.fit(minutes)
            if processes.is_main and history:
                draw_curves(run.curves_file, history, title=corpus.name)
                write_samples(run, corpus.validation[:5])
        return history
    except LostProcess as error:
        if not Run(folder).last_file.is_file():  # nothing was trained
            raise
        advice = f"give the same torchrun command, without --set, with --resume --out {folder}"
        raise LostProcess(f"{error}; what was saved is sound: {advice}") from error
    finally:
        processes.close()


@contextmanager
def _removed_on_failure(run: Run, processes: Processes) -> Iterator[None]:
    """A new run that cannot even start leaves nothing: its folder would block the next try."""
    try:
        yield
    except BaseException:
        if processes.is_main:
            run.undo_start()  # `claimed` removes the empty folder
        raise


def identity_of(
    run: Run, settings: Settings, training: Sequence[Example], validation: Sequence[Example]
) -> dict[str, str]:
    """SHA-256 of each thing without which this would be another training.

    Where the corpus lies and on which device it is trained may change.  The weights of `teachers`
    are known by their files.
    """
    sections = asdict(settings)
    del sections["training"]["device"]
    # As for the runs of versions that did not know these words:
    for name, before in {"compile": "no", "start": "", "keep": "best", "optimizer": "adam"}.items():
        if getattr(settings.training, name) == before:
            del sections["training"][name]
    if not settings.corpus.synthetic:
        del sections["training"]["synthetic_ratio"]
    if not settings.training.teachers:
        del sections["training"]["teacher_weight"]
    del sections["training"]["teachers"]  # their weights count, not where they lie
    kept = {name: sections[name] for name in ("tokenizer", "model", "training")}
    text, ids = sha256(json.dumps(kept, sort_keys=True).encode()), sha256()
    for example in chain(training, validation):
        ids.update(array("q", [len(example.source), *example.source, *example.target]))
    digests = {"settings": text, "corpus": ids}
    for teacher in teacher_runs(settings):
        digests.setdefault("teachers", sha256()).update(teacher.model_file.read_bytes())
    return {part: digest.hexdigest() for part, digest in digests.items()} | run.codec_digests()


def make_trainer(
    run: Run,
    corpus: Corpus,
    processes: Processes,
    report: Report,
    after_epoch: Callable[[Trainer], None] | None,
) -> Trainer:
    """The trainer of a run, with new weights or those to start from; it says what is trained."""
    settings, (source, target) = run.settings(), run.codecs()
    report = run.reporting(report) if processes.is_main else lambda line: None
    report(f"$ {command_line()}")
    training, validation, by_epoch = read_examples(settings, corpus, source, target, report)
    torch.manual_seed(settings.training.seed % SEEDS)
    complete = settings.with_vocabularies(len(source.vocab), len(target.vocab))
    model = Transformer(complete.model)
    if settings.training.start and not run.last_file.is_file():  # otherwise it is resumed
        start = start_of(settings)
        weights = start.weights_file()
        config, tensors, notes = read_checkpoint(weights)
        require_identity(weights, notes, start.codec_digests())
        dropouts = {name: getattr(complete.model, name) for name in DROPOUTS}
        require_config(weights, replace(config, **dropouts), complete.model)
        load_weights(model, tensors, where=weights)
    hooks: dict = {"report": report, "by_epoch": by_epoch, "after_epoch": after_epoch}
    hooks |= {"processes": processes, "teachers": [*teachers_of(run, complete)]}
    hooks["identity"] = identity_of(run, complete, training, validation)
    trainer = Trainer(model, training, validation, settings.training, run, **hooks)
    precision = str(trainer.precision).removeprefix("torch.")
    report(
        f"model of {sum(model.parameter_table().values()):,} parameters, "
        f"{trainer.batches_per_epoch} batches an epoch, on {trainer.device} in {precision}"
    )
    return trainer
