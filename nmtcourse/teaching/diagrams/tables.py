"""Diagrams made of tables of numbers: embedding lookup, masks, attention across sentences."""

from __future__ import annotations

import math

import torch
from matplotlib.figure import Figure

from nmtcourse.teaching.course import load_toy, running_pair
from nmtcourse.teaching.diagrams.canvas import INK, SMALL, Canvas
from nmtcourse.teaching.diagrams.heads import QUERY, SHARES, VALUE, cells, steps
from nmtcourse.teaching.explorer import OFF_TIES, SHOWN_FROM, attention_maps
from nmtlib.model.masks import causal_mask, padding_mask, target_mask
from nmtlib.specials import PAD, SPECIALS, UNK

TOKENS = [*SPECIALS, "der", "Hund"]
TABLE = torch.tensor(
    [
        [0.0, 0.0, 0.0, 0.0],
        [0.4, -0.3, 0.1, 0.2],
        [-0.5, 0.2, 0.3, -0.1],
        [0.1, 0.6, -0.2, 0.3],
        [0.3, 0.1, -0.6, 0.4],
        [-0.2, 0.5, 0.7, -0.4],
    ]
)
# Keys of three source words, such that each position of the decoder looks for the next word.
MEMORY = torch.tensor([[2.0, 0.0, -1.0, 1.0], [1.5, 1.5, -1.5, -1.5], [-2.0, 1.0, 2.5, 0.5]])


def embedding_lookup() -> Figure:
    """A one-hot row times the table is one row of the table, then scaled.

    Vaswani et al. 2017, 3.4.
    """
    number, scale = TOKENS.index("Hund"), math.sqrt(TABLE.size(1))
    one_hot = torch.eye(len(TOKENS))[number : number + 1]  # (1, V)
    row = one_hot @ TABLE  # (1, D)
    canvas, cell, y, color = Canvas(8), (0.44, 0.34), 1.72, {"limit": 1.4}
    names = [f"{token}  {i}" for i, token in enumerate(TOKENS)]
    ones = {"columns": [*map(str, range(len(TOKENS)))], "numbers": ".0f", "sequential": True}
    first = canvas.table(1.48, y, cells(one_hot), cell=(0.42, 0.34), limit=1.6, **ones)
    table = canvas.table(4.75, y, cells(TABLE), cell=cell, rows=names, **color)
    result = canvas.table(7.0, y, cells(row), cell=cell, **color)
    scaled = canvas.table(7.0, y + 1.1, cells(row * scale), cell=cell, **color)
    canvas.outline(first.left()[0] + (number + 0.5) * 0.42, y, 0.42, cell[1])
    canvas.outline(table.x, table.top()[1] - (number + 0.5) * cell[1], table.width, cell[1])
    canvas.text(2.93, y, "×", size=13)
    canvas.text((table.right()[0] + result.left()[0]) / 2, y, "=", size=13)
    canvas.arrow(result.top(), scaled.bottom())
    canvas.text(result.x + 0.1, y + 0.5, "× √4", size=10, align="left")
    titles = [
        (first, "“Hund” as a one-hot row", "(1, V)", 0.42),
        (table, "the table: weight", "(V, D)", 0.18),
        (scaled, "what the model reads", "", 0.18),
        (result, "", "(1, D)", 0),
    ]
    for box, title, shape, gap in titles:
        canvas.text(box.x, box.top()[1] + gap, title)
        canvas.code(box.x, box.bottom()[1] - 0.15, shape, align="center")
    canvas.lines(0.25, 0.2, "All the product does is to pick row 5, so the code looks that row up:")
    canvas.code(5.2, 0.2, "weight[5] * sqrt(D)", color=INK)
    return canvas.cut(3.4)


