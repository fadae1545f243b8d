"""Every picture of `figures/` that is drawn by code, as SVG and PNG.

    python -m nmtlib.teaching.gallery            # draw all of them anew (make figures)
    python -m nmtlib.teaching.gallery --check    # exit status 1, and a list, where one is missing or out of date

The same code gives the same bytes.  Letters are stored as outlines, so that no reader needs the
fonts.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from PIL import Image

from nmtlib.files import write_atomically
from nmtlib.teaching import diagrams, style

FIGURES: dict[str, Callable[[], Figure]] = {
    "whole-model": diagrams.whole_model,
    "encoder-layer": diagrams.encoder_layer,
    "decoder-layer": diagrams.decoder_layer,
    "residual-and-norm": diagrams.residual_and_norm,
    "attention-head": diagrams.attention_head,
    "multi-head": diagrams.multi_head,
    "masked-self-attention": diagrams.masked_self_attention,
    "cross-attention": diagrams.cross_attention,
    "masks": diagrams.masks,
    "embedding-lookup": diagrams.embedding_lookup,
    "course-map": diagrams.course_map,
    "data-flow": diagrams.data_flow,
}
FOLDER = Path("figures")
PNG_DPI = 150
SVG_HASH = "SVG-SHA256"  # the PNG tells in its metadata from which drawing it was made


def svg(name: str) -> bytes:
    """One figure as SVG, with the first sentence of its function's docstring as title, which screen
    readers read.

    Raises ValueError for a name that is not in `FIGURES`.
    """
    if name not in FIGURES:
        raise ValueError(f"figures are {', '.join(FIGURES)}, not {name!r}")
    return _saved(name, "svg", {"Date": None, "Creator": None, "Title": _title(name)})


def png(name: str, svg_hash: str) -> bytes:
    """One figure as PNG, which carries the hash of its SVG."""
    return _saved(name, "png", {"Software": None, "Title": _title(name), SVG_HASH: svg_hash})


def write(folder: str | Path = FOLDER) -> list[Path]:
    """Write NAME.svg and NAME.png of every figure into a folder, which is made if need be; what was
    written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in FIGURES:
        drawing = svg(name)
        for path, data in (
            (folder / f"{name}.svg", drawing),
            (folder / f"{name}.png", png(name, _hash(drawing))),
        ):
            write_atomically(path, data)
            written.append(path)
    return written


def stale(folder: str | Path = FOLDER) -> list[str]:
    """What is wrong with the figures of a folder, a line for each file; an empty list where all are
    up to date.

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
    known = {f"{name}.svg" for name in FIGURES}
    wrong += [
        f"{path} is drawn by no function"
        for path in sorted(folder.glob("*.svg"))
        if path.name not in known
    ]
    return wrong


def _saved(name: str, kind: str, metadata: dict[str, str | None]) -> bytes:
    """The bytes of one figure, drawn and saved in the style of the course; the caller's settings
    stay as they are.
    """
    file = io.BytesIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        style.setup()
        matplotlib.rcParams.update(
            {"svg.fonttype": "path", "svg.hashsalt": "nmtlib", "savefig.bbox": None}
        )
        FIGURES[name]().savefig(file, format=kind, dpi=PNG_DPI, metadata=metadata)
    return file.getvalue()


def _title(name: str) -> str:
    """The first sentence of the docstring of a figure's function."""
    return (FIGURES[name].__doc__ or name).split(".  ")[0].split("\n")[0].strip().rstrip(".")


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
    parser = argparse.ArgumentParser(
        prog="python -m nmtlib.teaching.gallery", description="Draw the figures."
    )
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="where they are (default: %(default)s)"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing, tell what is missing or out of date"
    )
    options = parser.parse_args(arguments)
    if not options.check:
        print(f"wrote {len(write(options.folder))} files into {options.folder}")
        return 0
    wrong = stale(options.folder)
    print(
        "\n".join([*wrong, "draw them anew: make figures"])
        if wrong
        else f"{options.folder} is up to date"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
