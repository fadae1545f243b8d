"""Alternative text of a figure, for screen readers: the `alt` of its picture.

Made from what is drawn, so it cannot go stale, and rounded, so that it hardly ever differs between
machines.  Usual rounding has ties at numbers that a course is full of (1/8, the mean of an
attention row), where noise in the seventh digit flips it; so the grid used here lies off them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.collections import PathCollection
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from nmtcourse.teaching.describe import COLOUR_BAR, tick_words, with_insets
from nmtcourse.teaching.language import mark, say

OFF_TIES = 0.2618  # how far the grid of rounded numbers is moved, in steps
STEPS = 96.3  # a step is about a hundredth of the largest number, and changes at no round number
ZERO = 1e-12  # an array that stays below is all zero: what differs there is the order of additions
LONGEST = 600  # characters after which further panels are only named
MOST = 14  # words, lines or bars that are named before the rest is counted
CLEAR = 0.2  # of the colour scale: how far the largest cell of a row leads the next
LIST = re.compile(r" \([^()]*, [^()]*\)|（[^（）]*、[^（）]*）")  # the words of rows and columns
MARKUP = str.maketrans("", "", "$\\{}")


def alt_text(figure: Figure) -> str:
    """Some sentences about a figure: its label, its title, then the kind and content of each panel.

    A curve is told by its first and last value, a heat map by its words and its clear maxima.
    """
    parts = [part for part in (figure, *figure.subfigs) if part.get_suptitle()]
    sentences = [*filter(None, [str(figure.get_label())]), *(part.get_suptitle() for part in parts)]
    for ax in with_insets(figure.axes):
        if ax.get_label() != COLOUR_BAR and (ax.has_data() or ax.texts):
            kind, more = _panel(ax)
            so_far = " ".join(sentences)
            for words in filter(so_far.__contains__, LIST.findall(more)):
                more = more.replace(words, "")
            fits = not sentences or len(so_far) + len(more) < LONGEST
            sentences.append(f"{kind}{mark(':')}{more}" if more and fits else kind)
    stop = mark(".")
    between = "" if stop == "。" else " "
    return between.join(f"{_plain(text)}{stop}" for text in sentences)


def _plain(text: str) -> str:
    """On one line, without the marks of a formula."""
    return " ".join(text.translate(MARKUP).split()).rstrip(".:;。：；")


def _panel(ax: Axes) -> tuple[str, str]:
    """What some axes are, and what they show."""
    title = " ".join(filter(None, (ax.get_title(side) for side in ("left", "center", "right"))))
    bars = [part for part in ax.containers if isinstance(part, BarContainer)]
    points = any(isinstance(part, PathCollection) for part in ax.collections)
    named = bool(ax.get_xlabel() or ax.get_ylabel())
    ticks = [word for axis in (ax.xaxis, ax.yaxis) for word in tick_words(axis)]
    if ax.images:
        kind, more = "Heat map", [_heat_map(ax, ax.images[0])]
    elif bars and (named or ticks):
        kind = "Bar chart" if ticks else "Histogram"
        more = [_axes(ax), *(_bars(part, ticks) for part in bars[:MOST])]
    elif named and any(len(line.get_xdata()) > 1 for line in ax.lines):
        kind, more = "Line plot", [_axes(ax), *_lines(ax)]
    elif named:
        kind, more = "Scatter plot" if points else "Plot", [_axes(ax), _listed(_words(ax))]
    else:
        kind, more = "Points" if points else "Drawing with the words", [_listed(_words(ax))]
    kind = say(f"{kind} “{title}”" if title else kind)
    return kind, mark(";").join(filter(None, more))


def _words(ax: Axes) -> list[str]:
    """What is written inside the axes; numbers, signs, shapes and code are left out."""
    read = (text for text in ax.texts if "mono" not in "".join(text.get_fontfamily()).lower())
    texts = dict.fromkeys(text.get_text().strip() for text in read)
    return [text for text in texts if re.match(r"[^\W\d]|[“<]", text)]


def _listed(words: Sequence[str]) -> str:
    rest = len(words) - MOST
    listed = mark("/").join(words[:MOST])
    return say(f"{listed} and {rest} more") if rest > 0 else listed


def _axes(ax: Axes) -> str:
    """The names of the axes with the numbers that they reach from and to."""
    up, across = (_axis(axis) for axis in (ax.yaxis, ax.xaxis))
    return say(" against ".join(filter(None, (up, across))))


def _axis(axis: Axis) -> str:
    name = axis.get_label_text()
    if not name or tick_words(axis):
        return name
    low, high = (float(end) for end in axis.get_data_interval())
    if low % 1 == 0 == high % 1 and isinstance(axis, XAxis):
        return say(f"{name} from {low:g} to {high:g}")
    ends = f"{name} from {_number(low, axis, high)} to {_number(high, axis, low)}"
    return say(f"{ends} (logarithmic)" if axis.get_scale() == "log" else ends)


def _number(value: float, axis: Axis, *others: float) -> str:
    """A number as fine as its axis shows it: on a logarithmic one, small ones count too."""
    beside = [] if axis.get_scale() == "log" else others
    return rounded([value], np.abs([value, *beside]))[0]


def rounded(numbers: Iterable[float], array: np.ndarray) -> list[str]:
    """Numbers about an array, rounded to a step (1, 2, 5 times 10 to the n) that suits it."""
    largest = float(np.abs(array).max())
    target, step = largest / STEPS, 1.0
    if largest > ZERO:
        power = 10.0 ** math.floor(math.log10(target))
        step = max([power, *(factor * power for factor in (2, 5) if factor * power <= target)])
    places = (math.floor(number / step + OFF_TIES) * step for number in numbers)
    return [f"{value + 0.0:.5g}" for value in places]  # + 0.0 makes -0 a 0


def _lines(ax: Axes) -> Iterator[str]:
    """Each named line by its first and last number; the others are counted."""
    named = [line for line in ax.lines if not str(line.get_label()).startswith("_")]
    for line in named[:MOST]:
        values = np.asarray(line.get_ydata(orig=False), dtype=float)
        values = values[np.isfinite(values)]
        if len(values):
            axis, ends = ax.yaxis, (float(values[0]), float(values[-1]))
            first, last = (_number(end, axis, float(np.abs(values).max())) for end in ends)
            values_of_line = say(f"{first} to {last}") if last != first else first
            yield f"{line.get_label()}{mark(':')}{values_of_line}"
    if rest := len(ax.lines) - len(named[:MOST]):
        lines = "line" if rest == 1 else "lines"
        yield say(f"{rest} more {lines}" if named else f"{rest} {lines}")


def _bars(bars: BarContainer, words: Sequence[str]) -> str:
    """The value of each bar, where they are few; else the largest."""
    heights = np.nan_to_num(np.asarray(bars.datavalues, dtype=float))
    values, label = rounded(heights, heights), str(bars.get_label())
    text = say(f"{len(heights)} bars up to {rounded([heights.max()], heights)[0]}")
    if len(words) == len(values) <= MOST:
        pairs = zip(words, values, strict=True)
        text = mark(",").join(f"{word}{mark(':')}{value}" for word, value in pairs)
    return text if label.startswith("_") or not label else f"{label} – {text}"


def _heat_map(ax: Axes, image: AxesImage) -> str:
    """Rows and columns with their words, the range of the numbers, and what stands out."""
    matrix: np.ndarray = np.ma.filled(np.ma.asarray(image.get_array(), dtype=float), np.nan)
    if matrix.ndim != 2 or not np.isfinite(matrix).any():
        return ""
    parts, names = [], [tick_words(ax.yaxis), tick_words(ax.xaxis)]
    for side, label, words, size in zip(
        ("rows", "columns"), (ax.get_ylabel(), ax.get_xlabel()), names, matrix.shape, strict=True
    ):
        count = mark(",").join(filter(None, [say(f"{size} {side}"), label]))
        listed = len(words) == size and _listed(words)
        parts.append(f"{count}{mark('(')}{listed}{mark(')')}" if listed else count)
    known = matrix[np.isfinite(matrix)]
    ends = rounded([known.min(), known.max()], known)
    parts.append(say("numbers from {} to {}".format(*ends)))
    if len(ax.figure.axes) <= 3:
        parts += _leaders(matrix, *names)
    return mark(";").join(parts)


def _leaders(matrix: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The cells that are clearly the largest of their row, in one line where there are any."""
    if (len(rows), len(columns)) != matrix.shape or matrix.shape[1] < 2 or len(rows) > MOST:
        return []
    known = np.where(np.isfinite(matrix), matrix, np.nanmin(matrix))
    ranked = np.sort(known, axis=1)
    clear = (ranked[:, -1] - ranked[:, -2] > CLEAR * np.ptp(known)).tolist()
    best = known.argmax(axis=1).tolist()
    colon = mark(":")
    pairs = [f"{rows[i]}{colon}{columns[best[i]]}" for i in range(len(rows)) if clear[i]]
    return [say("clearly largest in its row") + colon + mark(",").join(pairs)] if pairs else []
