"""Pages from notebooks that need no network: decks of slides, and PDFs to print.

    python tools/pages.py slides                        all decks, into build/slides
    python tools/pages.py print notebooks/04_*.ipynb    one PDF, into build/print

Formulas need requirements-site.txt installed, PDFs need Chromium.  A page needs the files
beside it, and nothing else.  What a deck holds is said in `deck.py`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from unicodedata import east_asian_width

import nbformat
from deck import DECKS, chosen, deck
from nbconvert import HTMLExporter
from pygments.formatters import HtmlFormatter

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
PAGES, OUT = Path(__file__).with_name("pages"), ROOT / "build"
FONT = ROOT / "nmtcourse" / "teaching" / "fonts" / "nmtlib-CJK.otf"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")
# no sandbox: Chromium refuses to run as root in a container otherwise
FLAGS = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage"
LETTERS = 100  # of a line that slides.css does not wrap
FOLD = re.compile(r"(?s)(</?details>|<summary>.*?</summary>)")


def html(cells: list[dict], title: str, look: str) -> str:
    """The page of some cells, in the look of pages/LOOK.css."""
    styles = [(PAGES / f"{name}.css").read_text("utf-8") for name in ("common", look)]
    script = PAGES / f"{look}.js"
    resources = {
        "title": title,
        "style": HtmlFormatter().get_style_defs(".highlight") + "".join(styles),
        "script": script.read_text("utf-8") if script.exists() else "",
        "slides": sum(cell["metadata"].get("slide", {}).get("begins", 0) for cell in cells),
    }
    exporter = HTMLExporter(
        template_file=str(PAGES / "page.html.j2"), exclude_anchor_links=True, embed_images=True
    )
    exporter.register_filter("pieces", FOLD.split)  # nbconvert would close each HTML block
    exporter.register_filter("columns", columns)
    exporter.register_filter("rows", rows)
    resources["metadata"] = {"path": str(NOTEBOOKS)}  # where pictures in Markdown are looked for
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    return exporter.from_notebook_node(nbformat.from_dict(book), resources)[0]


def columns(text: str) -> int:
    """The letters of the longest line of some code, by which a slide sets its size.

    A Chinese character is as wide as two letters.
    """
    wide = [sum(east_asian_width(letter) in "WF" for letter in line) for line in text.splitlines()]
    lengths = map(len, text.splitlines())
    return max(map(sum, zip(lengths, wide, strict=True)), default=0)


def rows(cell: dict) -> int:
    """The lines of a cell's code and of what it printed, by which a slide sets its size, too.

    A long line of what a cell printed counts as those into which slides.css wraps it.
    """
    count = len(cell["source"].splitlines())
    for output in cell["outputs"]:
        text = output.get("text") or output.get("data", {}).get("text/plain", "")
        for line in text.splitlines():
            count += max(1, -(-columns(line) // LETTERS))
    return max(1, count)


def write_slides(path: Path, folder: Path) -> Path:
    """The deck of a notebook, as HTML that needs only mathjax.js beside it."""
    book = nbformat.read(path, as_version=4)
    if path.stem in DECKS:  # it has slides of its own
        cells = chosen(book, **DECKS[path.stem])
    else:
        cells = deck(book)
    page = html(cells, path.stem, "slides")
    file = folder / f"{path.stem}.html"
    # another notebook is another deck
    file.write_text(re.sub(r'(href="\d\d_\w+)\.ipynb', r"\1.html", page), encoding="utf-8")
    return file


def write_print(path: Path, folder: Path) -> Path:
    """The PDF of a notebook."""
    book = nbformat.read(path, as_version=4)
    page = folder / f"{path.stem}.html"
    page.write_text(html(book["cells"], path.stem, "print"), encoding="utf-8")
    file = page.with_suffix(".pdf")
    chromium("--no-pdf-header-footer", f"--print-to-pdf={file}", page=page)
    page.unlink()
    return file


def chromium(*options: str, page: Path) -> str:
    """What Chromium writes when it opens a page, its formulas set.

    Raises FileNotFoundError where there is none.
    """
    programs = [*filter(None, map(shutil.which, CHROMIUM))]
    if not programs:
        raise FileNotFoundError(f"no Chromium: install one of {', '.join(CHROMIUM)}")
    command = [programs[0], *FLAGS.split(), "--virtual-time-budget=60000", *options, page.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=1800).stdout


def copy_files(folder: Path) -> None:
    """Put MathJax and the Chinese font beside the pages.  Raises FileNotFoundError."""
    package = find_spec("sphinx-mathjax-offline")
    if package is None or package.origin is None:
        raise FileNotFoundError("no MathJax for formulas: pip install -r requirements-site.txt")
    script = Path(package.origin).parent / "static" / "mathjax" / "tex-svg-full.js"
    shutil.copyfile(script, folder / "mathjax.js")
    shutil.copy(FONT, folder)


def main(arguments: list[str] | None = None) -> int:
    """Write the pages asked for; 1 where a program for them is missing."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("kind", choices=("slides", "print"))
    parser.add_argument("paths", nargs="*", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--out", type=Path, help="folder, default build/slides or build/print")
    options = parser.parse_intermixed_args(arguments)
    folder = (options.out or OUT / options.kind).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    write = {"slides": write_slides, "print": write_print}[options.kind]
    try:
        copy_files(folder)
        for path in options.paths or sorted(NOTEBOOKS.glob("*.ipynb")):
            print(write(path, folder), flush=True)
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
