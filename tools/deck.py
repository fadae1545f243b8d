"""Which cells of a notebook are slides, and how much of them.

A deck holds the cells with slideshow metadata: `slide` and `subslide` begin one, `fragment`
and `-` go on with it, `notes` are kept but not shown.  Cells without it, or with `skip`, stay
out.  Of a long text the first sentences are shown, of a cell that draws the pictures alone.
A picture whose text would be too small is shown in bands, a slide each (`legible.py`), in the order
in which the picture is read.
A notebook in `decks.toml` has slides of its own instead: a claim, a cell, and a few words.
"""

from __future__ import annotations

import ast
import copy
import re
import tomllib
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import legible
from PIL import Image

from nmtcourse.teaching.diagrams import CHINESE, TEXTS, UPWARD

DECKS: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("decks.toml").read_text("utf-8")
)

ROOT = Path(__file__).resolve().parents[1]
ROOM, FEWEST, MOST = 36.5, 10, 26  # rem of a slide, as `height` counts them; slides of a deck
WORDS, ITEMS = 60, 5  # a slide takes this much of a long text, at least a sentence
EXPLORER = ROOT / "figures" / "film-still.webp"  # at first sight, without its menus
EXPLORER_TEXT = 15.6  # pixels: its smallest letters, 12 on a page that film.py enlarges 1.3 times
HEADING = re.compile(r"(?m)^(#{1,4}) +(.+)$")
SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z*\"`$“(])")
KINDS = {"slide": "", "subslide": "", "fragment": "fragment", "-": "", "notes": "notes"}


class Section(NamedTuple):
    """A heading with its marks, and the text below it."""

    heading: str
    text: str


def sections(source: str) -> list[Section]:
    """The parts of Markdown text; what stands before any heading has none."""
    plain = re.sub(r"(?ms)^```.*?^```", lambda code: " " * len(code[0]), source)
    starts = [match.start() for match in HEADING.finditer(plain)]
    parts = [source[a:b] for a, b in zip([0, *starts], [*starts, len(source)], strict=True)]
    result = []
    for part in parts:
        heading, text = "", part
        if part.startswith("#"):
            heading, _, text = part.partition("\n")
        if heading or text.strip():
            result.append(Section(heading, text.strip()))
    return result


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
    short = blocks[0]
    if not short.startswith((">", "$$", "|")):  # a quotation, formula or table stays whole
        short = sentences(short, WORDS)
    formula = re.search(r"(?s)\$\$.*?\$\$", text)
    if formula and formula[0] not in short:
        short += f"\n\n{formula[0]}"
    return short


def sentences(text: str, words: int) -> str:
    """Whole sentences from the start of a text: as many as fit, at least one."""
    start, *sentences_after = SENTENCE.split(text.strip())
    for sentence in sentences_after:
        longer = f"{start} {sentence}"
        if len(longer.split()) > words:
            break
        start = longer
    return start


def deck(book: dict) -> list[dict]:
    """The cells of a notebook's slides, shortened; `metadata.slide` says where each stands."""
    heading = ""  # above the present cell
    cells = list[dict]()
    for cell in book["cells"]:
        is_text = cell["cell_type"] == "markdown"
        section = Section("", "")
        if is_text:
            section = main_section(cell["source"])
            heading = section.heading or heading
        kind = cell["metadata"].get("slideshow", {}).get("slide_type", "skip")
        if kind in KINDS:
            begins = kind in ("slide", "subslide")
            title = heading if not cells else re.sub("^#+", "##", heading)
            place = {"begins": begins, "ends": False, "kind": KINDS[kind], "title": title}
            slide = {**cell, "metadata": {**cell["metadata"], "slide": place}}
            if is_text:
                slide["source"] = lead(section.text)
            else:
                slide["source"], slide["outputs"] = _shown(cell)
            cells.append(slide)
        if is_text and sections(cell["source"]):  # what comes next is below its last heading
            heading = sections(cell["source"])[-1].heading or heading
    return numbered(legibly(cells))


def legibly(cells: list[dict]) -> list[dict]:
    """The cells of a deck with each picture in bands that can be read, a slide each."""
    legible_cells = list[dict]()
    for cell, after in zip_longest(cells, cells[1:]):
        pictures = [o for o in cell.get("outputs", ()) if "image/png" in o.get("data", {})]
        bands = []
        if len(pictures) == 1:
            bands = legible.bands(pictures[0])
        if len(bands) < 2:
            legible_cells.append(cell)
            continue
        place = cell["metadata"]["slide"]
        words = []
        if after and after["metadata"]["slide"]["kind"] == "words":
            words = [after]
        order = ""
        if reads_upward(pictures[0]):
            bands.reverse()
            order = ", from the bottom up"
        for number, output in enumerate(bands, 1):
            title = f"{place['title']} ({number} of {len(bands)}{order})"
            begins = place["begins"] or number > 1
            slide = {**place, "title": title, "begins": begins, "ends": False}
            band = {**cell, "outputs": [output], "metadata": {**cell["metadata"], "slide": slide}}
            if "id" in cell:
                band["id"] = f"{cell['id']}-{number}"
            legible_cells.append(band)
            if number < len(bands):  # the words below the last one are there already
                legible_cells.extend(copy.deepcopy(words))
    return legible_cells


