"""Pages from notebooks that need no network: decks of slides, and PDFs to print.

    python notebooks/pages.py slides                  all decks, into build/slides
    python notebooks/pages.py print 04_*.ipynb        one PDF, into build/print

Formulas need `pip install sphinx-mathjax-offline`, PDFs need Chromium.  A deck holds the cells with
slideshow metadata: `slide` and `subslide` begin one, `fragment` and `-` go on with it, `notes` are
kept but not shown.  Cells without it, and those with `skip`, stay out.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbconvert import HTMLExporter
from pygments.formatters import HtmlFormatter

HERE = Path(__file__).resolve().parent
PAGES, OUT = HERE / "pages", HERE.parent / "build"
FONT = HERE.parent / "nmtlib" / "teaching" / "fonts" / "nmtlib-CJK.otf"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")
# no sandbox: Chromium refuses to run as root in a container otherwise
FLAGS = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking"
WORDS, ITEMS = 45, 5  # a slide takes this much of a long text, at least a sentence
HEADING = re.compile(r"(?m)^(#{1,4}) +(.+)$")
SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z*\"`$“(])")
FOLD = re.compile(r"(?s)(</?details>|<summary>.*?</summary>)")
KINDS = {"slide": "", "subslide": "", "fragment": "fragment", "-": "", "notes": "notes"}


class Section(NamedTuple):
    """A heading with its marks, and the text below it."""

    heading: str
    text: str


def sections(source: str) -> list[Section]:
    """The parts of Markdown text; the first one has no heading where text stands before any."""
    plain = re.sub(r"(?ms)^```.*?^```", lambda code: " " * len(code[0]), source)
    starts = [match.start() for match in HEADING.finditer(plain)]
    parts = [source[a:b] for a, b in zip([0, *starts], [*starts, len(source)], strict=True)]
    cut = (part.partition("\n") if part.startswith("#") else ("", "", part) for part in parts)
    return [Section(heading, text.strip()) for heading, _, text in cut if heading or text.strip()]


def main_section(source: str) -> Section:
    """What a slide takes of a Markdown cell: the summary, else from the first heading on."""
    parts = sections(source)
    summary = [part for part in parts if part.heading.endswith(" Summary")]
    return [*summary, *(part for part in parts if part.heading), *parts, Section("", "")][0]


def lead(text: str) -> str:
    """The first sentences of a text, or of each item of a list, and its first formula."""
    blocks = [block for block in re.split(r"\n\s*\n", text) if block.strip()]
    if not blocks:
        return ""
    if re.match(r"[-*] |\d+\. ", blocks[0]):
        items = re.split(r"(?m)^(?=[-*] |\d+\. )", blocks[0])[1:]
        return "".join(f"{sentences(item, 1)}\n" for item in items[:ITEMS])
    short = blocks[0] if blocks[0].startswith((">", "$$", "|")) else sentences(blocks[0], WORDS)
    formula = re.search(r"(?s)\$\$.*?\$\$", text)
    return short + (f"\n\n{formula[0]}" if formula and formula[0] not in short else "")


def sentences(text: str, words: int) -> str:
    """Whole sentences from the start of a text: as many as fit, at least one."""
    first, *others = SENTENCE.split(text.strip())
    for other in others:
        if len(f"{first} {other}".split()) > words:
            break
        first = f"{first} {other}"
    return first


def deck(book: dict) -> list[dict]:
    """The cells of a notebook's slides, shortened; `metadata.slide` says where each stands."""
    heading, cells = "", list[dict]()
    for cell in book["cells"]:
        section = main_section(cell["source"]) if cell["cell_type"] == "markdown" else None
        heading = section.heading if section and section.heading else heading
        kind = cell["metadata"].get("slideshow", {}).get("slide_type", "skip")
        if kind in KINDS:
            begins = kind in ("slide", "subslide")
            title = heading if not cells else re.sub("^#+", "##", heading)
            place = {"begins": begins, "ends": False, "kind": KINDS[kind], "title": title}
            source, outputs = _shown(cell) if section is None else (lead(section.text), None)
            changed = {"source": source} | ({} if outputs is None else {"outputs": outputs})
            cells.append({**cell, **changed, "metadata": {**cell["metadata"], "slide": place}})
        if cell["cell_type"] == "markdown" and (rest := sections(cell["source"])):
            heading = rest[-1].heading or heading
    number = 0
    for cell, after in zip(cells, [*cells[1:], None], strict=True):
        number += cell["metadata"]["slide"]["begins"]
        cell["metadata"]["slide"]["number"] = number
        cell["metadata"]["slide"]["ends"] = after is None or after["metadata"]["slide"]["begins"]
    return cells


