"""The pictures of the course: curves, bars, points, and (from `matrices`) heat maps.

Numbers may be lists, arrays or tensors.  A function that is given `ax` draws there and returns it;
else it makes a figure of fitting size.  A notebook starts with `plots.setup()`.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import seaborn
from matplotlib.axes import Axes
from matplotlib.text import Text

from nmtcourse.teaching.language import say
from nmtcourse.teaching.layout import ArrayLike, as_array, overlap, plain, short, slant_if_long
from nmtcourse.teaching.matrices import heat_map, heat_maps
from nmtcourse.teaching.style import COLOURS, LINES, MARKERS, WIDTH, letters, setup, varies

__all__ = ["setup", "varies", "heat_map", "heat_maps"]
__all__ += ["curves", "bars", "histogram", "scatter", "course_map"]

BESIDE = [  # where a word may stand: points to the right, points up, alignment
    (4, 3, "left"),
    (-4, 3, "right"),
    (4, -9, "left"),
    (-4, -9, "right"),
    (0, 6, "center"),
    (0, -12, "center"),
]


def curves(
    lines: Mapping[str, object],
    *,
    x_label: str,
    y_label: str,
    title: str = "",
    log_x: bool = False,
    log_y: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw labelled curves: each a tuple (x, y), or y alone, drawn against 1, 2, 3, ...

    Raises ValueError where x and y of a curve have different lengths.
    """
    ax = ax if ax is not None else _new_axes(6.0, 3.4)
    for number, (label, line) in enumerate(lines.items()):
        x, y = map(_vector, line) if isinstance(line, tuple) else (None, _vector(line))
        x = np.arange(1, len(y) + 1) if x is None else x
        if len(x) != len(y):
            raise ValueError(
                f"curve {label!r} has {len(x)} numbers in x and {len(y)} in y; give as many of each"
            )
        look = {}
        if len(y) <= 12:
            look = {"marker": MARKERS[number % len(MARKERS)], "markersize": 3.5}
        stroke = LINES[number % len(LINES)]
        ax.plot(x, y, stroke, label=label, color=_colour(number), **look)
    ax.set(xlabel=x_label, ylabel=y_label, title=title)
    ax.set_xscale("log" if log_x else "linear")
    ax.set_yscale("log" if log_y else "linear")
    if not log_x and all(np.all(line.get_xdata() % 1 == 0) for line in ax.lines):
        ax.xaxis.get_major_locator().set_params(integer=True)  # there is no epoch 2.5
    ax.grid(True)
    _legend(ax, lines)
    return ax


def bars(
    values: Mapping[str, object],
    *,
    y_label: str,
    title: str = "",
    ax: Axes | None = None,
    value_format: str = "{:.3g}",
) -> Axes:
    """Draw {label: value} as bars, or {group: {label: value}} as groups of bars.

    Each value stands on its bar, written in `value_format`, where there is room for it.  Raises
    ValueError where numbers and groups are mixed.
    """
    if len({isinstance(value, Mapping) for value in values.values()}) != 1:
        raise ValueError(f"expected numbers for all labels, or groups for all; got {dict(values)}")
    series = _series(values)
    wrapped = [textwrap.wrap(str(name), 16, break_long_words=False) for name in values]
    names = ["\n".join(map(short, lines)) for lines in wrapped]
    if ax is None:
        longest = max(letters(line) for name in names for line in name.split("\n"))
        wide = max(0.75, 0.42 * len(series), min(1.1, longest))
        ax = _new_axes(min(WIDTH, max(3.0, 1.0 + len(names) * wide)), 3.0)
    _fix_layout(ax)
    width = 0.8 / len(series)
    for number, (label, heights) in enumerate(series.items()):
        places = np.arange(len(names)) + (number - (len(series) - 1) / 2) * width
        drawn = ax.bar(places, heights, width * 0.94, label=label, color=_colour(number))
        texts = [value_format.format(height) if np.isfinite(height) else "" for height in heights]
        if max(letters(text, 7) for text in texts) < _inches(ax) * width / len(names) * 1.1:
            ax.bar_label(drawn, texts, fontsize=7, padding=2)
    ax.set_xticks(range(len(names)), names)
    slant_if_long(ax, _inches(ax) / len(names))
    ax.tick_params(axis="x", length=0)
    ax.margins(y=0.15)
    ax.set(ylabel=y_label, title=title)
    _legend(ax, series)
    return ax


def histogram(
    values: ArrayLike | Mapping[str, ArrayLike],
    *,
    x_label: str,
    y_label: str | None = None,
    title: str = "",
    bins: int | Sequence[float] = 30,
    ax: Axes | None = None,
) -> Axes:
    """Draw how often values occur: of one array, or of {label: array} over the same bins."""
    named = values if isinstance(values, Mapping) else {"": values}
    arrays = {label: _vector(array) for label, array in named.items()}
    edges = np.histogram_bin_edges(np.concatenate(list(arrays.values())), bins)
    ax = ax if ax is not None else _new_axes(5.0, 3.0)
    alpha = 1.0 if len(arrays) == 1 else 0.55
    for number, (label, array) in enumerate(arrays.items()):
        look = {"bins": list(edges), "color": _colour(number), "alpha": alpha, "linewidth": 0}
        seaborn.histplot(array, label=label, legend=False, ax=ax, **look)
    ax.set(xlabel=x_label, ylabel=say("count") if y_label is None else y_label, title=title)
    _legend(ax, arrays)
    return ax


