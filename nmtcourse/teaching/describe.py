"""What a figure shows, as text, so that a test of the stored notebook notices another figure.

The numbers have decimals: another processor may round them differently, and `tools/reading.py`
compares them by value.  Counts and shapes are whole numbers, which must be the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.category import StrCategoryFormatter
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator
from numpy.typing import ArrayLike

COLOUR_BAR = "<colorbar>"  # matplotlib's name for the axes that hold a colour scale
VARIES = "varies"  # the gid of a figure that another machine draws with other numbers
SUMMARY = re.compile(r": \S+ to \S+, middle [^\s;,]+(, \d+ gaps)?|; colours from \S+ to \S+")
DECIMALS = 6  # at most: what is smaller is often the order of additions
NUMBER = re.compile(r"[-+−]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?%?|[-+−]?inf|nan")


def describe(figure: Figure) -> str:
    """A line for each thing drawn: curves, images, bars, points, words, with the range of numbers.

    Of a figure marked as VARIES, such as a curve of training, it tells everything but the numbers:
    titles, labels, words, and how many curves, points and boxes.
    """
    lines = ["Figure {:.1f} x {:.1f} in".format(*figure.get_size_inches())]
    for part in (figure, *figure.subfigs):
        title = part.get_suptitle()
        lines += [f"title: {title}"] * bool(title)
        lines += _words("words", [text for text in _said(part.texts) if text != title])
        keys = (_said(legend.get_texts()) for legend in part.legends)
        lines += _words("legend", [text for texts in keys for text in texts])
    for number, ax in enumerate(with_insets(figure.axes)):
        lines += [f"axes {number}: {_headline(ax)}", *(f"  {line}" for line in _contents(ax))]
    text = "\n".join(lines)
    return SUMMARY.sub("", text) if figure.get_gid() == VARIES else text


def summary(values: ArrayLike) -> str:
    """The shape of an array, its least, largest and middle number."""
    array: np.ndarray = np.ma.filled(np.ma.asarray(values, dtype=float), np.nan)
    shape = "×".join(map(str, array.shape))  # not "x": 10x20 looks like a number in base 16
    known = array[np.isfinite(array)]
    if not len(known):
        return f"{shape} without a number"
    text = "{} to {}, middle {}".format(*with_decimals(np.quantile(known, [0, 1, 0.5]).tolist()))
    gaps = array.size - len(known)
    return f"{shape}: {text}" + (f", {gaps} gaps" if gaps else "")


def with_decimals(numbers: Sequence[float]) -> list[str]:
    """Numbers with equally many decimals, so many that the largest has three digits or more.

    At least one decimal shows that a number is measured, and not a count.
    """
    largest = max(abs(number) for number in numbers)
    decimals = 1
    if largest > 10.0**-DECIMALS:
        # The factor moves the change from two to three decimals away from 1, which is a usual
        # largest number: the weight 0.99999 has as many decimals as the weight 1.
        decimals = min(max(1, 2 - math.floor(math.log10(1.07 * largest))), DECIMALS)
    return [f"{round(number, decimals) + 0.0:.{decimals}f}" for number in numbers]  # never -0.0


def with_insets(axes: Iterable[Axes]) -> Iterator[Axes]:
    """Axes, each followed by those that are drawn inside it."""
    for ax in axes:
        yield ax
        yield from with_insets(ax.child_axes)


def _headline(ax: Axes) -> str:
    """The title, the names of the axes and how they are scaled."""
    if ax.get_label() == COLOUR_BAR:
        return f"colour scale {ax.get_ylabel()!r}"
    title = " ".join(filter(None, (ax.get_title(loc) for loc in ("left", "center", "right"))))
    scales = [f"{name} {axis.get_scale()}" for name, axis in _axis_pair(ax)]
    scales = [scale for scale in scales if not scale.endswith("linear")]
    return ", ".join([f"title={title!r} x={ax.get_xlabel()!r} y={ax.get_ylabel()!r}", *scales])


def _axis_pair(ax: Axes) -> tuple[tuple[str, Axis], tuple[str, Axis]]:
    return ("x", ax.xaxis), ("y", ax.yaxis)


def _contents(ax: Axes) -> Iterator[str]:
    """A line for each artist, then the words."""
    if ax.get_label() == COLOUR_BAR:
        return  # its numbers are those of the image
    yield from map(_line, ax.lines)
    yield from map(_image, ax.images)
    yield from map(_collection, ax.collections)
    boxes = [patch for patch in ax.patches if not isinstance(patch, FancyArrowPatch)]
    if boxes:
        extents = (box.get_path().get_extents(box.get_patch_transform()) for box in boxes)
        yield f"boxes: {_places([extent.get_points() for extent in extents], ax)}"
    if len(boxes) < len(ax.patches):
        yield f"arrows: {len(ax.patches) - len(boxes)}"
    yield from _words("words", _said(ax.texts))
    if legend := ax.get_legend():
        yield from _words("legend", _said(legend.get_texts()))
    for name, axis in _axis_pair(ax):
        yield from _words(f"{name} ticks", tick_words(axis))


def _line(line: Line2D) -> str:
    return f"line{_label(line)}: {_places(np.stack(line.get_data(orig=False), axis=-1), line.axes)}"


def _places(points: ArrayLike, ax: Axes) -> str:
    """Where points (..., 2) are; in powers of ten on a logarithmic axis, which shows small ones."""
    parts = []
    points = np.ma.filled(np.ma.asarray(points, dtype=float), np.nan)
    for (name, axis), values in zip(_axis_pair(ax), (points[..., 0], points[..., 1]), strict=True):
        if axis.get_scale() == "log":
            values = np.log10(np.where(values > 0, values, np.nan))
        parts.append(f"{name} {summary(values)}")
    return "; ".join(parts)


def _image(image: AxesImage) -> str:
    low, high = image.get_clim()
    text = f"image: {summary(image.get_array())}"
    if low is None:
        return text
    return text + "; colours from {} to {}".format(*with_decimals((low, high)))


def _collection(collection: Collection) -> str:
    """Points, areas, lines or coloured cells: where, and the numbers behind their colours."""
    offsets, parts = collection.get_offsets(), []
    if np.any(offsets):
        parts.append(f"at {_places(offsets, collection.axes)}")
    elif collection.get_paths():
        corners = np.concatenate([path.vertices for path in collection.get_paths()])
        parts.append(f"outline {_places(corners, collection.axes)}")
    if collection.get_array() is not None:
        parts.append(f"colours {summary(collection.get_array())}")
    return f"shapes{_label(collection)}: {'; '.join(parts)}"


def _label(artist: Artist) -> str:
    """The name that somebody gave; matplotlib's own begin with an underscore."""
    label = str(artist.get_label())
    return "" if label.startswith("_") else f" {label!r}"


def tick_words(axis: Axis) -> list[str]:
    """Tick labels that somebody chose; numbers that matplotlib chooses follow from the limits."""
    locator, formatter = axis.get_major_locator(), axis.get_major_formatter()
    if not isinstance(locator, FixedLocator) and not isinstance(formatter, StrCategoryFormatter):
        return []
    return formatter.format_ticks(locator())


def _said(texts: Iterable[Text]) -> list[str]:
    return [text.get_text() for text in texts]


def _words(name: str, texts: Iterable[str]) -> list[str]:
    """At most one line: the words in order; numbers, which noise may change, are only counted."""
    texts = [text for text in texts if text]
    if name.endswith("ticks"):
        return [f"{name}: {' '.join(map(repr, texts))}"] if texts else []
    words = [repr(text) for text in texts if not NUMBER.fullmatch(text.strip())]
    count = len(texts) - len(words)
    parts = [*words, *([f"and {count} numbers"] if count else [])]
    return [f"{name}: {' '.join(parts)}"] if parts else []
