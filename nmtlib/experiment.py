"""A run: one folder that holds everything about one training, from its settings to its
translations.
"""

from __future__ import annotations

import math
import shutil
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from nmtlib.data.batching import Example, fits, make_example
from nmtlib.data.codec import Codec, build_codecs
from nmtlib.data.corpora import load
from nmtlib.data.corpus import Corpus, Pair, from_files, from_tsv
from nmtlib.extras.bpe_dropout import examples_by_epoch
from nmtlib.extras.prepared import (
    SAMPLE,
    MappedExamples,
    Prepared,
    TextPairs,
    check_free,
    learn_codecs,
    prepare,
)
from nmtlib.files import write_atomically
from nmtlib.inference.evaluate import command_line
from nmtlib.inference.translator import Translator, weights_file
from nmtlib.model.transformer import Transformer
from nmtlib.settings import CorpusSettings, Settings
from nmtlib.training.checkpoint import read_checkpoint
from nmtlib.training.distributed import LostProcess, Processes
from nmtlib.training.hardware import choose_device
from nmtlib.training.history import EpochRecord, draw_curves, read_history
from nmtlib.training.trainer import Trainer

LOG = "log.txt"  # in a run folder: the command, then every line that the training reported


def load_corpus(settings: CorpusSettings, *, streaming: bool = False) -> Corpus:
    """The corpus that the settings name, or the one that their files hold.

    Of a prepared one, `train` is what `Prepared.corpus` says; with `streaming`, own training files
    are read only when `train` is iterated.  Raises ValueError where neither a name nor training and
    validation files are given.
    """
    if settings.prepared:
        return Prepared.open(settings.prepared).corpus()
    if settings.name:
        return load(settings.name)
    if not (
        settings.train
        and settings.validation
        and settings.source_language
        and settings.target_language
    ):
        raise ValueError(
            "[corpus] needs a name, or source_language, target_language, train and validation "
            "(each one TSV file, or a source and a target file)"
        )
    splits = {}
    for split in ("train", "validation", "test"):
        files = getattr(settings, split)
        if len(files) > 2:
            raise ValueError(
                f"[corpus] {split} is one TSV file or two text files, not {len(files)} files"
            )
        if streaming and split == "train":
            splits[split] = TextPairs(files)
        else:
            splits[split] = (
                from_files(*files) if len(files) == 2 else from_tsv(files[0]) if files else []
            )
    return Corpus("own", settings.source_language, settings.target_language, **splits)


def create_run(folder: Path, settings: Settings, corpus: Corpus) -> None:
    """Make a run folder with its settings and codecs.  Raises FileExistsError where one is there
    already.
    """
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(
            f"{folder} is there already and not empty; nothing is overwritten: continue it with --resume, "
            f"or choose another --out"
        )
    tokenizer = asdict(settings.tokenizer)
    if tokenizer.pop("bpe_dropout") and "bpe" not in (
        settings.tokenizer.kind,
        settings.tokenizer.target_kind,
    ):
        raise ValueError(
            "tokenizer.bpe_dropout needs tokenizer.kind or tokenizer.target_kind bpe; set it to 0"
        )
    if settings.corpus.prepared:
        source, target = open_prepared(settings).codecs()
    else:
        source, target = build_codecs(corpus, **tokenizer)
    settings.model.config(len(source.vocab), len(target.vocab))  # raises before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "source.json", source.to_json().encode())
    write_atomically(folder / "target.json", target.to_json().encode())
    write_atomically(folder / "settings.json", settings.to_json().encode())


def prepare_corpus(
    settings: Settings,
    folder: str | Path,
    *,
    sample: int = SAMPLE,
    codecs: str | Path | None = None,
    report: Callable[[str], None] = print,
) -> None:
    """Encode the corpus of the settings into a new folder, which `[corpus] prepared` names to train
    from it.

    The vocabularies are learnt from at most `sample` training pairs, or taken from `codecs`, a run
    or prepared folder. Raises ValueError where the settings do not allow it, and as `prepare` does.
    """
    check_free(Path(folder))
    if settings.corpus.prepared:
        raise ValueError(f"this corpus is prepared already, in {settings.corpus.prepared}")
    tokenizer = asdict(settings.tokenizer)
    if tokenizer.pop("bpe_dropout"):
        raise ValueError(
            "tokenizer.bpe_dropout cuts sentences anew each epoch, and a prepared corpus is cut for good; "
            "set it to 0"
        )
    corpus = load_corpus(settings.corpus, streaming=True)
    if codecs:
        _require_tokenizer(Path(codecs), settings)
        source, target = (
            Codec.load(Path(codecs) / name) for name in ("source.json", "target.json")
        )
    else:
        source, target = learn_codecs(corpus, sample, **tokenizer)
    report(f"vocabularies {len(source.vocab):,} and {len(target.vocab):,}")
    prepare(folder, corpus, (source, target), settings.to_json(), report=report)