def _shown(cell: dict) -> tuple[str, list[dict]]:
    """Code and outputs of a cell on a slide: of one that draws the pictures alone."""
    pictures = [output for output in cell["outputs"] if "image/png" in output.get("data", {})]
    return ("", pictures) if pictures else (cell["source"], cell["outputs"])


def html(book: dict, title: str, look: str, mathjax: str) -> str:
    """The page of some cells, in the look of pages/LOOK.css."""
    styles = [(PAGES / f"{name}.css").read_text("utf-8") for name in ("common", look)]
    script = PAGES / f"{look}.js"
    resources = {
        "title": title,
        "style": HtmlFormatter().get_style_defs(".highlight") + "".join(styles),
        "script": script.read_text("utf-8") if script.exists() else "",
        "mathjax": mathjax,
        "slides": sum(cell["metadata"].get("slide", {}).get("begins", 0) for cell in book["cells"]),
    }
    exporter = HTMLExporter(
        template_file=str(PAGES / "page.html.j2"), exclude_anchor_links=True, embed_images=True
    )
    exporter.register_filter("pieces", FOLD.split)  # nbconvert would close each HTML block
    resources["metadata"] = {"path": str(HERE)}  # where pictures in Markdown are looked for
    return exporter.from_notebook_node(nbformat.from_dict(book), resources)[0]


def write_slides(path: Path, folder: Path) -> Path:
    """The deck of a notebook, as HTML that needs only mathjax.js beside it."""
    book = nbformat.read(path, as_version=4)
    page = html({**book, "cells": deck(book)}, path.stem, "slides", "mathjax.js")
    file = folder / f"{path.stem}.html"
    # another notebook is another deck
    file.write_text(re.sub(r'(href="\d\d_\w+)\.ipynb', r"\1.html", page), encoding="utf-8")
    return file


def write_print(path: Path, folder: Path) -> Path:
    """The PDF of a notebook."""
    book = nbformat.read(path, as_version=4)
    page = folder / f"{path.stem}.html"
    page.write_text(html(book, path.stem, "print", "mathjax.js"), encoding="utf-8")
    file = page.with_suffix(".pdf")
    chromium("--no-pdf-header-footer", f"--print-to-pdf={file}", page=page)
    page.unlink()
    return file


def chromium(*options: str, page: Path) -> str:
    """What Chromium writes when it opens a page, its formulas set.

    Raises FileNotFoundError where there is none.
    """
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        raise FileNotFoundError(f"no Chromium: install one of {', '.join(CHROMIUM)}")
    command = [found, *FLAGS.split(), "--virtual-time-budget=60000", *options, page.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout


def copy_files(folder: Path) -> None:
    """Put MathJax and the Chinese font beside the pages.  Raises FileNotFoundError without it."""
    package = find_spec("sphinx-mathjax-offline")
    if package is None or package.origin is None:
        raise FileNotFoundError("no MathJax for formulas: pip install sphinx-mathjax-offline")
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
        for path in options.paths or sorted(HERE.glob("*.ipynb")):
            print(write(path, folder), flush=True)
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
