"""The command line: train, evaluate, translate.

The functions of the core's commands are in `nmtlib.commands`, which is imported only when one runs,
so that --help is quick.  A package above calls the same functions and adds commands of its own.
"""

from __future__ import annotations

import os
import sys
import traceback
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from nmtlib.errors import note, shown

# Errors of the input, told in one line; any other exception is a bug of ours.
EXPECTED_ERRORS = (ValueError, OSError, FloatingPointError, ModuleNotFoundError, MemoryError)
Commands: TypeAlias = "_SubParsersAction[ArgumentParser]"
ABOUT_RUN = "a run folder, or the name of a model (see: nmtlib models)"
ABOUT_BEAM = "beam size, 1 = greedy (default: the run's)"


def main(arguments: Sequence[str] | None = None, parser: ArgumentParser | None = None) -> int:
    """Run one command of a parser, by default that of the core.

    Returns the exit status: 0 good, 1 an error explained, 130 interrupted.

    With NMTLIB_DEBUG=1 in the environment an error shows its traceback.
    """
    sys.stderr = sys.stderr or open(os.devnull, "w")  # closed by the shell: 2>&-
    if sys.stdout is None:
        return complain("standard output is closed; redirect it, as in >/dev/null", OSError())
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")  # on Windows, cp1252 otherwise
    parser = parser or build_parser()
    options, unknown = parser.parse_known_args(arguments)
    translating = options.command == "translate"
    if unknown and translating:
        unknown = take_sentences(options, unknown)
    if unknown:
        advice = "; a sentence that begins with a dash goes after a --" if translating else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{advice}")
    try:
        os.getcwd()
    except FileNotFoundError as error:  # torch would abort the process
        return complain("the current folder has been deleted; change to another one", error)
    try:
        with redirect_stdout(Shown(sys.stdout)):
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
        note("interrupted; what was saved is complete")
        return 130


def complain(message: str, error: BaseException) -> int:
    """Print an error in one line, with NMTLIB_DEBUG=1 also its traceback; the status is 1."""
    if os.environ.get("NMTLIB_DEBUG", "0") not in ("", "0"):
        traceback.print_exception(error)
    line = " ".join(message.split())
    if len(line) > 1_500:  # a whole file, quoted
        line = f"{line[:1_000]} … {line[-400:]}"
    note(line)
    return 1


class Shown:
    """Standard output that escapes what a terminal would obey; see `nmtlib.errors.shown`."""

    def __init__(self, stream: Any):
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text as `shown`; returns its length."""
        self.stream.write(shown(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def build_parser() -> ArgumentParser:
    """The commands of the core with their options."""
    parser, commands = new_parser()
    for add in (add_train, add_evaluate, add_translate):
        add(commands)
    return parser


def new_parser() -> tuple[ArgumentParser, Commands]:
    """A parser without commands, and what commands are added to."""
    about = "Train, evaluate and use a Transformer for translation."
    parser = ArgumentParser(prog="nmtlib", description=about)
    return parser, parser.add_subparsers(dest="command", required=True, metavar="COMMAND")


def add_train(commands: Commands, run: str = "nmtlib.commands:train") -> None:
    """Add the command `train`, which calls the function at `run`."""
    option = add_command(commands, "train", run, "train a preset, or resume a run").add_argument
    option("preset", nargs="?", help="name of a preset (see: nmtlib summary), or a .toml file")
    one = "change one setting, such as training.epochs=5; may be repeated"
    several: dict = {"dest": "assignments", "action": "append", "default": []}
    option("--set", metavar="KEY=VALUE", help=one, **several)
    where = "run folder (default: runs/PRESET, or the next of runs/PRESET-2, …)"
    option("--out", type=Path, metavar="DIR", help=where)
    newest = "continue the run in --out, or the newest of this preset"
    option("--resume", action="store_true", help=newest)
    option("--minutes", type=float, metavar="N", help="stop cleanly after N minutes of training")
    score = "then score the test split, and the challenge split if there is one"
    option("--evaluate", action="store_true", help=score)


def add_evaluate(commands: Commands, run: str = "nmtlib.commands:evaluate") -> ArgumentParser:
    """Add the command `evaluate`; returns its parser, for more options."""
    parser = add_command(commands, "evaluate", run, "score a run on a split of its corpus")
    option = parser.add_argument
    option("folder", metavar="RUN", help=ABOUT_RUN)
    option("--split", default="test", help="train, validation, test (default) or challenge")
    option("--beam", type=int, help=ABOUT_BEAM)
    option("--length-penalty", type=float, metavar="A", help="its exponent, 0 = none")
    option("--output", type=Path, metavar="FILE", help="also write the scores as JSON here")
    return parser


def add_translate(commands: Commands, run: str = "nmtlib.commands:translate") -> ArgumentParser:
    """Add the command `translate`; returns its parser, for more options."""
    parser = add_command(commands, "translate", run, "translate arguments, or standard input")
    option = parser.add_argument
    option("folder", nargs="?", metavar="RUN", help=ABOUT_RUN)
    dashed = "the text; one that begins with a dash goes after a --"
    option("sentences", nargs="*", metavar="SENTENCE", help=dashed)
    option("--model", metavar="RUN", help="the same as RUN; all arguments are then sentences")
    option("--beam", type=int, help=ABOUT_BEAM)
    return parser


def add_command(commands: Commands, name: str, run: str, about: str) -> ArgumentParser:
    """Add a command that calls the function at `run`, 'module:name'; returns its parser."""
    command = commands.add_parser(name, help=about, description=about)
    command.set_defaults(run=deferred(run))
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
