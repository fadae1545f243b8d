"""The commands `models`, `summary` and `data list`, `fetch`: what there is to work with."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from nmtlib.cli import Commands, add_command
from nmtlib.files import names_a_file


def add_models(commands: Commands) -> None:
    """Add the command `models`."""
    about = "list the models that translate: those shipped, and runs trained here"
    add_command(commands, "models", models, about)


def add_summary(commands: Commands) -> None:
    """Add the command `summary`."""
    about = "show all presets, or one of them, or a run"
    parser = add_command(commands, "summary", summary, about)
    parser.add_argument("what", nargs="?", metavar="PRESET|RUN")


def models(options: Namespace) -> None:
    """List the models that can be loaded by name."""
    from nmtcourse.provenance import training_summary
    from nmtlib.run import named_runs
    from nmtlib.training.checkpoint import describe_run

    rows = [("model", "translates", "corpus", "epochs", "validation perplexity", "from")]
    for name, run in named_runs().items():
        place = "nmtlib" if run.ships else str(run.folder)
        try:
            corpus, found = describe_run(run).settings.corpus, training_summary(run.folder)
        except (OSError, ValueError) as error:
            rows.append((name, "", "", "", "", f"{place}, which cannot be loaded: {error}"))
            continue
        told = str(found["epochs"]), f"{found['validation_perplexity']:.2f}", place
        rows.append((name, "-".join(corpus.languages), corpus.name or "own files", *told))
    print_table(rows)


def summary(options: Namespace) -> None:
    """List the presets, or show one of them, or a run: its settings, parameters and last epoch."""
    from nmtlib.errors import note
    from nmtlib.inference.translator import Translator
    from nmtlib.presets import load_settings
    from nmtlib.run import SHIPPED, Run
    from nmtlib.training.history import read_history

    if not options.what:
        print_table(overview())
    elif names_a_file((run := Run(options.what)).settings_file):
        translator = Translator.load(run.folder)
        print(translator.settings.to_json())
        table = translator.model.parameter_table()
        for part, count in (table | {"total": sum(table.values())}).items():
            print(f"{part:<22}{count:>14,}")
        print(read_history(run.history_file)[-1].line(translator.settings.training.epochs))
    else:
        print(load_settings(options.what).to_json())
        if (run := Run(SHIPPED / options.what)).settings_file.is_file():
            note(f"the model of this name that ships may differ: nmtlib summary {run.folder}")


def overview() -> list[tuple[str, ...]]:
    """A table of the presets, headings first: corpus, size, and the best result on record.

    The records are those of `benchmarks/results`, which `make readme` sums up in records.json.
    """
    from nmtlib.presets import load_settings, presets

    records = json.loads((resources.files("nmtlib.presets") / "records.json").read_text("utf-8"))
    rows: list[tuple] = [("preset", "corpus", "parameters", "minutes", "best recorded score")]
    for name in presets():
        found = records.get(name, {})
        best = (found.get(key, "not measured") for key in ("parameters", "minutes", "score"))
        rows.append((name, load_settings(name).corpus.name, *best))
    return rows


def data(options: Namespace) -> None:
    """List or fetch corpora."""
    from nmtcourse import corpora

    if options.action == "list":
        if options.name:
            raise ValueError(
                f"data list takes no name; to see one corpus: data check {options.name}"
            )
        print_table(table())
    elif not options.name:
        raise ValueError(f"data fetch needs the name of a corpus: {', '.join(corpora.names())}")
    else:
        print(f"{options.name} is complete in {corpora.find(options.name).fetch()}")


def table(root: str | Path | None = None) -> list[tuple[str, ...]]:
    """The corpora in rows of text, headings first; 'here' are those with all files in the cache."""
    from nmtcourse import corpora

    rows = [tuple("corpus train validation test download here licence".split())]
    for source in corpora.SOURCES:
        sizes = [f"{size:,}" for size in source.pairs] or ["no pairs", "", ""]
        here = "yes" if source.complete(root) else "no"
        rows.append((source.name, *sizes, f"{source.megabytes:g} MB", here, source.licence))
    return rows


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text, the first of them the headings, in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
