"""Which numbers of a batch are normalised together."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from nmtcourse.teaching.diagrams.canvas import KINDS, Canvas, mix

SENTENCES = ("Frau", "gestern", "gekauft"), ("Frau", "schläft", "<PAD>")
DIMENSIONS, CELL = 4, (0.5, 0.32)  # how many; width and height of a cell in inches
FACES = [mix(KINDS[kind], "white", 0.75) for kind in KINDS if kind != "step"]


def layer_and_batch_norm() -> Figure:
    """Layer norm takes the numbers of one word together, batch norm those of one dimension.

    Ba et al. 2016, 3; Ioffe and Szegedy 2015, 3.
    """
    canvas = Canvas(8)
    kinds: list[tuple[str, str, Callable[[int, int], int]]] = [
        ("LayerNorm", "each word by itself", lambda word, dimension: word),
        ("BatchNorm", "each dimension, over all words of all sentences", lambda word, d: d),
    ]
    for left, (name, about, group) in zip((0.95, 5.05), kinds, strict=True):
        canvas.text(left - 0.7, 3.3, name, size=12, bold=True, align="left")
        canvas.text(left - 0.7, 3.05, about, size=9, align="left")
        for d in range(DIMENSIONS):
            canvas.code(left + (d + 0.5) * CELL[0], 2.72, f"d{d}", align="center")
        for number, sentence in enumerate(SENTENCES):
            for row, word in enumerate(sentence):
                y = 2.26 - number * 1.2 - row * CELL[1]  # the lower edge of the row
                canvas.text(left - 0.1, y + CELL[1] / 2, word, size=9, align="right")
                for d in range(DIMENSIONS):
                    face = FACES[group(number * len(sentence) + row, d)]
                    look = {"facecolor": face, "edgecolor": "white", "linewidth": 1.5}
                    canvas.axes.add_patch(Rectangle((left + d * CELL[0], y), *CELL, **look))
    canvas.text(4, 0.15, "cells of one colour share a mean and a variance", size=10)
    return canvas.cut(3.5)
