"""Matrices as pictures, with words on the axes: attention weights, scores, masks."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from nmtlib.teaching.describe import COLOUR_BAR
from nmtlib.teaching.style import COLOURS, DIVERGING, SEQUENTIAL, WIDTH, letters

Words = Sequence | None
SCALE = 0.75  # inches that the colour scale takes beside a map
MARGIN = 0.55  # inches for the name of an axis and some air
SMALLEST, LARGEST = (
    0.1,
    0.42,
)  # inches of a cell: a word of 5 points still fits; more makes three words a wall
LONG = 1.0  # inches from which words on the horizontal axis stand upright instead of at a slant


def heat_map(
    values,
    rows: Words,
    columns: Words,
    *,
    title: str = "",
    row_label: str = "",
    column_label: str = "",
    ax: Axes | None = None,
    annotate: bool = False,
    diverging: bool = False,
    limits: tuple[float, float] | None = None,
) -> Axes:
    """Draw a matrix as colours, row 0 on top, with a word at each row and column and a colour scale
    on the right.

    `values` has shape (len(rows), len(columns)); None instead of words numbers an axis.  `annotate`
    writes each value into its cell, `diverging` has white at 0, `limits` are the values of the two
    ends of the scale.  Cells that are not finite (a masked score) are grey.  Raises ValueError
    where the shapes do not fit.
    """
    matrix = as_matrix(values, rows, columns)
    if ax is None:
        ax = _new_axes(matrix.shape, rows, columns, title, 0.62 if annotate else LARGEST, SCALE)
    image = _draw(ax, matrix, rows, columns, limits or _limits(matrix, diverging), diverging)
    ax.set(title=title, xlabel=column_label, ylabel=row_label)
    if annotate:
        _write_values(ax, image, matrix)
    _colour_scale(ax, image)
    return ax


def heat_maps(
    values: Sequence,
    rows: Words,
    columns: Words,
    titles: Sequence[str],
    *,
    row_label: str = "",
    column_label: str = "",
    per_row: int = 4,
    diverging: bool = False,
    limits: tuple[float, float] | None = None,
    title: str = "",
) -> Figure:
    """Draw several matrices over the same words with one colour scale, such as the heads of one
    layer.

    `values` are matrices of shape (len(rows), len(columns)), or one array that stacks them.  At
    most `per_row` of them stand side by side, fewer where words need the room; `title` stands above
    them all.  Raises ValueError where numbers or shapes do not fit.
    """
    matrices = [as_matrix(one, rows, columns) for one in values]
    if not matrices or len(matrices) != len(titles):
        raise ValueError(
            f"there are {len(matrices)} matrices and {len(titles)} titles; give one title for each matrix"
        )
    across, size = _grid(len(matrices), matrices[0].shape, _longest(rows), per_row)
    down = -(-len(matrices) // across)
    panel = matrices[0].shape[1] * size, max(matrices[0].shape[0] * size, 0.6)
    width = _longest(rows) + across * (panel[0] + 0.1) + SCALE + MARGIN
    rows_with_words = 1 if len(matrices) % across == 0 else 2
    height = (
        down * (panel[1] + 0.3)
        + rows_with_words * (_longest(columns) + 0.2)
        + MARGIN
        + 0.25 * bool(title)
    )
    figure, axes = plt.subplots(down, across, figsize=(max(width, 2.6), height), squeeze=False)
    limits = limits or _limits(np.stack(matrices), diverging)
    for number, ax in enumerate(axes.flat):
        if number >= len(matrices):
            ax.remove()
            continue
        image = _draw(ax, matrices[number], rows, columns, limits, diverging)
        ax.set_title(
            textwrap.fill(str(titles[number]), max(8, int(panel[0] / letters("x", 9)))), fontsize=9
        )
        first, last = number % across == 0, number + across >= len(matrices)
        ax.tick_params(labelleft=first, labelbottom=last)
        ax.set(ylabel=row_label if first else "", xlabel=column_label if last else "")
    _colour_scale(axes[0, -1], image)
    figure.suptitle(title)
    return figure


def mask(
    mask,
    rows: Words,
    columns: Words,
    *,
    title: str = "",
    row_label: str = "query",
    column_label: str = "key (blue: may attend)",
    ax: Axes | None = None,
) -> Axes:
    """Draw a mask: the word of a row may attend to the words of the blue columns.

    `mask` is bool, shape (len(rows), len(columns)), True = may attend.  Raises ValueError for
    another dtype or shape.
    """
    allowed = torch.as_tensor(mask)
    if allowed.dtype != torch.bool:
        raise ValueError(
            f"a mask is bool (True = may attend), this one is {allowed.dtype}; use e.g. `weights > 0`"
        )
    matrix = as_matrix(allowed, rows, columns)
    ax = ax if ax is not None else _new_axes(matrix.shape, rows, columns, title, 0.34, 0.0)
    image = _draw(ax, matrix, rows, columns, (0.0, 1.0), False)
    image.set_cmap(ListedColormap(["white", COLOURS[0]]))
    ax.set(title=title, xlabel=column_label, ylabel=row_label)
    for edges, count in ((ax.set_yticks, matrix.shape[0]), (ax.set_xticks, matrix.shape[1])):
        edges(np.arange(1, count) - 0.5, minor=True)
    ax.grid(which="minor", color="#B0B0B0", linewidth=0.6)
    ax.tick_params(which="minor", length=0)
    return ax


def as_array(values) -> np.ndarray:
    """Lists, arrays or tensors of numbers as one float64 array."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().double().numpy()
    elif isinstance(values, list | tuple) and any(
        isinstance(value, torch.Tensor) for value in values
    ):
        values = [as_array(value) for value in values]
    return np.asarray(values, dtype=np.float64)


