"""Every picture of `figures/` that is drawn by code, as SVG and PNG.

    python -m nmtcourse.teaching.gallery            # draw all of them anew (make figures)
    python -m nmtcourse.teaching.gallery --check    # what is missing or out of date; exit status 1

The same code gives the same bytes.  Letters are stored as outlines: no reader needs the fonts.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

from nmtcourse.teaching import diagrams, plots, style
from nmtlib.errors import require_one_of
from nmtlib.files import write_atomically
from nmtlib.model.embeddings import sinusoidal_table


def positional_encoding() -> Figure:
    """The position table as colours, and four of its columns as curves.

    Vaswani et al. 2017, 3.5.
    """
    return plots.position_table(sinusoidal_table(50, 64), title="50 positions, 64 dimensions")


FIGURES: dict[str, Callable[[], Figure]] = {
    name.replace("_", "-"): getattr(diagrams, name) for name in diagrams.__all__
}
FIGURES["positional-encoding"] = positional_encoding
FOLDER = Path("figures")
PNG_DPI = 150
SVG_HASH = "SVG-SHA256"  # the PNG tells in its metadata from which drawing it was made


def svg(name: str) -> bytes:
    """One figure as SVG; the first sentence of its docstring is the title, for screen readers.

    Raises ValueError for a name that is not in `FIGURES`.
    """
    require_one_of("a figure", FIGURES, name)
    return _saved(name, "svg", {"Date": None, "Creator": None, "Title": _title(name)})


def png(name: str, svg_hash: str) -> bytes:
    """One figure as PNG, which carries the hash of its SVG."""
    return _saved(name, "png", {"Software": None, "Title": _title(name), SVG_HASH: svg_hash})


def write(folder: str | Path = FOLDER) -> list[Path]:
    """Write NAME.svg and NAME.png of every figure into a folder; returns what was written."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in FIGURES:
        drawing = svg(name)
        for kind, data in (("svg", drawing), ("png", png(name, _hash(drawing)))):
            written.append(folder / f"{name}.{kind}")
            write_atomically(written[-1], data)
    return written


def stale(folder: str | Path = FOLDER) -> list[str]:
    """What is wrong with the figures of a folder, a line for each file.

    SVG files are compared byte by byte.  Pixels differ from machine to machine, so of a PNG only
    the hash of the SVG that it was made with is compared.
    """
    folder, wrong = Path(folder), []
    for name in FIGURES:
        drawing, paths = svg(name), {kind: folder / f"{name}.{kind}" for kind in ("svg", "png")}
        wrong += [f"{path} is missing" for path in paths.values() if not path.is_file()]
        # Git may have given the file the line ends of another system.
        if paths["svg"].is_file() and paths["svg"].read_bytes().replace(b"\r\n", b"\n") != drawing:
            wrong.append(f"{paths['svg']} is out of date")
        if paths["png"].is_file() and _hash_in(paths["png"]) != _hash(drawing):
            wrong.append(f"{paths['png']} is out of date")
    unknown = (path for path in sorted(folder.glob("*.svg")) if path.stem not in FIGURES)
    return [*wrong, *(f"{path} is drawn by no function" for path in unknown)]


def _saved(name: str, kind: str, metadata: dict[str, str | None]) -> bytes:
    """The bytes of one figure in the style of the course; the caller's settings stay."""
    file = io.BytesIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        style.setup()
        matplotlib.rcParams.update({"svg.fonttype": "path", "savefig.bbox": None})
        figure = FIGURES[name]()
        figure.savefig(file, format=kind, dpi=PNG_DPI, metadata=metadata)
        plt.close(figure)
    return file.getvalue()


def _title(name: str) -> str:
    return diagrams.sentence(FIGURES[name])


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _hash_in(path: Path) -> str:
    """The hash that a PNG carries, '' where it carries none or is no PNG."""
    try:
        with Image.open(path) as image:
            return image.info.get(SVG_HASH, "")
    except OSError:
        return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(description="Draw the figures.")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="default: %(default)s")
    parser.add_argument("--check", action="store_true", help="write nothing, tell what is stale")
    options = parser.parse_args(arguments)
    if not options.check:
        print(f"wrote {len(write(options.folder))} files into {options.folder}")
        return 0
    if wrong := stale(options.folder):
        print(*wrong, "draw them anew: make figures", sep="\n")
        return 1
    print(f"{options.folder} is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
