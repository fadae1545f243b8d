"""Matrices as pictures, with words on the axes: attention weights, scores."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import ArrayLike

from nmtcourse.teaching.describe import COLOUR_BAR
from nmtcourse.teaching.layout import Words, as_array, cell_inches, new_axes, panels, write_words
from nmtcourse.teaching.style import DIVERGING, SEQUENTIAL


def heat_map(
    values: ArrayLike,
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
    """Draw a matrix as colours, row 0 on top, with words at rows and columns and a colour scale.

    `values` has shape (len(rows), len(columns)); None instead of words numbers an axis.  `annotate`
    writes each value into its cell, `diverging` has white at 0, `limits` are the values of the two
    ends of the scale.  Cells that are not finite (a masked score) are grey.  Raises ValueError
    where the shapes do not fit.
    """
    matrix = as_matrix(values, rows, columns)
    if ax is None:
        cells = {"largest": 0.62} if annotate else {}
        ax = new_axes(matrix.shape, rows, columns, title, **cells)
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
    """Draw several matrices over the same words with one colour scale: the heads of a layer.

    `values` are matrices of shape (len(rows), len(columns)), or one array that stacks them.  At
    most `per_row` of them stand side by side, fewer where words need the room; `title` stands above
    them all.  Raises ValueError where numbers or shapes do not fit.
    """
    matrices = [as_matrix(one, rows, columns) for one in values]
    if not matrices or len(matrices) != len(titles):
        raise ValueError(f"{len(matrices)} matrices and {len(titles)} titles; give one for each")
    shape = matrices[0].shape
    figure, axes, width = panels(len(matrices), shape, rows, columns, per_row, bool(title))
    limits = limits or _limits(np.stack(matrices), diverging)
    across = axes.shape[1]
    for number, ax in enumerate(axes.flat):
        if number >= len(matrices):
            ax.remove()
            continue
        image = _draw(ax, matrices[number], rows, columns, limits, diverging)
        ax.set_title(textwrap.fill(str(titles[number]), width), fontsize=9)
        first, last = number % across == 0, number + across >= len(matrices)
        ax.tick_params(labelleft=first, labelbottom=last)
        ax.set(ylabel=row_label if first else "", xlabel=column_label if last else "")
    _colour_scale(axes[0, -1], image)
    figure.suptitle(title)
    return figure


def as_matrix(values: ArrayLike, rows: Words, columns: Words) -> np.ndarray:
    """Numbers as a matrix that has these rows and columns; dimensions of one in front are dropped.

    Raises ValueError for another shape.
    """
    matrix = as_array(values)
    while matrix.ndim > 2 and matrix.shape[0] == 1:
        matrix = matrix[0]
    expected = tuple(None if words is None else len(words) for words in (rows, columns))
    fits = matrix.ndim == 2 and all(
        want in (None, size) for want, size in zip(expected, matrix.shape, strict=True)
    )
    if not fits or not matrix.size:
        raise ValueError(
            f"the numbers have shape {np.shape(matrix)}, the words need {expected} (rows, columns; "
            "None is any size); give the matrix of one head and one sentence, and a word for each "
            "row and column"
        )
    return matrix


def _limits(values: np.ndarray, diverging: bool) -> tuple[float, float]:
    """The ends of the colour scale: from 0 or the least value below, or alike on both sides."""
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    if diverging:
        high = max(abs(low), abs(high)) or 1.0
        return -high, high
    return min(0.0, low), high if high > min(0.0, low) else low + 1.0


def _draw(
    ax: Axes, matrix: np.ndarray, rows: Words, columns: Words, limits: tuple, diverging: bool
) -> AxesImage:
    """The coloured cells and the words around them."""
    colours = mpl.colormaps[DIVERGING if diverging else SEQUENTIAL].with_extremes(bad="#C8C8C8")
    shown = np.ma.masked_invalid(matrix)
    image = ax.imshow(shown, cmap=colours, vmin=limits[0], vmax=limits[1], interpolation="nearest")
    write_words(ax, matrix.shape, rows, columns)
    ax.tick_params(length=2)
    ax.spines[:].set(visible=True, linewidth=0.6)
    return image


def _colour_scale(ax: Axes, image: AxesImage) -> None:
    """A colour scale on the right of the axes, as high as they are."""
    wide = ax.get_window_extent().width / ax.figure.dpi
    beside = ax.inset_axes((1 + 0.08 / wide, 0, 0.11 / wide, 1), label=COLOUR_BAR)
    ax.figure.colorbar(image, cax=beside).outline.set_visible(False)
    beside.tick_params(labelsize=7, length=2)


def _write_values(ax: Axes, image: AxesImage, matrix: np.ndarray) -> None:
    points = min(7.5, max(4.0, cell_inches(ax, matrix.shape) * 72 * 0.3))
    for (row, column), value in np.ndenumerate(matrix):
        red, green, blue, _ = image.cmap(image.norm(value)) if np.isfinite(value) else (1, 1, 1, 1)
        colour = "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.55 else "black"
        text = f"{round(value, 2) + 0.0:.2f}"  # + 0.0: no -0.00
        ax.text(column, row, text, ha="center", va="center", fontsize=points, color=colour)
