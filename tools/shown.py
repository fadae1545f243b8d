"""Rules on what a notebook shows: its links, its pictures and their texts, its slides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from urllib.parse import unquote

import nbformat
from cells import code, headings, prose
from deck import FEWEST, MOST, ROOM, deck, height

LINK = re.compile(r"\]\(\s*<?([^()\s>]+)>?[^()]*\)|(?:src|href)=[\"']([^\"']+)[\"']")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]*)|<img\b(?=([^>]*))")
FIGURE = re.compile(r"\bfigures/[\w./-]*\w")
FEW = 3  # words that say nothing about a picture


def links_to_what_exists(book: dict, path: Path) -> Iterator[str]:
    # x[0](y) in code is no link
    text = re.sub(r"(?s)```.*?```|`[^`]*`", "", prose(book["cells"]))
    for match in LINK.finditer(text):
        target = unquote(match[1] or match[2])
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        where = (path.parent / file).resolve() if file else path
        if not where.exists():
            yield f"link to {target}, but there is no {file}"
        elif anchor and where.suffix in (".ipynb", ".md") and anchor not in anchors(where):
            yield f"link to {target}, but {where.name} has no such heading"


def anchors(file: Path) -> set[str]:
    """The anchors of a notebook (as in JupyterLab) or of a Markdown file (as on GitHub)."""
    if file.suffix == ".ipynb":
        cells = nbformat.read(file, as_version=4)["cells"]
        names = {heading.replace(" ", "-") for heading in headings(prose(cells))}
        return names | {f"cell-id={cell['id']}" for cell in cells}
    names = set()
    for heading in headings(file.read_text("utf-8")):
        names.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return names


def names_figures_that_exist(book: dict, path: Path) -> Iterator[str]:
    for cell in book["cells"]:
        for name in FIGURE.findall(cell["source"]):
            if not (path.resolve().parents[1] / name).exists():
                yield f"{cell['id']}: there is no {name}"


def describes_its_pictures(book: dict, path: Path) -> Iterator[str]:
    for cell in code(book):
        for output in cell["outputs"]:
            for kind in output.get("data", {}):
                alt = output["metadata"].get(kind, {}).get("alt", "")
                if kind.startswith("image/") and len(alt.split()) <= FEW:
                    yield f"{cell['id']}: a picture without alternative text, {alt!r}"
    for cell in book["cells"]:
        for finding in undescribed(cell["source"]):
            yield f"{cell['id']}: {finding}"


def undescribed(text: str) -> Iterator[str]:
    """The pictures of Markdown text whose alternative text says too little."""
    for alt, file, tag in PICTURE.findall(text):
        attribute = re.search(r"alt=[\"']([^\"']*)", tag)
        if attribute:
            alt = attribute[1]
        if len(alt.split()) <= FEW or (file and Path(file).name in alt):
            yield f"the alternative text {alt!r} of {file or tag} says too little"


def has_a_deck(book: dict, path: Path) -> Iterator[str]:
    cells = deck(book)
    if cells and not cells[0]["metadata"]["slide"]["begins"]:
        yield "its slides begin with a fragment"
        return
    groups = groupby(cells, lambda cell: cell["metadata"]["slide"]["number"])
    slides = [list(cells_of_slide) for _, cells_of_slide in groups]
    if not FEWEST <= len(slides) <= MOST:
        yield f"{len(slides)} slides; a deck has {FEWEST} to {MOST}"
    for slide in slides:
        if height(slide) > ROOM:
            yield f"{slide[0]['id']}: its slide is too full, {height(slide):.0f} rem of {ROOM}"
