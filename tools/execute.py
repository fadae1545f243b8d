"""Run notebooks top to bottom and store their outputs; a second run stores the same bytes.

    python tools/execute.py                     run and store all  (make notebooks)
    python tools/execute.py 04_*.ipynb --check  store nothing; fail where one would change
    python tools/execute.py --timings           also write how long each took: timings.json

A notebook with an error, with anything on stderr, or with a path of this machine in an output
is not stored.  The minutes that its opening states are those that `minutes.py` counts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import minutes
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
TIMINGS = Path(__file__).with_name("timings.json")
# What a kernel inherits: one thread adds in one order, one hash seed orders a set one way, and a
# text of the course that has no Chinese stops a Chinese notebook.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "NMTLIB_STRICT_WORDS": "1"}
WIDGET = "application/vnd.jupyter.widget-view+json"
PLACES = "home|root|Users|tmp|usr|var|mnt|opt|private|content"
ROOTS = rf"/(?:{PLACES})/|{re.escape(str(ROOT))}|[A-Z]:\\"
ABSOLUTE_PATH = re.compile(rf"(?<![\w.:/])(?:{ROOTS})\S*")
KEPT = ("tags", "nbgrader", "slideshow")  # of a cell's metadata
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
# JupyterLab prints the first line of the first output beside the dots of a folded cell, which would
# tell the answer. This output has no form to take a line from, and nothing for nbval to compare.
NOTHING = {"output_type": "display_data", "data": {}, "metadata": {}}
COLOUR_CODES = re.compile(r"\x1b\[[0-9;]*m")


def execute(path: Path, timeout: int) -> NotebookNode:
    """The notebook with the outputs of a fresh run, in a new kernel in the notebook's folder.

    Raises nbclient's CellExecutionError for a cell that fails, CellTimeoutError for one that
    needs more seconds.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=timeout,
        startup_timeout=1800,  # a busy machine starts a kernel late
        coalesce_streams=True,  # else a stream is stored in the pieces that it arrives in
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(path.resolve().parent)}},
    )
    client.execute()
    return clean(notebook)


def clean(notebook: NotebookNode) -> NotebookNode:
    """Drop what differs from run to run and between machines; what people read stays."""
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    notebook.metadata = nbformat.from_dict(metadata)
    # After a question, what answers it is shown folded, up to the next text:
    #   ""  ->  "asked"  at a question  ->  "answered"  at the next output  ->  ""  at a text
    secret = ""
    for number, cell in enumerate(notebook.cells, start=1):
        cell.setdefault("id", f"cell-{number:02d}")
        metadata = {key: cell.metadata[key] for key in KEPT if key in cell.metadata}
        if "predict" in metadata.get("tags", ()):
            metadata["jupyter"] = {"source_hidden": True}  # the call names the answer
            secret = "asked"
        elif secret and cell.get("outputs"):  # unfolded as soon as the reader runs the cell
            metadata["jupyter"] = {"outputs_hidden": True}
            secret = "answered"
            cell.outputs.insert(0, nbformat.from_dict(NOTHING))
        elif secret == "answered" and cell.cell_type == "markdown":
            secret = ""
        cell.metadata = nbformat.from_dict(metadata)
        for output in cell.get("outputs", ()):
            # A widget's model dies with the kernel; the text beside it stays.
            output.get("data", {}).pop(WIDGET, None)
            if output.output_type == "error":  # it was meant to be; a traceback names files
                output.traceback = [f"{output.ename}: {COLOUR_CODES.sub('', output.evalue)}"]
    return notebook


def objections(notebook: NotebookNode) -> Iterator[str]:
    """Why this notebook must not be stored; nothing where it may be."""
    for number, cell in enumerate(notebook.cells, start=1):
        for output in cell.get("outputs", ()):
            text = output_text(output)
            if output.output_type == "stream" and output.name == "stderr":
                yield f"cell {number} writes to stderr: {text.strip()[:300]}"
            path = ABSOLUTE_PATH.search(text)
            if path:
                yield f"cell {number} shows a path of this machine: {path[0]}"


def output_text(output: NotebookNode) -> str:
    """All text of an output, whatever its form."""
    texts = [output.get("text", ""), output.get("evalue", ""), *output.get("traceback", ())]
    data = output.get("data", {}).items()
    texts += [value for kind, value in data if not kind.startswith("image/")]
    for place, text in enumerate(texts):
        if not isinstance(text, str):  # a form of an output may be JSON
            texts[place] = json.dumps(text)
    return "\n".join(texts)


def process(path: Path, *, check: bool, timeout: int) -> tuple[str, bool, float]:
    """Run one notebook and store it: what happened, whether that is good, seconds it took."""
    started = time.perf_counter()
    try:
        notebook = execute(path, timeout)
        minutes.state(notebook)
        reasons = list(objections(notebook))
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        reasons = [COLOUR_CODES.sub("", str(error)).strip()]
    seconds = time.perf_counter() - started
    if reasons:
        return "REFUSED: " + "; ".join(reasons), False, seconds
    text = nbformat.writes(notebook, version=4) + "\n"
    if text == path.read_text(encoding="utf-8"):
        return "same", True, seconds
    if check:
        return "WOULD CHANGE", False, seconds
    path.write_text(text, encoding="utf-8", newline="\n")
    return "stored", True, seconds


def write_timings(seconds: dict[str, float]) -> None:
    """Put whole seconds into timings.json; notebooks that were not run keep theirs."""
    timings = {}
    if TIMINGS.is_file():
        timings = json.loads(TIMINGS.read_text("utf-8"))
    timings |= {name: round(value) for name, value in seconds.items()}
    text = json.dumps(timings, indent=2, sort_keys=True) + "\n"
    TIMINGS.write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run the notebooks named; 1 where one was refused, or would change under --check."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    add = parser.add_argument
    add("paths", nargs="*", type=Path, metavar="NOTEBOOK")
    add("--check", action="store_true", help="store nothing, say which would change")
    add("--timings", action="store_true", help="write the seconds of each to timings.json")
    add("--timeout", type=int, default=3600, metavar="S", help="seconds that a cell may take")
    options = parser.parse_args(arguments)
    os.environ.update(ENVIRONMENT)
    seconds, good = {}, True
    deeper = sorted(NOTEBOOKS.glob("deeper/*.ipynb"))
    for path in options.paths or [*sorted(NOTEBOOKS.glob("*.ipynb")), *deeper]:
        report, is_good, spent = process(path, check=options.check, timeout=options.timeout)
        seconds[path.stem] = spent
        good = good and is_good
        print(f"{path.name}  {spent:.0f} s  {report}", flush=True)
    if options.timings:
        write_timings(seconds)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
