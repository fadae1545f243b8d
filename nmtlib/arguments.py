"""The arguments of the commands, one function for each; what the commands do with them is in
`nmtlib.cli`.
"""

from __future__ import annotations

from argparse import ArgumentParser, _ActionsContainer
from pathlib import Path


def build_parser() -> ArgumentParser:
    """All commands and their options."""
    parser = ArgumentParser(
        prog="nmtlib", description="Train, evaluate and use a Transformer for translation."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_train(commands.add_parser("train", help="train a preset, or resume a run"))
    add_evaluate(commands.add_parser("evaluate", help="score a run on a split of its corpus"))
    add_translate(
        commands.add_parser("translate", help="translate arguments, or standard input line by line")
    )
    add_export(
        commands.add_parser(
            "export", help="write the model of a run in the format of another program"
        )
    )
    add_data(
        commands.add_parser(
            "data", help="list, fetch or check corpora, or prepare one that is larger than memory"
        )
    )
    add_summary(
        commands.add_parser(
            "summary",
            help="show the settings and parameters of a preset or run; alone: all presets",
        )
    )
    add_check(
        commands.add_parser(
            "check", help="run the behaviour checks on your own Transformer, or on nmtlib"
        )
    )
    return parser


def add_set(parser: _ActionsContainer, example: str) -> None:
    """`--set KEY=VALUE`, as often as wanted."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="assignments",
        help=f"change one setting, such as {example}; may be repeated",
    )


def add_run(parser: ArgumentParser) -> None:
    """The run folder that most commands read."""
    parser.add_argument("folder", type=Path, metavar="RUN")


def add_beam(parser: ArgumentParser) -> None:
    """`--beam N`."""
    parser.add_argument(
        "--beam", type=int, help="beam size, 1 = greedy (default: the run's setting)"
    )


def add_train(train: ArgumentParser) -> None:
    """Arguments of `nmtlib train`."""
    train.add_argument(
        "preset", nargs="?", help="name of a preset or path of a .toml file (see: nmtlib summary)"
    )
    add_set(train, "training.epochs=5")
    train.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="run folder (default: runs/PRESET, or the first free runs/PRESET-2, …)",
    )
    train.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in --out, or the newest of this preset",
    )
    train.add_argument(
        "--minutes", type=float, metavar="N", help="stop cleanly after N minutes of training"
    )
    train.add_argument(
        "--evaluate", action="store_true", help="then evaluate on the test and challenge splits"
    )


def add_evaluate(evaluate: ArgumentParser) -> None:
    """Arguments of `nmtlib evaluate`."""
    add_run(evaluate)
    evaluate.add_argument(
        "--split", default="test", help="train, validation, test (default) or challenge"
    )
    add_beam(evaluate)
    evaluate.add_argument(
        "--length-penalty", type=float, metavar="A", help="exponent of the length penalty, 0 = none"
    )
    evaluate.add_argument("--output", type=Path, metavar="FILE", help="write the JSON here, too")


def add_translate(translate: ArgumentParser) -> None:
    """Arguments of `nmtlib translate`."""
    add_run(translate)
    translate.add_argument("sentences", nargs="*", metavar="SENTENCE")
    add_beam(translate)


def add_export(export: ArgumentParser) -> None:
    """Arguments of `nmtlib export`."""
    add_run(export)
    export.add_argument(
        "--to",
        required=True,
        metavar="FORMAT",
        help="safetensors, marian or pegasus (Hugging Face), ctranslate2, onnx",
    )
    export.add_argument(
        "--out", type=Path, metavar="DIR", help="a new folder (default: RUN/FORMAT)"
    )
    export.add_argument("--quantization", metavar="TYPE", help="for ctranslate2: int8, float16, …")


def add_data(data: ArgumentParser) -> None:
    """Arguments of `nmtlib data`."""
    data.add_argument("action", choices=["list", "fetch", "check", "prepare"])
    data.add_argument(
        "name", nargs="?", help="name of a corpus (fetch, check); preset or .toml file (prepare)"
    )
    prepare = data.add_argument_group(
        "prepare: encode a corpus into a folder; train with --set corpus.prepared=FOLDER"
    )
    prepare.add_argument("--out", type=Path, metavar="FOLDER", help="the new folder")
    add_set(prepare, "tokenizer.size=32000")
    prepare.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help="learn the vocabularies from at most N training pairs (default: a million)",
    )
    prepare.add_argument(
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
    check.add_argument(
        "implementation",
        nargs="?",
        metavar="FILE:FACTORY",
        help="a file and its function that returns a model or an Adapter (default: nmtlib)",
    )
    check.add_argument(
        "--only", action="append", metavar="NAME", help="one check, or a subject such as masks"
    )
    check.add_argument("--seed", type=int, default=0)