def open_prepared(settings: Settings) -> Prepared:
    """The prepared corpus of the settings.  Raises ValueError where they speak of another corpus or
    [tokenizer].
    """
    prepared = Prepared.open(settings.corpus.prepared)
    for key in ("name", "source_language", "target_language"):
        if getattr(settings.corpus, key) not in ("", prepared.notes[key]):
            raise ValueError(
                f"{prepared.folder} holds a corpus whose {key} is {prepared.notes[key]!r}, not "
                f"{getattr(settings.corpus, key)!r}"
            )
    _require_tokenizer(prepared.folder, settings)
    return prepared


def _require_tokenizer(folder: Path, settings: Settings) -> None:
    made = load_run_settings(folder).tokenizer
    if made != settings.tokenizer:
        raise ValueError(
            f"{folder} was made with another [tokenizer], {asdict(made)}, than the settings ask for, "
            f"{asdict(settings.tokenizer)}; they must be the same"
        )


def prepared_examples(
    settings: Settings, source: Codec, target: Codec, max_length: int
) -> tuple[MappedExamples, int]:
    """As `encode_pairs`, the training pairs of a prepared corpus.  Raises ValueError where its
    codecs are others.
    """
    prepared = open_prepared(settings)
    for side, mine, theirs in zip(
        ("source", "target"), (source, target), prepared.codecs(), strict=True
    ):
        if mine.to_json() != theirs.to_json():
            raise ValueError(
                f"{prepared.folder} has another {side} vocabulary than this run: its ids are other words; "
                f"name the folder that the run was started with"
            )
    examples = prepared.examples()
    kept = examples.up_to(max_length)
    return kept, len(examples) - len(kept)


def load_run_settings(folder: Path) -> Settings:
    """The settings of a run folder.  Raises FileNotFoundError where it is none."""
    path = folder / "settings.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not a run folder (it has no settings.json)")
    return Settings.load(path)


def encode_pairs(
    pairs: Sequence[Pair], source: Codec, target: Codec, max_length: int | None = None
) -> tuple[list[Example], int]:
    """Pairs as ids, and how many were left out for being longer than `max_length` on one side,
    specials included.
    """
    examples = [make_example(source.encode(p.source), target.encode(p.target)) for p in pairs]
    if max_length is None:
        return examples, 0
    kept = [e for e in examples if fits(e, max_length)]
    return kept, len(examples) - len(kept)


def read_examples(
    settings: Settings, corpus: Corpus, source: Codec, target: Codec, report: Callable[[str], None]
) -> tuple[Sequence[Example], list[Example], Callable[[int], Sequence[Example]] | None]:
    """Training and validation examples, and what cuts the training pairs anew for each epoch of BPE
    dropout.
    """
    longest = min(settings.training.max_length, settings.model.max_length)
    if settings.corpus.prepared:
        training, left_out = prepared_examples(settings, source, target, longest)
    else:
        training, left_out = encode_pairs(corpus.train, source, target, longest)
    resegment = None
    if settings.tokenizer.bpe_dropout:
        resegment = examples_by_epoch(
            corpus.train,
            source,
            target,
            settings.tokenizer.bpe_dropout,
            seed=settings.training.seed,
            max_length=longest,
            max_tokens=settings.training.max_tokens,
        )
    validation, unread = encode_pairs(corpus.validation, source, target, settings.model.max_length)
    report(
        f"{corpus.name}: {len(training):,} training pairs, {len(validation):,} for validation; "
        f"vocabularies {len(source.vocab):,} and {len(target.vocab):,}"
    )
    if left_out or unread:
        report(
            f"left out: {left_out} training pairs longer than {longest} tokens, {unread} pairs for validation "
            f"longer than {settings.model.max_length}"
        )
    return training, validation, resegment


