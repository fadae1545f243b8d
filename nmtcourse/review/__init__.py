"""The command `nmtlib review`: what a training log says by itself, and which notebook explains it.

`reading` makes records and facts of a log, `rules` judge them.
"""

from __future__ import annotations

from argparse import Namespace, _SubParsersAction
from pathlib import Path
from typing import TYPE_CHECKING

from nmtlib.cli import add_command

if TYPE_CHECKING:
    from nmtcourse.review.reading import Log


def add_review(commands: _SubParsersAction) -> None:
    """Add the command and its options."""
    about = "read a training log, and say what it shows, with the numbers and the notebook"
    option = add_command(commands, "review", command_review, about).add_argument
    what = "a run folder, history.csv, trainer_state.json, a table, or what a program printed"
    option("log", type=Path, metavar="RUN|LOG|CSV", help=what)
    option("--vocab", type=int, metavar="N", help="the size of the target vocabulary")
    option("--warmup", type=int, metavar="N", help="updates of warm-up")
    option("--updates", type=int, metavar="N", help="updates that were made")
    option("--smoothing", type=float, metavar="E", help="label smoothing")


def command_review(options: Namespace) -> None:
    """Print the review of a log."""
    from nmtcourse.review.reading import read

    log = read(options.log)
    names = {"vocabulary": options.vocab, "warmup": options.warmup, "updates": options.updates}
    numbers = names | {"smoothing": options.smoothing}
    least = {"vocabulary": 3, "smoothing": 0.0, "warmup": 0, "updates": 1}
    for name, value in numbers.items():
        if value is not None and (value < least[name] or name == "smoothing" and value >= 1):
            raise ValueError(f"the {name} must be {least[name]} or more, not {value}")
    log.facts |= {name: value for name, value in numbers.items() if value is not None}
    print("\n".join(lines(log)))


def lines(log: Log) -> list[str]:
    """The review of a log: what each rule says, and where to read about it."""
    from nmtcourse.review.rules import RULES

    lines = [f"{log.name}: {len(log.records)} records"]
    for line in (rule(log) for rule in RULES):
        text = "; ".join(
            filter(None, (line.says, f"cannot tell without {line.needs}" * bool(line.needs)))
        )
        book, section = line.notebook.split(".")
        lines.append(f"{line.about:<13}{text}  (notebook {book}, section {section})")
    return lines
