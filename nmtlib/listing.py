"""The commands that list what there is: presets, runs, models."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from nmtlib.inference.translator import SHIPPED, Translator
from nmtlib.presets import load_settings, overview
from nmtlib.records import table_of_models
from nmtlib.run import Run
from nmtlib.training.history import read_history


def command_summary(options: Namespace) -> None:
    """List the presets, or show one of them or a run."""
    if not options.what:
        print_table(overview())
    elif (run := Run(options.what)).settings_file.is_file():
        print(run.settings().to_json())
        show_run(run.folder)
    else:
        print(load_settings(options.what).to_json())
        if (run := Run(SHIPPED / options.what)).settings_file.is_file():
            more = f"the model of this name that ships may differ: nmtlib summary {run.folder}"
            print(f"nmtlib: {more}", file=sys.stderr)


def show_run(folder: Path) -> None:
    """The parameter table of a run, and the last line of its history."""
    table = Translator.load(folder).model.parameter_table()
    for part, count in table.items():
        print(f"{part:<22}{count:>14,}")
    print(f"{'total':<22}{sum(table.values()):>14,}")
    run = Run(folder)
    print(read_history(run.history_file)[-1].line(run.settings().training.epochs))


def command_models(options: Namespace) -> None:
    """List the models that have a name."""
    print_table(table_of_models())


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text, the first of them the headings, in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