def as_matrix(values, rows: Words, columns: Words) -> np.ndarray:
    """Numbers as a matrix that has these rows and columns; dimensions of one in front are dropped.

    Raises ValueError for another shape.
    """
    matrix = as_array(values)
    while matrix.ndim > 2 and matrix.shape[0] == 1:
        matrix = matrix[0]
    wanted = tuple(None if words is None else len(words) for words in (rows, columns))
    fits = matrix.ndim == 2 and all(
        want in (None, size) for want, size in zip(wanted, matrix.shape, strict=True)
    )
    if not fits or not matrix.size:
        raise ValueError(
            f"the numbers have shape {np.shape(matrix)}, the words need {wanted} (rows, columns; None is any size);"
            " give the matrix of one head and one sentence, and a word for each row and column"
        )
    return matrix


def _limits(values: np.ndarray, diverging: bool) -> tuple[float, float]:
    """The ends of the colour scale: from 0, or from the least value where that is less; or alike on
    both sides of 0.
    """
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    if diverging:
        high = max(abs(low), abs(high)) or 1.0
        return -high, high
    return min(0.0, low), high if high > min(0.0, low) else low + 1.0


def _longest(words: Words) -> float:
    """The inches that the longest word takes; numbers are short."""
    return 0.3 if words is None else max(letters(short(word)) for word in words)


def short(word: object) -> str:
    """A label of at most 18 letters, so that one long German word does not take the room of the
    picture.
    """
    word = str(word)
    return word if len(word) <= 18 else word[:17] + "…"


def _grid(count: int, shape: tuple[int, ...], words: float, per_row: int) -> tuple[int, float]:
    """How many maps stand side by side, and the inches of a cell."""
    room = WIDTH - SCALE - MARGIN - words
    across = max(1, min(per_row, count))
    while across > 1 and room / across < shape[1] * SMALLEST + 0.1:
        across -= 1
    down = -(-count // across)
    return across, min(
        LARGEST, (room / across - 0.1) / shape[1], max(9.0 / down / shape[0], SMALLEST)
    )


def _new_axes(
    shape: tuple[int, ...], rows: Words, columns: Words, title: str, largest: float, beside: float
) -> Axes:
    """Axes of a new figure just large enough for the cells (at most `largest`), the words and
    `beside` on the right.
    """
    left = _longest(rows) + MARGIN
    size = min(largest, (WIDTH - left - beside) / shape[1], 6.5 / shape[0])
    below = (
        0.2
        if _longest(columns) < 0.95 * size
        else _longest(columns) * (0.75 if _longest(columns) < LONG else 1.0)
    )
    width, height = (
        left + shape[1] * size + beside,
        max(shape[0] * size, 0.8) + below + MARGIN + 0.1,
    )
    return plt.subplots(figsize=(max(width, 2.2, min(WIDTH, letters(title, 10))), height))[1]


def _cell_inches(ax: Axes, shape: tuple[int, ...]) -> float:
    """About how wide a cell will be in these axes, before the layout is known."""
    box, dpi = ax.get_window_extent(), ax.figure.dpi
    return min(box.width / shape[1], box.height / shape[0]) / dpi


def _draw(
    ax: Axes, matrix: np.ndarray, rows: Words, columns: Words, limits, diverging: bool
) -> AxesImage:
    """The coloured cells and the words around them."""
    colours = mpl.colormaps[DIVERGING if diverging else SEQUENTIAL].with_extremes(bad="#C8C8C8")
    shown = np.ma.masked_invalid(matrix)
    image = ax.imshow(shown, cmap=colours, vmin=limits[0], vmax=limits[1], interpolation="nearest")
    size = _cell_inches(ax, matrix.shape)
    points = min(8.0, max(5.0, size * 72 * 0.9))
    if rows is not None:
        ax.set_yticks(range(len(rows)), [short(word) for word in rows], fontsize=points)
    if columns is not None:
        ax.set_xticks(range(len(columns)), [short(word) for word in columns], fontsize=points)
        slant_if_long(ax, size, points)
    ax.tick_params(length=2)
    ax.spines[:].set(visible=True, linewidth=0.6)
    return image


def slant_if_long(ax: Axes, room: float, points: float = 8.0) -> None:
    """Turn the words of the horizontal axis when one of them is wider than its `room` in inches."""
    labels = ax.get_xticklabels()
    lines = [line for label in labels for line in label.get_text().split("\n")]
    longest = max((letters(line, points) for line in lines), default=0.0)
    if longest > 0.95 * room:
        upright = longest > LONG
        look = (
            {"rotation": 90, "va": "top", "ha": "center"}
            if upright
            else {"rotation": 45, "ha": "right"}
        )
        for label in labels:
            label.set(**look, rotation_mode="default" if upright else "anchor")


def _colour_scale(ax: Axes, image: AxesImage) -> None:
    """A colour scale on the right of the axes, as high as they are."""
    wide = ax.get_window_extent().width / ax.figure.dpi
    beside = ax.inset_axes((1 + 0.08 / wide, 0, 0.11 / wide, 1), label=COLOUR_BAR)
    ax.figure.colorbar(image, cax=beside).outline.set_visible(False)
    beside.tick_params(labelsize=7, length=2)


def _write_values(ax: Axes, image: AxesImage, matrix: np.ndarray) -> None:
    points = min(7.5, max(4.0, _cell_inches(ax, matrix.shape) * 72 * 0.3))
    for (row, column), value in np.ndenumerate(matrix):
        red, green, blue, _ = image.cmap(image.norm(value)) if np.isfinite(value) else (1, 1, 1, 1)
        colour = "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.55 else "black"
        text = f"{round(value, 2) + 0.0:.2f}"  # + 0.0: no -0.00
        ax.text(column, row, text, ha="center", va="center", fontsize=points, color=colour)
