"""The map of the course: its notebooks in their groups."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from matplotlib.figure import Figure

from nmtcourse.teaching.diagrams.canvas import Box, Canvas, Point

COURSE = [  # group, colour, notebook, what to call it; four notebooks make one row of the map
    ("Start", "step", "00_tour", "Tour"),
    ("Text", "embedding", "01_text_to_tensors", "Text to tensors"),
    ("Text", "embedding", "02_embeddings", "Embeddings"),
    ("Text", "embedding", "03_positional_encoding", "Positional\nencoding"),
    ("Parts", "attention", "04_scaled_dot_product_attention", "Scaled dot-product\nattention"),
    ("Parts", "attention", "05_multi_head_attention", "Multi-head\nattention"),
    ("Parts", "attention", "06_masking", "Masking"),
    ("Model", "feed-forward", "07_the_full_model", "The full model"),
    ("Training", "norm", "08_label_smoothing_and_noam", "Label smoothing\nand Noam"),
    ("Training", "norm", "09_training", "Training"),
    ("Use", "linear", "10_decoding", "Decoding"),
    ("Use", "linear", "11_evaluation", "Evaluation"),
    ("Practice", "data", "12_gpu_training", "GPU training"),
    ("Practice", "data", "13_german_english", "German-English"),
    ("Practice", "data", "14_english_chinese", "English-Chinese"),
    ("Practice", "data", "15_debugging_clinic", "Debugging clinic"),
]
BOX, EDGE = (1.62, 0.66), 0.14  # inches: a box of a map, and how far its frame stands off
Entry = tuple[str, str, str]  # the text, kind and code of a box


def group(
    canvas: Canvas, left: float, top: float, label: str, entries: Sequence[Entry], step: float
) -> list[Box]:
    """A labelled frame around a row of boxes, `step` inches apart; its corner is (left, top)."""
    width, height = (len(entries) - 1) * step + BOX[0] + 2 * EDGE, BOX[1] + 0.32 + EDGE
    canvas.frame(left + width / 2, top - height / 2, width, height)
    canvas.text(left + EDGE, top - 0.17, label, bold=True, align="left")
    x, y = left + EDGE + BOX[0] / 2, top - 0.32 - BOX[1] / 2
    return [
        canvas.box(x + i * step, y, *BOX, text, kind, code=code)
        for i, (text, kind, code) in enumerate(entries)
    ]


def to_next_row(canvas: Canvas, start: Point, end: Point, down: float) -> None:
    """An arrow from the last box of one row to the first of the next, between the rows."""
    canvas.arrow(start, (start[0], start[1] - down), (end[0], start[1] - down), end)


def course_map() -> Figure:
    """The sixteen notebooks in their groups; an arrow leads from each to the one that builds on it.

    The four of the last group can be read in any order.
    """
    canvas, step, height, boxes = Canvas(8), 1.95, 1.36, list[Box]()
    for label, notebooks in groupby(COURSE, key=itemgetter(0)):
        row, column = divmod(len(boxes), 4)
        entries = [(f"{name[:2]}\n{title}", kind, "") for _, kind, name, title in notebooks]
        boxes += group(canvas, 0.12 + column * step, 5.35 - row * height, label, entries, step)
    for before, after, (label, *_) in zip(boxes, boxes[1:], COURSE, strict=False):
        if after.y < before.y:
            to_next_row(canvas, before.bottom(), after.top(), 0.26)
        elif label != "Practice":  # these four stand side by side: any order will do
            canvas.arrow(before.right(), after.left())
    return canvas.cut(5.45)
