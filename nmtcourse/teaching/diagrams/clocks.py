"""A position as the hands of clocks, and the numbers that their tips stand at."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.patches import Circle

from nmtcourse.teaching.diagrams.canvas import ACCENT, FAINT, Canvas
from nmtcourse.teaching.diagrams.heads import cells
from nmtlib.model.embeddings import sinusoidal_table

D_MODEL, POSITIONS = 8, (0, 1, 20)
TURNS = ("6", "63", "628", "6,283")  # positions to a turn: 2 pi * 10000^(2i/8), rounded
RADIUS, ACROSS, DOWN = 0.38, 1.72, 1.5  # inches: of a clock, from clock to clock, from row to row


def clock(canvas: Canvas, x: float, y: float, sine: float, cosine: float) -> None:
    """A clock face with one hand, whose tip stands at (sine, cosine)."""
    axes = canvas.axes
    axes.add_patch(Circle((x, y), RADIUS, facecolor="white", edgecolor="#9A9A9A", zorder=2))
    for dx, dy in ((0, 1), (1, 0), (0, -1), (-1, 0)):
        ends = [(x + part * RADIUS * dx, y + part * RADIUS * dy) for part in (0.86, 1)]
        axes.plot(*zip(*ends, strict=True), color="#9A9A9A", linewidth=1, zorder=2.1)
    tip = x + 0.9 * RADIUS * sine, y + 0.9 * RADIUS * cosine
    axes.plot((x, tip[0]), (y, tip[1]), color=ACCENT, linewidth=2.4, zorder=2.2)
    axes.add_patch(Circle(tip, 0.04, color=ACCENT, zorder=2.3))


def clocks() -> Figure:
    """Each position is a row of clocks, and the table holds where their hands stand.

    Vaswani et al. 2017, 3.5, with eight dimensions.
    """
    canvas, table = Canvas(8), sinusoidal_table(max(POSITIONS) + 1, D_MODEL)
    top = DOWN * len(POSITIONS)
    for i, turn in enumerate(TURNS):
        x = 1.95 + i * ACROSS
        canvas.text(x, top + 0.72, f"hand {i}", bold=True)
        canvas.text(x, top + 0.5, f"a turn in {turn} positions", size=9, color=FAINT)
        canvas.code(x, top + 0.25, f"{2 * i}: sin  {2 * i + 1}: cos", align="center")
        for row, position in enumerate(POSITIONS):
            y, pair = top - row * DOWN - 0.4, table[position, 2 * i : 2 * i + 2]
            clock(canvas, x, y, *pair.tolist())
            canvas.table(x, y - 0.66, cells(pair[None]), cell=(0.5, 0.28), numbers=".2f", limit=1)
    for row, position in enumerate(POSITIONS):
        canvas.text(0.2, top - row * DOWN - 0.4, f"position {position}", align="left")
        canvas.code(0.2, top - row * DOWN - 1.06, f"PE({position})")
    return canvas.cut(top + 0.95)
