"""Boxes, arrows and words on a page in inches, for the trees of notebook 10.

No setting of matplotlib is read or changed, so a picture looks the same in a notebook and on paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec

from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path
from matplotlib.text import Text

from nmtcourse.teaching.language import say

Point = tuple[float, float]
P = ParamSpec("P")

INK, FAINT, ACCENT = "#222222", "#6B6B6B", "#0072B2"
NAME, SMALL = 10.5, 9.0  # font sizes in points: a name in a box; a shape, or the name in the code


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
        family = ["DejaVu Sans Mono" if mono else "DejaVu Sans"]
        if not text.isascii():
            family = [*family, "nmtlib CJK"]
        if any(ord(character) > 0x2E7F for character in text):  # its font has one weight
            bold = False
        fonts = {"family": family, "fontsize": size}
        fonts |= {"math_fontfamily": "dejavusans", "weight": "bold" if bold else "normal"}
        alignment = {"ha": align, "va": "center", "rotation_mode": "anchor"}
        return self.axes.text(x, y, text, color=color, **fonts, **alignment)

    def box(self, x: float, y: float, width: float, height: float, text: str = "") -> Box:
        """A white box with rounded corners and one line of text."""
        box = Box(x, y, width, height)
        style = {"boxstyle": "round,pad=0,rounding_size=0.07", "linewidth": 1.1, "zorder": 2}
        patch = FancyBboxPatch(box.bottom(0), width, height, **style)
        patch.set(facecolor="white", edgecolor=mix("white", INK, 0.55))
        self.axes.add_patch(patch)
        if text:
            self.text(x, y, text)
        return box

    def arrow(
        self, *points: Point, color: str = INK, width: float = 1.2, head: bool = True
    ) -> None:
        """A line along the points, its corners rounded, with a head at the last."""
        style = "-|>,head_length=0.45,head_width=0.2" if head else "-"
        look = {"arrowstyle": style, "mutation_scale": 10 + 2 * width, "linewidth": width}
        look |= {"joinstyle": "miter", "capstyle": "butt", "zorder": 1.5}
        path = rounded_path(points, radius=0.08)
        self.axes.add_patch(FancyArrowPatch(path=path, color=color, **look))


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


def labelled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """The same function; the first sentence of its docstring becomes the label of its figures."""

    @wraps(draw)
    def labelled_draw(*arguments: P.args, **options: P.kwargs) -> Figure:
        figure = draw(*arguments, **options)
        sentence = (draw.__doc__ or "").split("\n\n")[0].split(".  ")[0]
        figure.set_label(say(" ".join(sentence.split()).rstrip(".")))
        return figure

    return labelled_draw
