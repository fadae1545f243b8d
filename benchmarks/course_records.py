"""Run the seeds that notebooks do not run again: nmtcourse/teaching/recorded/seeds.json.

    python benchmarks/course_records.py [NAME ...]     all records, or those named, such as 08.watch

A record is what `by_seed(NAME, function)` asks for in notebook NN.  The cells of that notebook run
here as they are, up to the last one that asks, and the very function that they show runs with all
seeds.  Beside its results the file has what they depend on: the code of the function and every
value that it reads (nmtcourse/teaching/inputs.py).
"""

from __future__ import annotations

import ast
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

from shared import parser, say

# isort: split
import matplotlib
import nbformat
import torch
from filelock import FileLock
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from nmtcourse.provenance import command_line, describe_machine
from nmtcourse.teaching import records
from nmtcourse.teaching.inputs import Inputs, read_inputs
from nmtlib.files import write_atomically

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
NO_HISTORY = Config({"HistoryManager": {"enabled": False}})  # leave the reader's alone
BySeed = Callable[..., list[Any]]
USUAL: BySeed = records.by_seed  # `run` puts another one in its place


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is named, and put it in place of what the file has by these names."""
    options = parser(__doc__)
    options.add_argument("names", nargs="*", metavar="NAME")
    options.add_argument("--output", type=Path, default=records.RECORDED, help="JSON file")
    chosen = options.parse_args(arguments)
    torch.set_num_threads(1)
    home = {name: path for path in books() for name in names(path)}
    if unknown := set(chosen.names) - set(home):
        raise ValueError(
            f"no notebook asks for {', '.join(sorted(unknown))}; try {', '.join(home)}"
        )
    wanted = chosen.names or [*home]
    for path in dict.fromkeys(home[name] for name in wanted):
        new: dict[str, Any] = {}
        run(path, partial(add, new, wanted))
        for name, record in new.items():
            say(f"{name}: {record['seconds']:.0f} s")
        merge(new, chosen.output, [*home])


def merge(new: dict[str, Any], output: Path, order: Sequence[str]) -> None:
    """Write records into the file, which others may have written since this process started."""
    with FileLock(output.with_name(f".{output.name}.lock")):
        old = records.read(output)["records"] if output.is_file() else {}
        both = old | new
        write_atomically(output, as_text({name: both[name] for name in order if name in both}))


def add(
    new: dict[str, Any],
    wanted: Sequence[str],
    name: str,
    function: Callable[..., Any],
    *arguments: Any,
    seeds: Sequence[int] = (0, 1, 2),
    live: int = 1,
) -> list[Any]:
    """Stand in for `by_seed`: run all seeds of a wanted record, and keep what they give.

    Raises ValueError where nothing can be recorded: the function reads what no text can stand for,
    or the record has results of other code, data or seeds.
    """
    if name not in wanted:
        return USUAL(name, function, *arguments, seeds=seeds, live=live)
    inputs = read_inputs(function)
    for read, kind in inputs.unknown.items():
        raise ValueError(f"{name} reads {read}, {kind}; give the function what defines it")
    record = new.setdefault(name, new_record(inputs, seeds))
    if changed := records.changed_names(record, inputs):
        raise ValueError(f"{name} is asked for again with another {changed[0]}; take another name")
    if record["seeds"] != [*seeds]:
        raise ValueError(f"{name} is asked for again with the seeds {seeds}; take another name")
    place = records.key(arguments)
    if place not in record["found"]:
        results, seconds = [], []
        for seed in seeds:
            started = time.process_time()
            results.append(records.plain(function(*arguments, seed)))
            seconds.append(time.process_time() - started)
        record["found"][place] = results
        record["seconds"] = round(record["seconds"] + sum(seconds), 1)
        say(f"{name}{place}: {seconds[0]:.1f} s for the first seed, {sum(seconds):.1f} s for all")
    return records.Runs(record["found"][place], seeds)


def new_record(inputs: Inputs, seeds: Sequence[int]) -> dict[str, Any]:
    """A record without results."""
    return {
        "command": f"python benchmarks/{command_line()}",
        "machine": describe_machine(),
        "seconds": 0.0,
        "seeds": list(seeds),
        "code": inputs.code,
        "data": inputs.data,
        "found": {},
    }


def books() -> list[Path]:
    """The notebooks of the course, then the deeper ones."""
    return [*sorted(NOTEBOOKS.glob("*.ipynb")), *sorted(NOTEBOOKS.glob("deeper/*.ipynb"))]


def names(path: Path) -> list[str]:
    """The records that a notebook asks for, in the order of its cells."""
    return [*dict.fromkeys(name for cell in code(path) for name in asked_in(cell))]


def code(path: Path) -> list[str]:
    """The code cells of a notebook."""
    book = nbformat.read(path, as_version=4)
    return [cell.source for cell in book.cells if cell.cell_type == "code"]


def asked_in(cell: str) -> Iterator[str]:
    """The first arguments of the calls of `by_seed` in a cell."""
    for node in ast.walk(ast.parse(cell)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "by_seed":
            yield ast.literal_eval(node.args[0])


def cells_that_ask(path: Path) -> list[str]:
    """The code cells of a notebook up to the last that asks for a record."""
    cells = code(path)
    last = max(number for number, cell in enumerate(cells) if [*asked_in(cell)])
    return cells[: last + 1]


def run(path: Path, by_seed: BySeed, cells: Sequence[str] = ()) -> dict[str, Any]:
    """Run the cells of a notebook up to the last that asks, with another `by_seed`.

    `cells` are those to run in their place.  Returns the names that they defined; raises what a
    cell raises.
    """
    matplotlib.use("agg")
    shell, usual = InteractiveShell.instance(config=NO_HISTORY), records.by_seed
    shell.reset()
    records.by_seed = by_seed
    try:
        for cell in cells or cells_that_ask(path):
            with chdir(path.parent), capture_output():
                result = shell.run_cell(cell)
            result.raise_error()
    finally:
        records.by_seed = usual
    return shell.user_ns


def as_text(by_name: dict[str, Any]) -> str:
    """The file; the result of a seed is on one line."""
    rows: list[str] = []

    def on_one_line(results: list[Any]) -> list[str]:
        rows.extend(json.dumps(row) for row in results)
        return [f"row {len(rows) - len(results) + n}" for n in range(len(results))]

    shown = {
        name: record | {"found": {key: on_one_line(rs) for key, rs in record["found"].items()}}
        for name, record in by_name.items()
    }
    text = json.dumps({"records": shown}, indent=1, ensure_ascii=False) + "\n"
    return re.sub(r'"row (\d+)"', lambda match: rows[int(match[1])], text)


if __name__ == "__main__":
    main()