def scatter(
    points: ArrayLike,
    labels: Sequence[str],
    *,
    title: str = "",
    x_label: str = "",
    y_label: str = "",
    groups: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw points (N, 2), each with its word beside it; `groups` are their classes, as colours.

    Raises ValueError where the numbers of points, labels and groups differ.
    """
    points, groups = as_array(points), [""] * len(labels) if groups is None else list(groups)
    if points.shape != (len(labels), 2) or len(groups) != len(labels):
        counts = f"{points.shape}, {len(labels)} labels and {len(groups)} groups"
        raise ValueError(f"expected points (N, 2), N labels and N groups, not {counts}")
    ax = ax if ax is not None else _new_axes(6.0, 4.6)
    classes = list(dict.fromkeys(groups))
    for number, name in enumerate(classes):
        members = [index for index, group in enumerate(groups) if group == name]
        ax.scatter(
            points[members, 0], points[members, 1], s=18, label=plain(name), color=_colour(number)
        )
    ax.margins(0.1)
    ax.set(title=title, xlabel=x_label, ylabel=y_label)
    _legend(ax, classes)
    _write_beside(ax, points, labels)
    return ax


def _new_axes(width: float, height: float) -> Axes:
    return plt.subplots(figsize=(width, height))[1]


def _vector(values: ArrayLike) -> np.ndarray:
    array = as_array(values)
    if array.ndim != 1:
        raise ValueError(f"expected one row of numbers, got shape {array.shape}; try `.flatten()`")
    return array


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _fix_layout(ax: Axes) -> None:
    """Draw nothing, but find out where all will be: from then on places and widths hold."""
    ax.figure.canvas.figure.draw_without_rendering()


def _inches(ax: Axes) -> float:
    """The width of the axes."""
    return ax.get_window_extent().width / ax.figure.dpi


def _series(values: Mapping[str, object]) -> dict[str, list[float]]:
    """For each label its value in every group, or NaN; the label of bare numbers is ''."""
    groups = [value if isinstance(value, Mapping) else {"": value} for value in values.values()]
    labels = dict.fromkeys(label for group in groups for label in group)
    return {label: [float(group.get(label, np.nan)) for group in groups] for label in labels}


def _legend(ax: Axes, labels: Sequence | Mapping) -> None:
    """A legend where there is something to tell apart; a long one stands beside the axes."""
    if sum(map(bool, labels)) > 1:
        beside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        ax.legend(**beside if len(labels) > 5 else {"loc": "best"})


def _write_beside(ax: Axes, points: np.ndarray, labels: Sequence[str]) -> None:
    """Write each word at the side of its point where it covers least of what is there already."""
    _fix_layout(ax)
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in ax.transData.transform(points)]

    def covers(text: Text) -> float:
        return sum(overlap(text.get_window_extent().extents, other) for other in taken)

    look = {"textcoords": "offset points", "fontsize": 8}
    for point, label in zip(points, labels, strict=True):
        word = plain(label)
        tried = [ax.annotate(word, point, (x, y), ha=align, **look) for x, y, align in BESIDE]
        best = min(tried, key=covers)
        taken.append(tuple(best.get_window_extent().extents))
        for text in (other for other in tried if other is not best):
            text.remove()


def course_map(folder: str | Path = ".") -> None:
    """Draw what each notebook of a folder needs, and its minutes, as the openings of all say.

    The stored picture is not compared, because any notebook may change its minutes.
    """
    books = {path.name[:2]: path for path in sorted(Path(folder).glob("[01][0-9]_*.ipynb"))}
    titles, minutes, needs = [], [], np.zeros((len(books), len(books)))
    for row, (number, path) in enumerate(books.items()):
        opening = "".join(json.loads(path.read_text("utf-8"))["cells"][0]["source"])
        titles.append(opening.partition("\n")[0].lstrip("# "))
        about = re.split(r"\*\*(?:Time|用时)\*\*", opening)[1]
        minutes.append(int(re.findall(r"\d+", about)[0]))
        for column, other in enumerate(books):
            needs[row, column] = other < number and f"]({other}_" in about
    figure = plt.figure(figsize=(WIDTH, 4.6))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(5, 3))
    colours = ["white", "#94c4df"]
    grid = {"linewidths": 0.5, "linecolor": "#adadad", "cbar": False, "vmin": 0, "vmax": 1}
    seaborn.heatmap(needs, cmap=colours, xticklabels=[*books], yticklabels=titles, ax=left, **grid)
    left.set(title=say("each row needs its blue columns"))
    left.tick_params(axis="x", rotation=0)
    right.bar_label(right.barh(np.arange(len(books)) + 0.5, minutes, color=COLOURS[0]), padding=3)
    right.set(title=say("minutes to read"))
    right.tick_params(labelleft=False, left=False, labelbottom=False, bottom=False)
    right.spines[["left", "bottom"]].set_visible(False)
    varies()
    plt.show()