def reads_upward(output: dict) -> bool:
    """Whether an output is a diagram that is read from the bottom up, by its description."""
    description = output.get("metadata", {}).get("image/png", {}).get("alt")
    return any(description in (TEXTS[name], CHINESE[name]) for name in UPWARD)


def numbered(cells: list[dict]) -> list[dict]:
    """The cells of a deck, each with the number of its slide and whether it ends that."""
    number = 0
    for cell, after in zip_longest(cells, cells[1:]):
        place = cell["metadata"]["slide"]
        number += place["begins"]
        place |= {"number": number, "ends": not after or after["metadata"]["slide"]["begins"]}
        if place["ends"] and cell["cell_type"] == "markdown":  # nothing comes that it announces
            cell["source"] = re.sub(r":(\W*)$", r".\1", cell["source"])
    return cells


def chosen(book: dict, opening: str, slides: Sequence[Sequence[str]]) -> list[dict]:
    """A title, then a slide for each (cell, claim, words): pictures first, words below them.

    A fourth value names the part of the cell to show (see `_part`).
    """
    cells = {cell["id"]: cell for cell in book["cells"]}
    headings = [HEADING.search(cell["source"]) for cell in book["cells"]]
    title = next(heading[0] for heading in headings if heading)
    text = {"cell_type": "markdown", "metadata": dict[str, Any]()}
    deck_cells = [_slide(text | {"source": opening}, 1, title, kind="opening")]
    for number, (name, claim, words, *part) in enumerate(slides, 2):
        source, outputs = _part(cells[name], *part)
        cell = {**cells[name], "source": source, "outputs": outputs}
        deck_cells.append(_slide(cell, number, f"## {claim}", ends=False))
        below = text | {"source": words}
        deck_cells.append(_slide(below, number, "", begins=False, kind="words"))
    return numbered(legibly(deck_cells))


def _slide(
    cell: dict, number: int, title: str, *, begins: bool = True, ends: bool = True, kind: str = ""
) -> dict:
    """A cell with its place in the deck."""
    place = {"number": number, "title": title, "begins": begins, "ends": ends, "kind": kind}
    return {**cell, "metadata": {**cell["metadata"], "slide": place}}


def height(cells: list[dict]) -> float:
    """About how high the content of a slide is, in the 36 rem that slides.css gives to it."""
    rem = 6.0  # the margins and the title
    for cell in cells:
        datas = [output.get("data", {}) for output in cell.get("outputs", [])]
        prose = [data.get("text/markdown", "").partition("<details>")[0] for data in datas]
        small = [output.get("text", "") for output in cell.get("outputs", [])]
        if cell["cell_type"] == "markdown":
            prose.append(cell["source"])
        elif not cell["metadata"].get("jupyter", {}).get("source_hidden"):
            small.append(cell["source"])
        if any("image/png" in data for data in datas):
            rem += 16.0
        rem += sum(4.0 * text.count("$$") / 2 + 1.9 * _lines(text, 75) for text in prose)
        rem += sum(0.5 + 1.3 * _lines(text, 100) for text in small if text)
    return rem


def _lines(text: str, width: int) -> int:
    """The lines of a text that is wrapped at a width; empty ones count in code alone."""
    return sum(max(1, -(-len(line) // width)) for line in text.strip().splitlines())


def _part(cell: dict, part: str = "") -> tuple[str, list[dict]]:
    """Code and outputs of a cell, or its outputs alone ("output"), or one of its functions alone.

    Raises ValueError for a function that the cell does not define.
    """
    if not part:
        return _shown(cell)
    if part == "output":
        return "", _shown(cell)[1]
    for statement in ast.parse(cell["source"]).body:
        if isinstance(statement, ast.FunctionDef) and statement.name == part:
            return ast.get_source_segment(cell["source"], statement), []
    raise ValueError(f'{cell["id"]} has no function {part}; show its "output", or all of it')


def _shown(cell: dict) -> tuple[str, list[dict]]:
    """Code and outputs of a cell on a slide: of one that draws the pictures alone."""
    outputs = [_without_frame(output) for output in cell["outputs"]]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    source = re.sub(r"\n{3,}", "\n\n", cell["source"])
    if pictures:
        return "", pictures
    return source, outputs


def _without_frame(output: dict) -> dict:
    """An output, but in place of the explorer in a frame a picture of it.

    A deck is one file: the page would not be found from it, and a frame is too high for a slide.
    """
    page = output.get("data", {}).get("text/html", "")
    if "<iframe" not in page:
        return output
    description = re.search(r'<img src="[^"]+explorer\.png" alt="([^"]+)"', page)
    if description is None:
        raise ValueError(f"no picture stands for this frame on a slide: {page[:200]}")
    dots = EXPLORER_TEXT / legible.SMALLEST * 72
    with Image.open(EXPLORER) as image:
        picture = legible.stored(image.convert("RGB"), dots)
    details = {"image/png": {"alt": description[1]}}
    return {**output, "data": {"image/png": picture}, "metadata": details}
