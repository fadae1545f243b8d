"""How many minutes a notebook takes to read: counted, and written into its opening.

    python tools/minutes.py                 write the minutes of all
    python tools/minutes.py 04_*.ipynb      of one; nothing is run

200 words of prose a minute, 8 seconds a line of code, 1 minute a figure.  What a cell shows
counts as what it is: a source shown is code, a question asked is prose.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
WORDS_A_MINUTE, SECONDS_A_LINE, MINUTES_A_FIGURE = 200, 8, 1
STATED = re.compile(r"(\*\*Time\*\* )(\d+)( minutes)")
FENCED = re.compile(r"(?ms)^(````?)\w*\n(.*?)^\1$")
FORMULA = re.compile(r"(?s)\$\$.*?\$\$|\$[^$\n]+\$")  # is read as one word


def minutes(book: dict) -> float:
    """The minutes that a notebook takes to read, from its cells and their stored outputs."""
    texts, lines, figures = [], 0, 0
    for cell in book["cells"]:
        if cell["cell_type"] == "markdown":
            texts.append(cell["source"])
        elif "predict" not in cell["metadata"].get("tags", ()):  # such code is folded away
            lines += written(cell["source"])
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/png" in data:
                figures += 1
            texts.append(data.get("text/markdown", ""))
    lines += sum(written(match[2]) for text in texts for match in FENCED.finditer(text))
    words = sum(len(FORMULA.sub("x", FENCED.sub("", text)).split()) for text in texts)
    return words / WORDS_A_MINUTE + lines * SECONDS_A_LINE / 60 + figures * MINUTES_A_FIGURE


def written(code: str) -> int:
    """The lines of some code that are not empty."""
    return sum(bool(line.strip()) for line in code.splitlines())


def stated(book: dict) -> int | None:
    """The minutes that the opening states, or None."""
    for cell in _prose(book):
        match = STATED.search(cell["source"])
        if match:
            return int(match[2])
    return None


def state(book: dict) -> int:
    """Write the minutes, in steps of five, where the opening states them, and return them."""
    right = max(5, 5 * round(minutes(book) / 5))
    for cell in _prose(book):
        if STATED.search(cell["source"]):
            cell["source"] = STATED.sub(rf"\g<1>{right}\3", cell["source"], count=1)
            break
    return right


def _prose(book: dict) -> Iterator[dict]:
    return (cell for cell in book["cells"] if cell["cell_type"] == "markdown")


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:] or sorted(NOTEBOOKS.glob("*.ipynb"))):
        book = nbformat.read(path, as_version=4)
        before = stated(book)
        print(f"{path.name}  {before} -> {state(book)} minutes")
        text = nbformat.writes(book, version=4) + "\n"
        path.write_text(text, encoding="utf-8", newline="\n")
