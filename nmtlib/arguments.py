"""The commands and their options; what the commands do with them is in `nmtlib.cli`."""

from __future__ import annotations

from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Callable
from pathlib import Path

from nmtlib.homework.commands import add_homework

ABOUT_RUN = "a run folder, or the name of a model (see: nmtlib models)"


def build_parser() -> ArgumentParser:
    """All commands and their options."""
    about = "Train, evaluate and use a Transformer for translation."
    parser = ArgumentParser(prog="nmtlib", description=about)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    option = add(commands, "train", "train a preset, or resume a run")
    option("preset", nargs="?", help="name of a preset (see: nmtlib summary), or a .toml file")
    add_set(option, "training.epochs=5")
    place = "run folder (default: runs/PRESET, or the first free runs/PRESET-2, …)"
    option("--out", type=Path, metavar="DIR", help=place)
    newest = "go on with the run in --out, or the newest of this preset"
    option("--resume", action="store_true", help=newest)
    option("--minutes", type=float, metavar="N", help="stop cleanly after N minutes of training")
    score = "then score the test split, and the challenge split where there is one"
    option("--evaluate", action="store_true", help=score)

    add_uses_of_a_run(commands)

    option = add(commands, "data", "list, fetch or check corpora")
    option("action", choices=["list", "fetch", "check"])
    option("name", nargs="?", help="the name of a corpus")

    option = add(commands, "summary", "show all presets, or one of them, or a run")
    option("what", nargs="?", metavar="PRESET|RUN")

    add_check(commands)
    add_homework(commands)
    return parser


def add_check(commands: _SubParsersAction) -> None:
    """The command that judges an implementation."""
    option = add(commands, "check", "run the behaviour checks on your Transformer")
    factory = "a .py or .ipynb file, and its function or class that makes a model or an Adapter"
    option("implementation", nargs="?", metavar="FILE:FACTORY", help=f"{factory} (default: nmtlib)")
    option("--only", action="append", metavar="NAME", help="one check, or a subject such as masks")
    option("--seed", type=int, default=0, help="of all random numbers (default: 0)")
    lift = "take the function out of the file without running the rest: downloads, training"
    option("--lift", action="store_true", help=lift)
    for name in ("pad", "bos", "eos"):
        said = f"the id of {name.upper()} (default: what the adapter says, or is found out)"
        option(f"--{name}", type=int, metavar="ID", help=said)
    option("--source-bos", action="store_true", help="sources begin with BOS, too")
    option("--json", type=Path, metavar="FILE", help="write the report as data, too")
    option("--html", type=Path, metavar="FILE", help="write the report as a page, too")
    option("--badge", action="store_true", help="print a badge for a README, in Markdown")


def add_uses_of_a_run(commands: _SubParsersAction) -> None:
    """The commands that read a finished run."""
    option = add(commands, "evaluate", "score a run on a split of its corpus", run=True)
    option("--split", default="test", help="train, validation, test (default) or challenge")
    add_beam(option)
    option("--length-penalty", type=float, metavar="A", help="its exponent, 0 = none")
    option("--moses", action="store_true", help="BLEU on Moses' tokens, too, as papers report it")
    add_others(option)
    add_neighbours(option)
    option("--output", type=Path, metavar="FILE", help="write the scores as JSON here, too")

    option = add(commands, "translate", "translate arguments, or standard input")
    option("folder", nargs="?", metavar="RUN", help=ABOUT_RUN)
    dashed = "the text; one that begins with a dash goes after a --"
    option("sentences", nargs="*", metavar="SENTENCE", help=dashed)
    option("--model", metavar="RUN", help="the same as RUN; all arguments are then sentences")
    add_beam(option)
    add_neighbours(option)

    add(commands, "models", "list the models that translate: those shipped, and runs trained here")

    add_backtranslate(commands)

    option = add(commands, "export", "write the model for another program", run=True)
    formats = "safetensors, marian or pegasus (Hugging Face), ctranslate2, onnx"
    option("--to", required=True, metavar="FORMAT", help=formats)
    option(
        "--out", type=Path, metavar="DIR", help="a new folder (default: RUN/FORMAT, or NAME-FORMAT)"
    )
    option("--quantization", metavar="TYPE", help="for ctranslate2: int8, float16, …")

    option = add(commands, "explore", "write the model as an HTML file to play with", run=True)
    page = "the file (default: explorer.html); an older explorer page is replaced"
    option("--out", type=Path, metavar="FILE", default=Path("explorer.html"), help=page)
    largest = "how large the file may be (default: 2.5)"
    option("--megabytes", type=float, metavar="N", default=2.5, help=largest)


def add_backtranslate(commands: _SubParsersAction) -> None:
    """The command that makes synthetic pairs."""
    about = "translate sentences that have no translation, to train the other direction on them"
    option = add(commands, "backtranslate", about, run=True)
    option("--text", required=True, help="multi30k-captions, or a file with a sentence a line")
    option(
        "--out", required=True, type=Path, metavar="FILE.tsv", help="the pairs; resumed if there"
    )
    option("--beam", type=int, default=1, help="beam size (default: 1, greedy)")
    drawn = "draw each word instead, at this temperature (default: 0, do not)"
    option("--temperature", type=float, default=0.0, metavar="T", help=drawn)
    option("--seed", type=int, default=1, help="of what is drawn (default: 1)")
    option("--tag", default="", metavar="WORD", help="put this word before each source")
    forwards = "make targets, to train a model of the same direction on what this one says"
    option("--forward", action="store_true", help=forwards)
    exactness = "how a CPU multiplies; bf16 is quicker where it does so natively (default: fp32)"
    option("--precision", choices=["fp32", "bf16"], default="fp32", help=exactness)
    add_others(option)


def add(commands: _SubParsersAction, name: str, about: str, *, run: bool = False) -> Callable:
    """Add a command, which reads a run where `run` says so; returns what adds its options."""
    command = commands.add_parser(name, help=about, description=about)
    if run:
        command.add_argument("folder", metavar="RUN", help=ABOUT_RUN)
    return command.add_argument


def add_set(option: Callable, example: str) -> None:
    """`--set KEY=VALUE`, as often as wanted."""
    about = f"change one setting, such as {example}; may be repeated"
    option(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments", help=about
    )


def add_others(option: Callable) -> None:
    """`--with RUN …`, and given again it adds to these."""
    about = "further runs of the same vocabularies: all translate together (an ensemble)"
    several: dict = {"nargs": "+", "action": "extend", "default": []}
    option("--with", metavar="RUN", dest="others", help=about, **several)


def add_neighbours(option: Callable) -> None:
    """`--neighbours K` and `--neighbour-weight W`."""
    about = "look each next word up among the K most similar places of the training pairs"
    option("--neighbours", type=int, metavar="K", help=about)
    share = "how much these count beside the model, in [0, 1) (default: 0.3)"
    option("--neighbour-weight", type=float, metavar="W", help=share)


def add_beam(option: Callable) -> None:
    """`--beam N`."""
    option("--beam", type=int, help="beam size, 1 = greedy (default: the run's)")
