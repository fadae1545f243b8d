"""How large a figure is, so that its words fit; and what a label may say."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from nmtcourse.teaching.style import WIDTH, letters

Words = Sequence | None
SCALE = 0.75  # inches that the colour scale takes beside a map
MARGIN = 0.55  # inches for the name of an axis and some air
# Inches of a cell: a word of 5 points still fits; more makes three words a wall.
SMALLEST, LARGEST = 0.1, 0.42
LONG = 1.0  # inches from which words on the horizontal axis stand upright instead of at a slant


def as_array(values: ArrayLike) -> np.ndarray:
    """Lists, arrays or tensors of numbers as one float64 array."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().double().numpy()
    elif isinstance(values, list | tuple) and any(map(torch.is_tensor, values)):
        values = [as_array(value) for value in values]
    return np.asarray(values, dtype=np.float64)


def longest(words: Words) -> float:
    """The inches that the longest word takes; numbers are short."""
    return 0.3 if words is None else max(letters(short(word)) for word in words)


def short(word: object) -> str:
    """A label of at most 18 letters: one long German word must not take the picture's room."""
    word = str(word)
    return plain(word if len(word) <= 18 else word[:17] + "…")


def plain(word: object) -> str:
    """A word of a text as a label: to matplotlib, what stands between two $ is a formula.

    >>> print(plain("5$ or 6$"))
    5\\$ or 6\\$
    """
    return str(word).replace("$", r"\$")


def panels(
    count: int, shape: tuple[int, int], rows: Words, columns: Words, per_row: int, titled: bool
) -> tuple[Figure, np.ndarray, int]:
    """A figure with room for maps side by side, its axes, and how many letters a title may have."""
    across, cell = grid(count, shape, longest(rows), per_row)
    down = -(-count // across)
    wide, high = shape[1] * cell, max(shape[0] * cell, 0.6)
    width = longest(rows) + across * (wide + 0.1) + SCALE + MARGIN
    rows_with_words = 1 if count % across == 0 else 2
    height = down * (high + 0.3) + rows_with_words * (longest(columns) + 0.2)
    size = max(width, 2.6), height + MARGIN + 0.25 * titled
    figure, axes = plt.subplots(down, across, figsize=size, squeeze=False)
    return figure, axes, max(8, int(wide / letters("x", 9)))


def grid(count: int, shape: tuple[int, ...], words: float, per_row: int) -> tuple[int, float]:
    """How many maps stand side by side, and the inches of a cell."""
    room = WIDTH - SCALE - MARGIN - words
    across = max(1, min(per_row, count))
    while across > 1 and room / across < shape[1] * SMALLEST + 0.1:
        across -= 1
    down = -(-count // across)
    high = max(9.0 / down / shape[0], SMALLEST)
    return across, min(LARGEST, (room / across - 0.1) / shape[1], high)


def new_axes(
    shape: tuple[int, ...],
    rows: Words,
    columns: Words,
    title: str,
    largest: float = LARGEST,
    beside: float = SCALE,
) -> Axes:
    """Axes of a new figure with just room for cells of at most `largest`, words and `beside`."""
    left, below = longest(rows) + MARGIN, longest(columns)
    size = min(largest, (WIDTH - left - beside) / shape[1], 6.5 / shape[0])
    if below < 0.95 * size:
        below = 0.2
    elif below < LONG:  # they will stand at a slant
        below *= 0.75
    width = left + shape[1] * size + beside
    height = max(shape[0] * size, 0.8) + below + MARGIN + 0.1
    return plt.subplots(figsize=(max(width, 2.2, min(WIDTH, letters(title, 10))), height))[1]


def cell_inches(ax: Axes, shape: tuple[int, ...]) -> float:
    """About how wide a cell will be in these axes, before the layout is known."""
    box, dpi = ax.get_window_extent(), ax.figure.dpi
    return min(box.width / shape[1], box.height / shape[0]) / dpi


def write_words(ax: Axes, shape: tuple[int, ...], rows: Words, columns: Words) -> None:
    """Words at the rows and columns of a map, as large as its cells let them be."""
    size = cell_inches(ax, shape)
    points = min(8.0, max(5.0, size * 72 * 0.9))
    if rows is not None:
        ax.set_yticks(range(len(rows)), [short(word) for word in rows], fontsize=points)
    if columns is not None:
        ax.set_xticks(range(len(columns)), [short(word) for word in columns], fontsize=points)
        slant_if_long(ax, size, points)


def slant_if_long(ax: Axes, room: float, points: float = 8.0) -> None:
    """Turn the words of the horizontal axis when one of them is wider than its `room` in inches."""
    labels = ax.get_xticklabels()
    lines = [line for label in labels for line in label.get_text().split("\n")]
    widest = max((letters(line, points) for line in lines), default=0.0)
    if widest > 0.95 * room:
        look = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        if widest > LONG:
            look = {"rotation": 90, "va": "top", "ha": "center", "rotation_mode": "default"}
        for label in labels:
            label.set(**look)


def overlap(one: Sequence[float], other: Sequence[float]) -> float:
    """The area that two boxes (left, bottom, right, top) have in common."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, wide) * max(0.0, high)
