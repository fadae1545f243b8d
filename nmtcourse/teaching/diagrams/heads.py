"""Diagrams of attention: one head, several heads, and the mask of what is to come."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from nmtcourse.teaching.diagrams.canvas import ACCENT, Box, Canvas
from nmtlib.errors import require
from nmtlib.model.masks import causal_mask

WORDS = ["the", "dog", "sleeps"]
# Three words of four dimensions, chosen so that 'sleeps' looks for 'dog'; the rest is computed.
QUERY = torch.tensor([[1.0, 0.0, -0.5, 0.5], [0.5, 1.5, 0.0, -0.5], [-0.5, 2.0, 1.0, 0.0]])
KEY = torch.tensor([[1.5, 0.5, 0.0, -0.5], [-0.5, 1.5, 0.5, 0.0], [0.0, -0.5, 1.0, 1.5]])
VALUE = torch.tensor([[1.0, 0.0, 0.0, -1.0], [0.0, 2.0, -1.0, 0.0], [-1.0, 0.0, 1.0, 2.0]])
SCALE = ["The spread of the scores no", "longer grows with the size", "of a head."]
MASK = ["Hatched: this word may not", "attend to that one."]


SHARES = {"limit": 1.0, "sequential": True, "numbers": ".2f"}  # how weights are shown


class Steps(NamedTuple):
    """What attention computes, one after the other: (T, S) each, and at last (T, d_k)."""

    products: Tensor
    scores: Tensor
    masked: Tensor
    weights: Tensor
    result: Tensor


def steps(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Steps:
    """Scaled dot-product attention with all that lies between.  Vaswani et al. 2017, eq. 1."""
    products = query @ key.T  # (T, S)
    scores = products / math.sqrt(query.size(-1))  # (T, S)
    masked = scores.masked_fill(~mask, float("-inf"))  # (T, S)
    weights = masked.softmax(dim=-1)  # (T, S)
    return Steps(products, scores, masked, weights, weights @ value)


def cells(values: Tensor) -> list[list[float | None]]:
    """A matrix as the rows of a table, in which None stands for minus infinity or False."""
    known = values if values.dtype == torch.bool else ~values.isinf()
    return [
        [float(v) if ok else None for v, ok in zip(row, kept, strict=True)]
        for row, kept in zip(values.tolist(), known.tolist(), strict=True)
    ]


def matrix(canvas: Canvas, x: float, y: float, name: str, values: Tensor, **options: Any) -> Box:
    """A table of small numbers with its name above and its shape below."""
    table = canvas.table(x, y, cells(values), **{"cell": (0.21, 0.21), "numbers": "", **options})
    canvas.text(x, table.top()[1] + 0.11, name, size=9.5)
    canvas.code(x, table.bottom()[1] - 0.13, str(tuple(values.shape)), align="center")
    return table


def attention_head() -> Figure:
    """Scaled dot-product attention of 3 words in 4 dimensions, with the shapes.

    Vaswani et al. 2017, figure 2 left.
    """
    found = steps(QUERY, KEY, VALUE, causal_mask(3)[0, 0])
    columns = (4.3, 5.45, 6.75)
    query_and_key = [("query", QUERY), ("keyᵀ", KEY.T)]
    weights_and_values = [("weights", found.weights), ("value", VALUE)]
    rows: list = [  # name, code, what goes in or what to say, name and values of what comes out
        ("MatMul", "query @ key.transpose(-2, -1)", query_and_key, "dot products", found.products),
        ("Scale", "/ math.sqrt(4)", SCALE, "scores", found.scores),
        ("Mask (opt.)", "masked_fill(~mask, lowest)", MASK, "scores", found.masked),
        ("Softmax", "softmax(dim=-1)", ["Each row sums to 1."], "weights", found.weights),
        ("MatMul", "weights @ value", weights_and_values, "result", found.result),
    ]
    canvas, boxes = Canvas(7.5), []
    for number, (text, code, notes, name, values) in enumerate(rows):
        y, product = 1.1 + 1.2 * number, text == "MatMul"
        kind = "attention" if product else "step"
        boxes.append(canvas.box(2.1, y, 2.6, 0.5, text, kind, code=code))
        matrix(canvas, columns[2], y, name, values, sequential=name == "weights")
        if product:
            for x, (factor, factor_values) in zip(columns, notes, strict=False):
                matrix(canvas, x, y, factor, factor_values, sequential=factor == "weights")
            canvas.text(4.88, y, "×", size=13)
            canvas.text(6.1, y, "=", size=13)
        else:
            canvas.lines(3.8, y, *notes)
    _join(canvas, boxes)
    return canvas.cut(boxes[-1].top()[1] + 0.6)


def _join(canvas: Canvas, boxes: list[Box]) -> None:
    """Arrows: query and key into the first box, value into the last, and on from box to box."""
    for lower, upper in zip(boxes, boxes[1:], strict=False):
        canvas.arrow(lower.top(), upper.bottom())
        canvas.code(lower.x + 0.1, (lower.top()[1] + upper.bottom()[1]) / 2, "(3, 3)")
    for at, name in ((0.36, "query"), (0.8, "key")):
        x, y = boxes[0].bottom(at)
        canvas.tensor(x - 0.4, 0.2, name, "(3, 4)")
        canvas.arrow((x, 0.32), (x, y))
    end = boxes[-1].left()
    canvas.tensor(0.08, 0.2, "value", "(3, 4)")
    canvas.arrow((0.48, 0.32), (0.48, end[1]), end)
    top = boxes[-1].top()
    canvas.arrow(top, (top[0], top[1] + 0.3))
    canvas.tensor(top[0] - 0.4, top[1] + 0.44, "result", "(3, 4)")


def masked_self_attention() -> Figure:
    """Causal self-attention step by step, with the words and numbers of a sentence.

    Vaswani et al. 2017, 3.2.3.
    """
    found = steps(QUERY, KEY, VALUE, causal_mask(3)[0, 0])
    canvas, word = Canvas(8), 1
    weights = _scores_to_weights(canvas, 3.15, found, word)
    column = _weighted_values(canvas, 0.9, found, word)
    aside, turn = weights.right()[0] + 0.2, 2.3
    path = weights.right(), (aside, weights.y), (aside, turn), (column.x, turn), column.top()
    canvas.arrow(*path, color=ACCENT, width=2)
    return canvas.cut(4.4)


def _scores_to_weights(canvas: Canvas, y: float, found: Steps, word: int) -> Box:
    """Steps 1 to 3 in a row; the frame around the weights of one word."""
    words = {"cell": (0.53, 0.34), "rows": WORDS, "columns": WORDS}
    titles = [
        (1.55, "1  Scores", "query @ key.T / sqrt(4)", found.scores, {"limit": 2.0}),
        (4.1, "2  Mask", "no look at later words", found.masked, {"limit": 2.0}),
        (6.65, "3  Softmax", "each row sums to 1", found.weights, SHARES),
    ]
    before = None
    for x, title, note, values, options in titles:
        table = canvas.table(x, y, cells(values), **words, **options)
        left = table.left()[0]
        canvas.text(left, y + 1.1, title, bold=True, align="left")
        canvas.text(left, y + 0.9, note, align="left", size=9.5)
        if before:
            canvas.arrow((before.right()[0] + 0.04, y), (left - 0.6, y))
        before = table
    return canvas.outline(table.x, table.top()[1] - (word + 0.5) * 0.34, table.width, 0.34)


def _weighted_values(canvas: Canvas, y: float, found: Steps, word: int) -> Box:
    """Step 4 for one word: its weights times the values, summed; the frame around the weights."""
    options, shares = {"cell": (0.45, 0.34), "limit": 2.0}, found.weights[word][:, None]  # (S, 1)
    column = canvas.table(0.98, y, cells(shares), rows=WORDS, **{**options, **SHARES})
    values = canvas.table(2.55, y, cells(VALUE), **options)
    parts = canvas.table(4.75, y, cells(shares * VALUE), **options)
    result = canvas.table(6.95, y, cells(found.result[word : word + 1]), **options)
    for x, sign in ((1.425, "×"), (3.65, "=")):
        canvas.text(x, y, sign, size=13)
    canvas.arrow(parts.right(), result.left())
    canvas.text((parts.right()[0] + result.left()[0]) / 2, y + 0.14, "sum", size=9.5)
    names = "values", "weighted values", f"new vector of “{WORDS[word]}”"
    for table, name in zip((values, parts, result), names, strict=True):
        canvas.text(table.x, table.bottom()[1] - 0.15, name, size=9.5)
    title = f"4  Weighted values, here for “{WORDS[word]}”"
    canvas.text(values.left()[0], y + 0.72, title, bold=True, align="left")
    return canvas.outline(column.x, y, column.width, column.height)


def multi_head(n_heads: int = 4) -> Figure:
    """Multi-head attention: project, split, attend in each head, join, project.

    Vaswani et al. 2017, figure 2 right.  Raises ValueError for a number of heads outside 1..8,
    which is what fits on the page.
    """
    require(1 <= n_heads <= 8, "n_heads", "1 to 8", n_heads)
    canvas, middle, width, margin = Canvas(7.6), 2.8, 5.2, 5.5
    into_heads = "unflatten(-1, (n_heads, -1)).transpose(1, 2)"
    split = canvas.box(middle, 2.2, width, 0.5, "Split", code=into_heads)
    join = canvas.box(middle, 4.36, width, 0.5, "Concat", code="transpose(1, 2).flatten(2)")
    for i in range(n_heads):
        x = middle + (i - (n_heads - 1) / 2) * width / n_heads
        head = canvas.box(x, 3.28, width / n_heads - 0.12, 0.44, f"head {i}", "attention")
        canvas.arrow((x, split.top()[1]), head.bottom())
        canvas.arrow(head.top(), (x, join.bottom()[1]))
    for name, length, aside in (("query", "T", -1.85), ("key", "S", 0), ("value", "S", 1.85)):
        x = middle + aside
        linear = canvas.box(x, 1.1, 1.5, 0.44, "Linear", "linear", code=name)
        canvas.arrow((x, 0.36), linear.bottom())
        canvas.arrow(linear.top(), (x, split.bottom()[1]))
        canvas.tensor(x - 0.5, 0.22, name, f"(B, {length}, D)")
        canvas.code(x + 0.1, 1.62, f"(B, {length}, D)")
    for y, name, length in ((2.85, "query", "T"), (2.65, "key, value", "S")):
        canvas.tensor(margin, y, name, f"(B, H, {length}, d_k)")
    canvas.lines(margin, 3.28, "Scaled Dot-Product", "Attention, H times")
    canvas.code(margin, 3.82, "(B, H, T, d_k)")
    output = canvas.box(middle, 5.3, 1.5, 0.44, "Linear", "linear", code="output")
    canvas.arrow(join.top(), output.bottom())
    canvas.code(middle + 0.1, 4.82, "(B, T, D)")
    canvas.arrow(output.top(), (middle, 5.85))
    canvas.code(middle + 0.1, 5.7, "(B, T, D)")
    return canvas.cut(6.0)
