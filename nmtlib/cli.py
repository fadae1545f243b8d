"""The command line: train, evaluate, translate, data, models, summary, and what others add.

The functions of the core's commands are in `nmtlib.commands`, which is imported only when one runs,
so that --help is quick.  Other packages add commands through the entry-point group of that name:
each entry point is a function that gets the subparsers.
"""

from __future__ import annotations

import os
import sys
import traceback
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

# Errors of the input, told in one line; any other exception is a bug of ours.
EXPECTED_ERRORS = (ValueError, OSError, FloatingPointError, ModuleNotFoundError, MemoryError)
ABOUT_RUN = "a run folder, or the name of a model (see: nmtlib models)"
ABOUT_BEAM = "beam size, 1 = greedy (default: the run's)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 good, 1 an error explained, 130 interrupted.

    With NMTLIB_DEBUG=1 in the environment an error shows its traceback.
    """
    sys.stderr = sys.stderr or open(os.devnull, "w")  # closed by the shell: 2>&-
    if sys.stdout is None:
        return complain("standard output is closed; redirect it, as in >/dev/null", OSError())
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")  # on Windows, cp1252 otherwise
    parser = build_parser()
    options, unknown = parser.parse_known_args(arguments)
    translating = options.command == "translate"
    if unknown and translating:
        unknown = take_sentences(options, unknown)
    if unknown:
        advice = "; a sentence that begins with a dash goes after a --" if translating else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{advice}")
    try:
        status = options.run(options) or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of our output has stopped (… | head)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or exit fails once more
        return 1
    except EXPECTED_ERRORS as error:
        return complain(str(error) or "out of memory", error)
    except RuntimeError as error:
        if "allocate" not in str(error) and "out of memory" not in str(error):
            raise
        return complain(f"out of memory: {str(error).splitlines()[0]}", error)
    except KeyboardInterrupt:
        print("nmtlib: interrupted; what was saved is complete", file=sys.stderr)
        return 130


def complain(message: str, error: BaseException) -> int:
    """Print an error in one line, with NMTLIB_DEBUG=1 also its traceback; the status is 1."""
    if os.environ.get("NMTLIB_DEBUG", "0") not in ("", "0"):
        traceback.print_exception(error)
    line = " ".join(message.split())
    if len(line) > 1_500:  # a whole file, quoted
        line = f"{line[:1_000]} … {line[-400:]}"
    print(f"nmtlib: {line}", file=sys.stderr)
    return 1


def build_parser() -> ArgumentParser:
    """The commands of the core and of the entry points, with their options."""
    about = "Train, evaluate and use a Transformer for translation."
    parser = ArgumentParser(prog="nmtlib", description=about)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_core(commands)
    for entry in entry_points(group="nmtlib.commands"):
        entry.load()(commands)
    return parser


def add_core(commands: _SubParsersAction) -> None:
    """Add the commands of `nmtlib.commands`."""

    def core(name: str, about: str) -> Callable[..., Any]:
        return add_command(commands, name, f"nmtlib.commands:{name}", about).add_argument

    option = core("train", "train a preset, or resume a run")
    option("preset", nargs="?", help="name of a preset (see: nmtlib summary), or a .toml file")
    one = "change one setting, such as training.epochs=5; may be repeated"
    several: dict = {"dest": "assignments", "action": "append", "default": []}
    option("--set", metavar="KEY=VALUE", help=one, **several)
    place = "run folder (default: runs/PRESET, or the next of runs/PRESET-2, …)"
    option("--out", type=Path, metavar="DIR", help=place)
    newest = "continue the run in --out, or the newest of this preset"
    option("--resume", action="store_true", help=newest)
    option("--minutes", type=float, metavar="N", help="stop cleanly after N minutes of training")
    score = "then score the test split, and the challenge split if there is one"
    option("--evaluate", action="store_true", help=score)

    option = core("evaluate", "score a run on a split of its corpus")
    option("folder", metavar="RUN", help=ABOUT_RUN)
    option("--split", default="test", help="train, validation, test (default) or challenge")
    option("--beam", type=int, help=ABOUT_BEAM)
    option("--length-penalty", type=float, metavar="A", help="its exponent, 0 = none")
    option("--output", type=Path, metavar="FILE", help="also write the scores as JSON here")

    option = core("translate", "translate arguments, or standard input")
    option("folder", nargs="?", metavar="RUN", help=ABOUT_RUN)
    dashed = "the text; one that begins with a dash goes after a --"
    option("sentences", nargs="*", metavar="SENTENCE", help=dashed)
    option("--model", metavar="RUN", help="the same as RUN; all arguments are then sentences")
    option("--beam", type=int, help=ABOUT_BEAM)

    option = core("data", "list or fetch corpora")
    option("action", choices=["list", "fetch"])
    option("name", nargs="?", help="a corpus")

    core("models", "list the models that translate: those shipped, and runs trained here")
    option = core("summary", "show all presets, or one of them, or a run")
    option("what", nargs="?", metavar="PRESET|RUN")


def add_command(commands: _SubParsersAction, name: str, place: str, about: str) -> ArgumentParser:
    """Add a command that calls the function at `place` with its options; returns its parser."""
    command = commands.add_parser(name, help=about, description=about)
    command.set_defaults(run=deferred(place))
    return command


def deferred(place: str) -> Callable[[Namespace], int | None]:
    """The function at 'module:name', whose module is imported when it is called."""
    module, _, name = place.partition(":")
    return lambda options: getattr(import_module(module), name)(options)


def take_sentences(options: Namespace, left_over: list[str]) -> list[str]:
    """Take the sentences after an option, which argparse leaves over; returns what is unknown."""
    end = left_over.index("--") if "--" in left_over else len(left_over)
    if any(text.startswith("-") and " " not in text for text in left_over[:end]):
        return left_over
    options.sentences += left_over[:end] + left_over[end + 1 :]
    return []
