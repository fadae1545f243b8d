"""The command line: train, evaluate, translate, export, data, summary, check."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # at run time each command imports what it needs, so that --help is quick
    from nmtlib.data.corpus import Corpus
    from nmtlib.inference.translator import Translator

EXPECTED_ERRORS = (
    ValueError,
    OSError,
    FloatingPointError,
    ModuleNotFoundError,
)  # what the library raises for input that it cannot use


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = argparse.ArgumentParser(
        prog="nmtlib", description="Train, evaluate and use a Transformer for translation."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    train = commands.add_parser("train", help="train a preset, or resume a run")
    train.add_argument("preset", nargs="?", help="name of a preset or path of a .toml file (see: nmtlib summary)")
    train.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments",
                       help="change one setting, such as training.epochs=5; may be repeated")  # fmt: skip
    train.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="run folder (default: runs/PRESET, or the first free runs/PRESET-2, …)",
    )
    train.add_argument(
        "--resume", action="store_true", help="go on with the run in --out, or the newest of this preset"
    )
    train.add_argument("--minutes", type=float, metavar="N", help="stop cleanly after N minutes of training")
    train.add_argument("--evaluate", action="store_true", help="then evaluate on the test and challenge splits")
    train.set_defaults(run=command_train)

    evaluate = commands.add_parser("evaluate", help="score a run on a split of its corpus")
    evaluate.add_argument("folder", type=Path, metavar="RUN")
    evaluate.add_argument("--split", default="test", help="train, validation, test (default) or challenge")
    evaluate.add_argument("--beam", type=int, help="beam size, 1 = greedy (default: the run's setting)")
    evaluate.add_argument("--length-penalty", type=float, metavar="A", help="exponent of the length penalty, 0 = none")
    evaluate.add_argument("--output", type=Path, metavar="FILE", help="write the JSON here, too")
    evaluate.set_defaults(run=command_evaluate)

    translate = commands.add_parser("translate", help="translate arguments, or standard input line by line")
    translate.add_argument("folder", type=Path, metavar="RUN")
    translate.add_argument("sentences", nargs="*", metavar="SENTENCE")
    translate.add_argument("--beam", type=int, help="beam size, 1 = greedy (default: the run's setting)")
    translate.set_defaults(run=command_translate)

    export = commands.add_parser("export", help="write the model of a run in the format of another program")
    export.add_argument("folder", type=Path, metavar="RUN")
    export.add_argument("--to", required=True, metavar="FORMAT",
                        help="safetensors, marian or pegasus (Hugging Face), ctranslate2, onnx")  # fmt: skip
    export.add_argument("--out", type=Path, metavar="DIR", help="a new folder (default: RUN/FORMAT)")
    export.add_argument("--quantization", metavar="TYPE", help="for ctranslate2: int8, float16, …")
    export.set_defaults(run=command_export)

    data = commands.add_parser("data", help="list, fetch or check corpora, or prepare one that is larger than memory")
    data.add_argument("action", choices=["list", "fetch", "check", "prepare"])
    data.add_argument("name", nargs="?", help="name of a corpus (fetch, check); preset or .toml file (prepare)")
    prepare = data.add_argument_group("prepare: encode a corpus into a folder; train with --set corpus.prepared=FOLDER")
    prepare.add_argument("--out", type=Path, metavar="FOLDER", help="the new folder")
    prepare.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments",
                         help="change one setting, such as tokenizer.size=32000; may be repeated")  # fmt: skip
    prepare.add_argument("--sample", type=int, metavar="N",
                         help="learn the vocabularies from at most N training pairs (default: a million)")  # fmt: skip
    prepare.add_argument("--codecs", type=Path, metavar="RUN",
                         help="take the vocabularies of this run or prepared folder, and learn none")  # fmt: skip
    data.set_defaults(run=command_data)

    summary = commands.add_parser(
        "summary", help="show the settings and parameters of a preset or run; alone: all presets"
    )
    summary.add_argument("what", nargs="?", metavar="PRESET|RUN")
    summary.set_defaults(run=command_summary)

    check = commands.add_parser("check", help="run the behaviour checks on your own Transformer, or on nmtlib")
    check.add_argument("implementation", nargs="?", metavar="FILE:FACTORY",
                       help="a file and its function that returns a model or an Adapter (default: nmtlib)")  # fmt: skip
    check.add_argument("--only", action="append", metavar="NAME", help="one check, or a subject such as masks")
    check.add_argument("--seed", type=int, default=0)
    check.set_defaults(run=command_check)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (0 good, 1 an error that was explained, 130 interrupted)."""
    options = build_parser().parse_args(arguments)
    try:
        return options.run(options) or 0
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
            raise ValueError("--set cannot change a run that is resumed: its settings are part of it")
    else:
        settings = load_settings(options.preset).with_assignments(options.assignments)
    train(folder, settings, minutes=options.minutes, report=lambda line: print(line, flush=True))
    if os.environ.get("RANK", "0") == "0":  # of the processes that torchrun started, one speaks
        print(f"the run lies in {folder}", flush=True)
        if options.evaluate:
            evaluate_and_show(folder)


