"""The command line: train, evaluate, translate, export, data, summary, check."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmtlib.arguments import build_parser

if TYPE_CHECKING:  # at run time each command imports what it needs, so that --help is quick
    from nmtlib.data.corpus import Corpus
    from nmtlib.inference.translator import Translator

EXPECTED_ERRORS = (
    ValueError,
    OSError,
    FloatingPointError,
    ModuleNotFoundError,
)  # for input that it cannot use


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (0 good, 1 an error that was explained, 130
    interrupted).
    """
    options = build_parser().parse_args(arguments)
    try:
        return COMMANDS[options.command](options) or 0
    except EXPECTED_ERRORS as error:
        print(f"nmtlib: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("nmtlib: interrupted; what was saved is complete", file=sys.stderr)
        return 130


def command_train(options: argparse.Namespace) -> None:
    """Train a preset or resume a run, and evaluate it where that is asked for."""
    from nmtlib.experiment import train
    from nmtlib.settings import load_settings

    if not options.preset and not (options.resume and options.out):
        raise ValueError(
            "train needs the name of a preset, or --resume with --out; list the presets with: nmtlib summary"
        )
    if options.minutes is not None and not options.minutes > 0:
        raise ValueError(f"--minutes is a length of time greater than 0, not {options.minutes}")
    folder, settings = choose_folder(options), None
    if options.resume:
        if options.assignments:
            raise ValueError(
                "--set cannot change a run that is resumed: its settings are part of it"
            )
    else:
        settings = load_settings(options.preset).with_assignments(options.assignments)
    train(folder, settings, minutes=options.minutes, report=lambda line: print(line, flush=True))
    if os.environ.get("RANK", "0") == "0":  # of the processes that torchrun started, one speaks
        print(f"the run lies in {folder}", flush=True)
        if options.evaluate:
            evaluate_and_show(folder)


def choose_folder(options: argparse.Namespace) -> Path:
    """The run folder: --out, or the first free one (the last used one, to resume) named after the
    preset.
    """
    if options.out:
        return options.out
    stem = Path("runs") / Path(options.preset).stem
    number, folder = 1, stem
    while folder.exists():
        number += 1
        last, folder = folder, stem.with_name(f"{stem.name}-{number}")
    if not options.resume:
        return folder
    if number == 1:
        raise FileNotFoundError(f"there is no run {stem} to resume; start one without --resume")
    return last


def evaluate_and_show(folder: Path) -> None:
    """Score the test split, and the challenge split where there is one, and show five translations."""
    from nmtlib.experiment import format_samples, load_corpus
    from nmtlib.inference.translator import Translator

    translator = Translator.load(folder)
    corpus = load_corpus(translator.settings.corpus)
    hypotheses = evaluate_split(translator, corpus, folder, "test")
    if corpus.challenge:
        evaluate_split(translator, corpus, folder, "challenge")
    print("\n".join(["", *format_samples(corpus.test[:5], hypotheses[:5])]))


def evaluate_split(
    translator: Translator,
    corpus: Corpus,
    folder: Path,
    split: str,
    output: Path | None = None,
    **search: Any,
) -> list[str]:
    """Evaluate, print, and write the result into the run folder; returns the translations."""
    from nmtlib.experiment import training_summary
    from nmtlib.files import write_atomically
    from nmtlib.inference.evaluate import evaluate

    evaluation, hypotheses = evaluate(translator, corpus, split, **search)
    print("\n".join(evaluation.lines()), flush=True)
    stem = f"{split}-beam{evaluation.beam}"
    if evaluation.length_penalty != translator.settings.decoding.length_penalty:
        stem += f"-penalty{evaluation.length_penalty:g}"
    data = (
        json.dumps(
            {**evaluation.to_dict(), "training": training_summary(folder)},
            indent=2,
            ensure_ascii=False,
        )
        + "\n"
    ).encode()
    for path in [folder / f"{stem}.json"] + ([output] if output else []):
        write_atomically(path, data)
    write_atomically(folder / f"{stem}.txt", ("\n".join(hypotheses) + "\n").encode())
    return hypotheses


def command_evaluate(options: argparse.Namespace) -> None:
    """Score a run on one split."""
    from nmtlib.experiment import load_corpus
    from nmtlib.inference.translator import Translator

    translator = Translator.load(options.folder)
    if options.split == "train" and translator.settings.corpus.prepared:
        raise ValueError(
            "a prepared corpus keeps no text of its training pairs; evaluate validation, test or challenge"
        )
    corpus = load_corpus(translator.settings.corpus)
    evaluate_split(
        translator,
        corpus,
        options.folder,
        options.split,
        options.output,
        beam=options.beam,
        length_penalty=options.length_penalty,
    )


def command_translate(options: argparse.Namespace) -> None:
    """Translate the sentences given, or standard input."""
    from nmtlib.inference.translator import Translator

    translator = Translator.load(options.folder)
    if options.sentences:
        print("\n".join(translator.translate(options.sentences, beam=options.beam)))
        return
    for number, line in enumerate(
        sys.stdin, start=1
    ):  # one by one: a person at a terminal waits for each answer
        try:
            print(translator.translate([line.strip()], beam=options.beam)[0], flush=True)
        except ValueError as error:
            raise ValueError(f"line {number}: {str(error).removeprefix('sentence 1 ')}") from None


def command_export(options: argparse.Namespace) -> None:
    """Write a model in another format."""
    from nmtlib.extras.export import export

    folder = export(options.folder, options.to, options.out, quantization=options.quantization)
    print(f"the model lies in {folder}; how to load it: {folder / 'README.md'}")


def command_data(options: argparse.Namespace) -> int:
    """List, fetch, check or prepare corpora; 1 where a corpus is not complete."""
    from nmtlib.data.corpora import check, fetch, names

    if options.action == "prepare":
        return command_prepare(options)
    if options.out or options.assignments or options.sample is not None or options.codecs:
        raise ValueError(
            f"--out, --set, --sample and --codecs are for data prepare, not for data {options.action}"
        )
    if options.action == "list":
        print("\n".join(names()))
        return 0
    if not options.name:
        raise ValueError(f"data {options.action} needs the name of a corpus: {', '.join(names())}")
    if options.action == "fetch":
        print(f"{options.name} is complete in {fetch(options.name)}")
        return 0
    report = check(options.name)
    print("\n".join(report.lines))
    return 0 if report.ok else 1


def command_prepare(options: argparse.Namespace) -> int:
    """Encode a corpus into a folder that is read through a memory map."""
    from nmtlib.experiment import prepare_corpus
    from nmtlib.settings import load_settings

    if not options.name or not options.out:
        raise ValueError("data prepare needs a preset or a .toml file, and --out FOLDER")
    settings = load_settings(options.name).with_assignments(options.assignments)
    limit = {} if options.sample is None else {"sample": options.sample}
    report = partial(print, flush=True)
    prepare_corpus(settings, options.out, codecs=options.codecs, report=report, **limit)
    print(
        f"the prepared corpus lies in {options.out}; train from it with: --set corpus.prepared={options.out}"
    )
    return 0


def command_summary(options: argparse.Namespace) -> None:
    """List the presets, or show one of them or a run."""
    from nmtlib.experiment import load_run_settings
    from nmtlib.settings import load_settings, presets

    if not options.what:
        print("\n".join(presets()))
        return
    folder = Path(options.what)
    if (folder / "settings.json").is_file():
        settings = load_run_settings(folder)
        print(settings.to_json())
        show_run(folder, settings.training.epochs)
    else:
        print(load_settings(options.what).to_json())


def command_check(options: argparse.Namespace) -> int:
    """Run the behaviour checks; 1 where one of them found something."""
    from nmtlib.checks import run_checks
    from nmtlib.checks.parts import ours
    from nmtlib.checks.student import load_adapter

    adapter = load_adapter(options.implementation) if options.implementation else ours()
    report = run_checks(adapter, only=options.only, seed=options.seed)
    print(report)
    return 0 if report.ok else 1


def show_run(folder: Path, epochs: int) -> None:
    """The parameter table and the last epoch of a run."""
    from nmtlib.inference.translator import Translator
    from nmtlib.training.history import read_history

    table = Translator.load(folder).model.parameter_table()
    for part, count in table.items():
        print(f"{part:<22}{count:>14,}")
    print(f"{'total':<22}{sum(table.values()):>14,}")
    history = read_history(folder / "history.csv")
    print(history[-1].line(epochs))


COMMANDS: dict[str, Callable[[argparse.Namespace], int | None]] = {
    "train": command_train,
    "evaluate": command_evaluate,
    "translate": command_translate,
    "export": command_export,
    "data": command_data,
    "summary": command_summary,
    "check": command_check,
}