def masks() -> Figure:
    """The four masks of a padded pair, with words on the axes.

    Vaswani et al. 2017, 3.2.3; True = may attend.
    """
    sides = "der Hund schläft <EOS> <PAD>".split(), "<BOS> the dog sleeps <EOS> <PAD>".split()
    ids = [torch.tensor([[PAD if word == "<PAD>" else UNK for word in side]]) for side in sides]
    (source, target), over_source = sides, padding_mask(ids[0])[0, 0]  # (1, S)
    causal, both = causal_mask(6)[0, 0], target_mask(ids[1])[0, 0]  # (T, T)
    canvas, side, blue = Canvas(8), (0.56, 0.3), {"numbers": "", "sequential": True, "limit": 1.5}
    panels = [
        ("Encoder self-attention", "padding_mask(source)", source, source, over_source),
        ("Nothing from the future", "causal_mask(6)", target, target, causal),
        ("Cross-attention", "padding_mask(source)", target, source, over_source),
        ("Decoder self-attention", "target_mask(target)", target, target, both),
    ]
    for number, (title, code, rows, columns, mask) in enumerate(panels):
        left, top = (0.66, 4.5)[number % 2], (5.5, 2.7)[number // 2]
        mask = mask.expand(len(rows), len(columns))
        x, y = left + len(columns) * side[0] / 2, top - len(rows) * side[1] / 2
        canvas.table(x, y, cells(mask), cell=side, rows=rows, columns=columns, **blue)
        canvas.text(left, top + 0.58, title, bold=True, align="left")
        canvas.code(left, top + 0.36, code)
    legend = [
        (0.66, 1.0, ["True: the word of the row may attend to", "the word of the column"]),
        (4.5, None, ["False: it may not"]),
    ]
    for left, value, lines in legend:
        canvas.table(left + 0.15, 0.35, [[value]], cell=(0.3, 0.3), **blue)
        canvas.lines(left + 0.4, 0.35, *lines)
    return canvas.cut(6.3)


def cross_attention() -> Figure:
    """Queries from the decoder, keys and values from the encoder's memory.

    Vaswani et al. 2017, 3.2.3.
    """
    canvas = Canvas(8)
    attention = canvas.box(2.35, 2.5, 4.3, 0.44, "Scaled Dot-Product Attention", "attention")
    query, key, value = (attention.bottom(at)[0] for at in (0.14, 0.5, 0.86))
    middle = (key + value) / 2
    for x, name, length in ((query, "query", "T"), (key, "key", "S"), (value, "value", "S")):
        linear = canvas.box(x, 1.5, 1.1, 0.44, "Linear", "linear", code=name)
        below = [(x, 0.42)] if name == "query" else [(middle, 0.85), (x, 0.85)]
        canvas.arrow(*below, linear.bottom())
        canvas.arrow(linear.top(), (x, attention.bottom()[1]))
        canvas.code(x + 0.08, 2.0, f"(B, H, {length}, d_k)")
    canvas.arrow((middle, 0.42), (middle, 0.85), head=False)
    canvas.tensor(query - 0.4, 0.27, "x", "(B, T, D)")
    canvas.tensor(middle - 0.6, 0.27, "memory", "(B, S, D)")
    canvas.tensor(3.3, 3.25, "memory_mask", "(B, 1, 1, S)")
    canvas.arrow((value, 3.12), (value, attention.top()[1]))
    output = canvas.box(2.35, 3.4, 1.5, 0.44, "Linear", "linear", code="output")
    canvas.arrow(attention.top(), output.bottom())
    canvas.code(2.43, 2.93, "(B, H, T, d_k)")
    canvas.arrow(output.top(), (2.35, 4.0))
    canvas.code(2.45, 3.85, "(B, T, D)")
    _cross_weights(canvas, 2.2)
    return canvas.cut(4.15)


def _cross_weights(canvas: Canvas, y: float) -> None:
    """The weights of one head; having read its word, each position looks for the next one."""
    found = steps(QUERY, MEMORY, VALUE, torch.ones(3, 3, dtype=torch.bool))
    words = {"rows": ["<BOS>", "the", "dog"], "columns": ["der", "Hund", "schläft"]}
    table = canvas.table(6.95, y, cells(found.weights), cell=(0.62, 0.4), **words, **SHARES)
    left = table.left()[0] - 0.52
    canvas.text(left, y + 1.06, "Weights of one head", bold=True, align="left")
    canvas.code(7.88, y + 1.06, "(T, S)", align="right")
    canvas.outline(table.x, y, table.width, 0.4)
    canvas.lines(left, y - 0.95, "Having read “the”, the decoder", "attends to “Hund” for “dog”.")


def trained_heads() -> Figure:
    """What each head of the shipped model looks at before it says "bought".

    Cross-attention of both decoder layers for the running sentence.  Weights are rounded, so that
    each machine draws the same; those below 0.05 have no number.
    """
    pair = running_pair()
    found = attention_maps(load_toy(), pair.source, pair.target)
    row, layers = found.rows["cross"].index("bought"), found.maps["cross"]
    weights = torch.cat([heads[:, row] for heads in layers])  # (layers * heads, S)
    weights = (weights + OFF_TIES).mul(100).round() / 100
    names = [f"layer {i}, head {j}" for i in range(len(layers)) for j in range(len(layers[i]))]
    canvas, cell = Canvas(7.5), (0.62, 0.3)
    look = {**SHARES, "numbers": "", "rows": names, "columns": found.columns["cross"]}
    table = canvas.table(4.4, 1.4, cells(weights), cell=cell, **look)
    left, top = table.left()[0], table.top()[1]
    for head, place in (weights >= SHOWN_FROM).nonzero().tolist():
        x, y = left + (place + 0.5) * cell[0], top - (head + 0.5) * cell[1]
        canvas.text(x, y, f"{weights[head, place]:.2f}", size=SMALL)
    title = "What the heads of cross-attention look at, “bought” being the next word"
    canvas.text(left - 1.2, top + 0.42, title, bold=True, align="left")
    return canvas.cut(3.2)