def choose_folder(options: argparse.Namespace) -> Path:
    """The run folder: --out, or the first free one (the last used one, to resume) named after the preset."""
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
    translator: Translator, corpus: Corpus, folder: Path, split: str, output: Path | None = None, **search: Any
) -> list[str]:
    """Evaluate, print, and write the result into the run folder; returns the translations."""
    from nmtlib.experiment import training_summary
    from nmtlib.inference.evaluate import evaluate
    from nmtlib.training.checkpoint import write_atomically

    evaluation, hypotheses = evaluate(translator, corpus, split, **search)
    print("\n".join(evaluation.lines()), flush=True)
    stem = f"{split}-beam{evaluation.beam}"
    if evaluation.length_penalty != translator.settings.decoding.length_penalty:
        stem += f"-penalty{evaluation.length_penalty:g}"
    data = (
        json.dumps({**evaluation.to_dict(), "training": training_summary(folder)}, indent=2, ensure_ascii=False) + "\n"
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
    corpus = load_corpus(translator.settings.corpus)
    evaluate_split(translator, corpus, options.folder, options.split, options.output, beam=options.beam,
                   length_penalty=options.length_penalty)  # fmt: skip


def command_translate(options: argparse.Namespace) -> None:
    """Translate the sentences given, or standard input."""

    from nmtlib.inference.translator import Translator

    translator = Translator.load(options.folder)
    if options.sentences:
        print("\n".join(translator.translate(options.sentences, beam=options.beam)))
        return
    for number, line in enumerate(sys.stdin, start=1):  # one by one: a person at a terminal waits for each answer
        try:
            print(translator.translate([line.strip()], beam=options.beam)[0], flush=True)
        except ValueError as error:
            raise ValueError(f"line {number}: {str(error).removeprefix('sentence 1 ')}") from None


def command_export(options: argparse.Namespace) -> None:
    """Write a model in another format."""

    from nmtlib.export import export

    folder = export(options.folder, options.to, options.out, quantization=options.quantization)
    print(f"the model lies in {folder}; how to load it: {folder / 'README.md'}")


def command_data(options: argparse.Namespace) -> int:
    """List, fetch, check or prepare corpora; 1 where a corpus is not complete."""

    from nmtlib.data.corpora import check, fetch, names

    if options.action == "prepare":
        return command_prepare(options)
    if options.out or options.assignments or options.sample is not None or options.codecs:
        raise ValueError(f"--out, --set, --sample and --codecs are for data prepare, not for data {options.action}")
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
    print(f"the prepared corpus lies in {options.out}; train from it with: --set corpus.prepared={options.out}")
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

    from nmtlib.teaching.adapter import ours
    from nmtlib.teaching.checks import run_checks
    from nmtlib.teaching.student import load_adapter

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