def train(
    folder: str | Path,
    settings: Settings | None = None,
    *,
    minutes: float | None = None,
    report: Callable[[str], None] = print,
    after_epoch: Callable[[Trainer], None] | None = None,
) -> list[EpochRecord]:
    """Train a new run with `settings`, or resume the one in `folder` where none are given; returns
    the history.

    Under torchrun every process calls this; the first one prepares the folder and writes to it.
    """
    resuming = settings is None
    settings = load_run_settings(Path(folder)) if resuming else settings
    processes = Processes(choose_device(settings.training.device))
    try:
        folder = Path(processes.agree(str(folder)))
        corpus = load_corpus(settings.corpus)
        if processes.is_main and not resuming:
            create_run(folder, settings, corpus)
        processes.wait()
        report = _log_too(report, folder / LOG) if processes.is_main else lambda line: None
        report(f"$ {command_line()}")
        source, target = Codec.load(folder / "source.json"), Codec.load(folder / "target.json")
        training, validation, resegment = read_examples(settings, corpus, source, target, report)
        torch.manual_seed(settings.training.seed)
        model = Transformer(settings.model.config(len(source.vocab), len(target.vocab)))
        try:
            trainer = Trainer(
                model,
                training,
                validation,
                settings.training,
                folder,
                processes=processes,
                report=report,
                resegment=resegment,
                after_epoch=after_epoch,
            )
        except ValueError:
            if processes.is_main and not resuming:
                shutil.rmtree(
                    folder
                )  # ours, and without any training: it must not block the next try
            raise
        report(
            f"model of {sum(model.parameter_table().values()):,} parameters, {trainer.batches_per_epoch} batches "
            f"an epoch, on {trainer.device} in {str(trainer.precision).removeprefix('torch.')}"
        )
        if resuming and (folder / "last.safetensors").is_file():
            trainer.resume()
            report(
                f"resuming after {trainer.progress.epoch} epochs and {trainer.progress.updates} updates"
            )
        history = trainer.fit(minutes)
        if processes.is_main and history:
            draw_curves(folder / "curves.png", history, title=corpus.name)
            write_samples(folder, corpus.validation[:5])
        return history
    except LostProcess as error:
        raise LostProcess(
            f"{error}; what was saved is sound: give the same torchrun command with --resume "
            f"--out {folder}"
        ) from error
    finally:
        processes.close()


def _log_too(report: Callable[[str], None], path: Path) -> Callable[[str], None]:
    """Report a line and append it to the log of the run."""

    def both(line: str) -> None:
        report(line)
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")

    return both


def training_summary(folder: Path) -> dict[str, Any]:
    """How a run was trained: the command, seed, epochs, minutes, speed, and which weights were
    kept.
    """
    history = read_history(folder / "history.csv")
    _, _, notes = read_checkpoint(weights_file(folder))
    return {
        "command": (folder / LOG).read_text("utf-8").splitlines()[0].removeprefix("$ "),
        "seed": load_run_settings(folder).training.seed,
        "epochs": len(history),
        "updates": history[-1].updates,
        "minutes": round(history[-1].seconds / 60, 2),
        "tokens_per_second": round(statistics.median(r.tokens_per_second for r in history)),
        "weights": notes["weights"],
        "validation_perplexity": round(math.exp(notes["validation_nll"]), 3),
    }


def write_samples(folder: Path, pairs: Sequence[Pair]) -> None:
    """Write translations of some validation sentences to `samples.txt`."""
    translator = Translator.load(folder)
    limit = translator.model.config.max_length
    pairs = [p for p in pairs if len(translator.source.encode(p.source)) < limit]
    hypotheses = translator.translate([p.source for p in pairs])
    write_atomically(folder / "samples.txt", "\n".join(format_samples(pairs, hypotheses)).encode())


def format_samples(pairs: Sequence[Pair], hypotheses: Sequence[str]) -> list[str]:
    """Source, translation and reference below each other, a blank line between sentences."""
    lines = []
    for pair, hypothesis in zip(pairs, hypotheses, strict=True):
        verdict = "reference  " + ("(the same)" if hypothesis == pair.target else pair.target)
        lines += [f"source     {pair.source}", f"model      {hypothesis}", verdict, ""]
    return lines
