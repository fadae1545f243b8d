"""A small drawing kit for diagrams, in inches: boxes, arrows, words, tables of coloured cells.

Colours, fonts and sizes are set here and nowhere else, and no setting of matplotlib is read or
changed, so that a diagram looks the same in a notebook, on GitHub and on paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib import colormaps
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.text import Text

from nmtcourse.teaching.layout import plain
from nmtcourse.teaching.style import DIVERGING, SEQUENTIAL
from nmtlib.errors import require_one_of

Point = tuple[float, float]

INK, FAINT, ACCENT = "#222222", "#6B6B6B", "#0072B2"
NAME, SMALL = 10.5, 9.0  # font sizes in points: a name in a box; a shape, or the name in the code
# The palette of Okabe and Ito (2008), safe for colour-blind readers.  A step has no weights.
KINDS = {
    "embedding": "#CC79A7",
    "attention": "#E69F00",
    "feed-forward": "#56B4E9",
    "norm": "#F0E442",
    "linear": "#009E73",
    "data": "#8C8C8C",
    "step": "#FFFFFF",
}


def mix(color: str, other: str, share: float) -> tuple[float, ...]:
    """`share` of one colour and the rest of another, as RGB in [0, 1]."""
    pairs = zip(to_rgb(color), to_rgb(other), strict=True)
    return tuple(share * a + (1 - share) * b for a, b in pairs)


@dataclass(frozen=True)
class Box:
    """A rectangle that arrows start from and lead to: its centre and its size, in inches."""

    x: float
    y: float
    width: float
    height: float

    def top(self, at: float = 0.5) -> Point:
        """A point of the upper edge, `at` of the way from left to right."""
        return self.x + (at - 0.5) * self.width, self.y + self.height / 2

    def bottom(self, at: float = 0.5) -> Point:
        """A point of the lower edge, `at` of the way from left to right."""
        return self.x + (at - 0.5) * self.width, self.y - self.height / 2

    def left(self, at: float = 0.5) -> Point:
        """A point of the left edge, `at` of the way up."""
        return self.x - self.width / 2, self.y + (at - 0.5) * self.height

    def right(self, at: float = 0.5) -> Point:
        """A point of the right edge, `at` of the way up."""
        return self.x + self.width / 2, self.y + (at - 0.5) * self.height


class Canvas:
    """A white page of width x height inches; (0, 0) is its lower left corner, x and y centres."""

    def __init__(self, width: float, height: float = 1.0):
        self.width = width
        self.figure = Figure(facecolor="white", layout="none")
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.cut(height)

    def cut(self, height: float) -> Figure:
        """Make the page as high as the drawing turned out to need; the finished figure."""
        self.figure.set_size_inches(self.width, height)
        self.axes.set(xlim=(0, self.width), ylim=(0, height))
        return self.figure

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = NAME,
        mono: bool = False,
        align: str = "center",
        color: str = INK,
        bold: bool = False,
    ) -> Text:
        """Words at a place; `align` says which end of them."""
        fonts = {"family": ["DejaVu Sans Mono" if mono else "DejaVu Sans"], "fontsize": size}
        fonts |= {"math_fontfamily": "dejavusans", "weight": "bold" if bold else "normal"}
        place = {"ha": align, "va": "center", "rotation_mode": "anchor"}
        return self.axes.text(x, y, text, color=color, **fonts, **place)

    def code(
        self, x: float, y: float, text: str, *, align: str = "left", color: str = FAINT
    ) -> Text:
        """A shape such as (B, T, D) or a name in the code, small and in a font of even width."""
        return self.text(x, y, text, size=SMALL, mono=True, align=align, color=color)

    def tensor(self, x: float, y: float, name: str, shape: str, *, align: str = "left") -> None:
        """A tensor's name and, paler, its shape, on a line that begins (or ends: 'right') at x."""
        before, after = (0, len(name) + 1) if align == "left" else (-len(shape) - 1, 0)
        letter = 0.079  # inches, and a bit: screens round a letter of the font up to pixels
        self.code(x + before * letter, y, name, align=align, color=INK)
        self.code(x + after * letter, y, shape, align=align)

    def lines(self, x: float, y: float, *lines: str) -> None:
        """Explaining words, a line below the other, that begin at x; y is their middle."""
        for i, line in enumerate(lines):
            self.text(x, y + (0.5 * (len(lines) - 1) - i) * 0.2, line, size=10, align="left")

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        text: str = "",
        kind: str = "step",
        *,
        code: str = "",
    ) -> Box:
        """A rounded box in the colour of its kind (see `KINDS`), with a name and its code below."""
        require_one_of("kind", KINDS, kind)
        box = Box(x, y, width, height)
        self._rounded(box, mix(KINDS[kind], "white", 0.38), mix(KINDS[kind], INK, 0.55), zorder=2)
        lines = [(line, NAME, False) for line in text.split("\n") if line]
        lines += [(line, SMALL, True) for line in code.split("\n") if line]
        heights = [size * 1.28 / 72 for _, size, _ in lines]
        line_top = y + sum(heights) / 2
        for (line, size, mono), line_height in zip(lines, heights, strict=True):
            self.text(x, line_top - line_height / 2, line, size=size, mono=mono)
            line_top -= line_height
        return box

    def frame(self, x: float, y: float, width: float, height: float) -> Box:
        """A large pale box that holds others."""
        box = Box(x, y, width, height)
        self._rounded(box, "#F6F6F4", "#B5B5B0", zorder=0.5)
        return box

    def _rounded(self, box: Box, face: object, edge: object, zorder: float) -> None:
        look = {"boxstyle": "round,pad=0,rounding_size=0.07", "linewidth": 1.1, "zorder": zorder}
        place = box.bottom(0), box.width, box.height
        self.axes.add_patch(FancyBboxPatch(*place, facecolor=face, edgecolor=edge, **look))

    def outline(self, x: float, y: float, width: float, height: float) -> Box:
        """A heavy border around something that the eye should find."""
        box = Box(x, y, width, height)
        look = {"fill": False, "edgecolor": ACCENT, "linewidth": 2.4, "zorder": 4}
        self.axes.add_patch(Rectangle(box.bottom(0), width, height, **look))
        return box

    def plus(self, x: float, y: float, *, color: str = INK) -> Box:
        """The sign of a sum: a plus in a circle."""
        radius, arm, look = 0.105, 0.06, {"edgecolor": color, "linewidth": 1.3}
        self.axes.add_patch(Circle((x, y), radius, facecolor="white", zorder=3, **look))
        cross = Path([(x - arm, y), (x + arm, y), (x, y - arm), (x, y + arm)], [1, 2, 1, 2])
        self.axes.add_patch(PathPatch(cross, zorder=3.1, **look))
        return Box(x, y, 2 * radius, 2 * radius)

    def arrow(
        self, *points: Point, color: str = INK, width: float = 1.2, head: bool = True
    ) -> None:
        """A line along the points, its corners rounded, with a head at the last."""
        style = "-|>,head_length=0.45,head_width=0.2" if head else "-"
        look = {"arrowstyle": style, "mutation_scale": 10 + 2 * width, "linewidth": width}
        look |= {"joinstyle": "miter", "capstyle": "butt", "zorder": 1.5}
        path = rounded_path(points, radius=0.08)
        self.axes.add_patch(FancyArrowPatch(path=path, color=color, **look))

    def table(
        self,
        x: float,
        y: float,
        values: Sequence[Sequence[float | None]],
        *,
        cell: Point = (0.44, 0.3),
        rows: Sequence[str] = (),
        columns: Sequence[str] = (),
        numbers: str = ".1f",
        limit: float | None = None,
        sequential: bool = False,
    ) -> Box:
        """Cells coloured by value: blue below zero, red above; `sequential`: from white to blue.

        None makes an empty, hatched cell.  `numbers` is the format of the numbers shown, '' for
        none; the values at +-`limit` get the full colours.
        """
        box = Box(x, y, len(values[0]) * cell[0], len(values) * cell[1])
        known = [abs(v) for row in values for v in row if v is not None]
        limit = limit or max(known, default=0) or 1
        left, top = x - box.width / 2, y + box.height / 2
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                corner = left + j * cell[0], top - (i + 1) * cell[1]
                look: dict = {"facecolor": "white", "edgecolor": "#CDCDCD", "hatch": "///"}
                if value is not None:
                    look = {"facecolor": shade(value / limit, sequential), "edgecolor": "#ADADAD"}
                self.axes.add_patch(Rectangle(corner, *cell, linewidth=0.8, zorder=2, **look))
                if value is not None and numbers:
                    shown = format(value, "z" + numbers)  # z: no minus before zero
                    shown = shown.replace("-", "\N{MINUS SIGN}")
                    self.text(corner[0] + cell[0] / 2, corner[1] + cell[1] / 2, shown, size=SMALL)
        for i, word in enumerate(rows):
            self.text(
                left - 0.08, top - (i + 0.5) * cell[1], plain(word), size=SMALL, align="right"
            )
        for j, word in enumerate(columns):
            self.text(left + (j + 0.5) * cell[0], top + 0.12, plain(word), size=SMALL)
        return box


def shade(share: float, sequential: bool) -> tuple[float, ...]:
    """The colour of a value in [-1, 1], pale enough to be written on."""
    share = min(1.0, max(-1.0, share))
    if sequential:
        return colormaps[SEQUENTIAL](0.6 * max(share, 0))
    return colormaps[DIVERGING](0.5 + 0.27 * share)


def rounded_path(points: Sequence[Point], radius: float) -> Path:
    """The line through the points, each corner cut by a curve that begins `radius` before it."""
    vertices, codes = [points[0]], [Path.MOVETO]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        begin, end = (toward(corner, other, radius) for other in (before, after))
        vertices += [begin, corner, end]
        codes += [Path.LINETO, Path.CURVE3, Path.CURVE3]
    return Path([*vertices, points[-1]], [*codes, Path.LINETO])


def toward(start: Point, goal: Point, distance: float) -> Point:
    """The point `distance` from the start on the way to the goal, but not beyond half the way."""
    share = min(0.5, distance / (math.dist(start, goal) or 1))
    return start[0] + share * (goal[0] - start[0]), start[1] + share * (goal[1] - start[1])
