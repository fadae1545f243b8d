"""The commands and their options; what the commands do with them is in `nmtlib.cli`."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

RUN = "a run folder, or the name of a model that ships with nmtlib"


def build_parser() -> ArgumentParser:
    """All commands and their options."""
    parser = ArgumentParser(
        prog="nmtlib", description="Train, evaluate and use a Transformer for translation."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_train(commands.add_parser("train", help="train a preset, or resume a run"))
    add_evaluate(commands.add_parser("evaluate", help="score a run on a split of its corpus"))
    add_translate(commands.add_parser("translate", help="translate arguments, or standard input"))
    add_export(commands.add_parser("export", help="write the model for another program"))
    add_data(commands.add_parser("data", help="list, fetch, check or prepare corpora"))
    add_summary(commands.add_parser("summary", help="show all presets, or one of them, or a run"))
    add_check(commands.add_parser("check", help="run the behaviour checks on your Transformer"))
    return parser


def add_train(train: ArgumentParser) -> None:
    """Arguments of `nmtlib train`."""
    option = train.add_argument
    option("preset", nargs="?", help="name of a preset (see: nmtlib summary), or a .toml file")
    add_set(train, "training.epochs=5")
    option(
        "--out",
        type=Path,
        metavar="DIR",
        help="run folder (default: runs/PRESET, or the first free runs/PRESET-2, …)",
    )
    option(
        "--resume",
        action="store_true",
        help="go on with the run in --out, or the newest of this preset",
    )
    option("--minutes", type=float, metavar="N", help="stop cleanly after N minutes of training")
    option(
        "--evaluate",
        action="store_true",
        help="then score the test split, and the challenge split where there is one",
    )


def add_evaluate(evaluate: ArgumentParser) -> None:
    """Arguments of `nmtlib evaluate`."""
    option = evaluate.add_argument
    option("folder", metavar="RUN", help=RUN)
    option("--split", default="test", help="train, validation, test (default) or challenge")
    add_beam(evaluate)
    option("--length-penalty", type=float, metavar="A", help="its exponent, 0 = none")
    option("--output", type=Path, metavar="FILE", help="write the scores as JSON here, too")


def add_translate(translate: ArgumentParser) -> None:
    """Arguments of `nmtlib translate`."""
    translate.add_argument("folder", metavar="RUN", help=RUN)
    translate.add_argument("sentences", nargs="*", metavar="SENTENCE")
    add_beam(translate)


def add_export(export: ArgumentParser) -> None:
    """Arguments of `nmtlib export`."""
    option = export.add_argument
    option("folder", metavar="RUN", help=RUN)
    option(
        "--to",
        required=True,
        metavar="FORMAT",
        help="safetensors, marian or pegasus (Hugging Face), ctranslate2, onnx",
    )
    option("--out", type=Path, metavar="DIR", help="a new folder (default: RUN/FORMAT)")
    option("--quantization", metavar="TYPE", help="for ctranslate2: int8, float16, …")


def add_data(data: ArgumentParser) -> None:
    """Arguments of `nmtlib data`."""
    data.add_argument("action", choices=["list", "fetch", "check", "prepare"])
    data.add_argument("name", nargs="?", help="a corpus; for prepare, a preset or .toml file")
    prepare = data.add_argument_group(
        "prepare", "encode a corpus into a folder; train with --set corpus.prepared=FOLDER"
    )
    option = prepare.add_argument
    option("--out", type=Path, metavar="FOLDER", help="the new folder")
    add_set(prepare, "tokenizer.size=32000")
    option(
        "--sample",
        type=int,
        metavar="N",
        help="learn the vocabularies from at most N training pairs (default: a million)",
    )
    option(
        "--codecs",
        type=Path,
        metavar="RUN",
        help="take the vocabularies of this run or prepared folder, and learn none",
    )


def add_summary(summary: ArgumentParser) -> None:
    """Arguments of `nmtlib summary`."""
    summary.add_argument("what", nargs="?", metavar="PRESET|RUN")


def add_check(check: ArgumentParser) -> None:
    """Arguments of `nmtlib check`."""
    option = check.add_argument
    option(
        "implementation",
        nargs="?",
        metavar="FILE:FACTORY",
        help="a file and its function that returns a model or an Adapter (default: nmtlib)",
    )
    option("--only", action="append", metavar="NAME", help="one check, or a subject such as masks")
    option("--seed", type=int, default=0)


def add_set(parser: ArgumentParser, example: str) -> None:
    """`--set KEY=VALUE`, as often as wanted."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="assignments",
        help=f"change one setting, such as {example}; may be repeated",
    )


def add_beam(parser: ArgumentParser) -> None:
    """`--beam N`."""
    parser.add_argument("--beam", type=int, help="beam size, 1 = greedy (default: the run's)")
