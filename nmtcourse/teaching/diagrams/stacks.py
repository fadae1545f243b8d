"""Diagrams of the layers and of the model that they make.  Vaswani et al. 2017, figure 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from nmtcourse.teaching.diagrams.canvas import ACCENT, FAINT, INK, Box, Canvas, Point
from nmtlib.errors import require_one_of


class SubLayer(NamedTuple):
    """What stands in a layer between two norms."""

    text: str
    kind: str
    code: str
    inputs: int  # how many arrows come from below: query, key and value, or one


SELF = SubLayer("Multi-Head\nAttention", "attention", "self_attention", 3)
MASKED = SubLayer("Masked Multi-Head\nAttention", "attention", "self_attention", 3)
CROSS = SubLayer("Multi-Head\nAttention", "attention", "cross_attention", 1)
FEED_FORWARD = SubLayer("Feed Forward", "feed-forward", "feed_forward", 1)
WIDTH, FRAME, GAP = 1.85, 2.6, 0.2  # inches: width of a box, of a layer's frame; between boxes
RESIDUAL = {  # for each place of the norm: the formula, and what to say about it
    "post": [
        "norm(x + dropout(sublayer(x)))",
        "The path passes through every norm:",
        "the gradient, too.",
    ],
    "pre": [
        "x + dropout(sublayer(norm(x)))",
        "The path is free from end to end;",
        "one norm closes the stack.",
    ],
}
PORTS = {0: (), 1: (0.5,), 2: (0.72, 0.28)}  # where arrows enter the left side of a box


class Built(NamedTuple):
    """A sub-layer that has been drawn: its own box, the lowest and the highest of the whole."""

    box: Box
    first: Box
    last: Box


def fan(canvas: Canvas, start: Point, box: Box, n: int) -> None:
    """n arrows from one point into the bottom of a box."""
    for at in {1: (0.5,), 3: (0.5, 0.18, 0.82)}[n]:
        x, y = box.bottom(at)
        path = [start] if at == 0.5 else [(start[0], y - 0.2), (x, y - 0.2)]
        canvas.arrow(*path, (x, y))


def draw_sublayer(canvas: Canvas, x: float, y: float, sublayer: SubLayer, norm: str) -> Built:
    """One sub-layer without its residual connection, upwards from (x, y)."""
    start, first = (x, y), None
    if norm == "pre":
        first = canvas.box(x, y + 0.36 + 0.135, WIDTH, 0.27, "Norm", "norm")
        canvas.arrow(start, first.bottom())
        start = first.top()
    gap = (GAP if norm == "pre" else 0.36) + (0.1 if sublayer.inputs == 3 else 0)
    height = 0.25 + 0.19 * (sublayer.text.count("\n") + 1)
    y = start[1] + gap + height / 2
    box = canvas.box(x, y, WIDTH, height, sublayer.text, sublayer.kind, code=sublayer.code)
    fan(canvas, start, box, sublayer.inputs)
    y = box.top()[1] + GAP
    if norm == "pre":
        last = canvas.plus(x, y + 0.105)
    else:
        last = canvas.box(x, y + 0.135, WIDTH, 0.27, "Add & Norm", "norm")
    canvas.arrow(box.top(), last.bottom())
    return Built(box, first or box, last)


def draw_layer(
    canvas: Canvas, x: float, y: float, sublayers: Sequence[SubLayer], norm: str, side: int
) -> list[Built]:
    """A framed layer, upwards from (x, y); residual paths at its left (side -1) or right (1)."""
    built, bottom = [], y
    for sublayer in sublayers:
        new = draw_sublayer(canvas, x, y, sublayer, norm)
        fork, end = (x, y + 0.1), new.last.right() if side > 0 else new.last.left()
        aside = x + side * (WIDTH / 2 + 0.2)
        canvas.arrow(fork, (aside, fork[1]), (aside, end[1]), end, color=ACCENT, width=2)
        built.append(new)
        y = new.last.top()[1]
    canvas.frame(x, (bottom + y) / 2 + 0.03, FRAME, y - bottom + 0.34)
    return built


def _layer(sublayers: Sequence[SubLayer], norm: str, length: str, notes: Sequence[tuple]) -> Figure:
    """One layer between its input and output, other inputs at the left, the code at the right."""
    require_one_of("norm", RESIDUAL, norm)
    canvas, x, y, shape = Canvas(8), 3.45, 0.75, f"(B, {length}, D)"
    built = draw_layer(canvas, x, y, sublayers, norm, 1)
    top = built[-1].last.top()[1] + 0.45
    canvas.arrow((x, 0.36), (x, y), head=False)
    canvas.arrow(built[-1].last.top(), (x, top))
    for place in (0.22, top + 0.14):
        canvas.tensor(x - 0.04, place, "x", shape)
    for number, (part, (lines, inputs)) in enumerate(zip(built, notes, strict=True)):
        _note(canvas, x + FRAME / 2 + 0.25, part, [f"residuals[{number}]", *lines])
        for at, (name, shape) in zip(PORTS[len(inputs)], inputs, strict=True):
            end = part.box.left(at)
            canvas.tensor(x - FRAME / 2 - 0.16, end[1], name, shape, align="right")
            canvas.arrow((x - FRAME / 2 - 0.1, end[1]), end)
    return canvas.cut(top + 0.3)


def _note(canvas: Canvas, x: float, part: Built, lines: Sequence[str]) -> None:
    """Lines of code beside a sub-layer, behind a bracket that spans it."""
    low, high = part.first.bottom()[1], part.last.top()[1]
    canvas.arrow((x - 0.12, low), (x, low), (x, high), (x - 0.12, high), color=FAINT, head=False)
    for i, line in enumerate(lines):
        y = (low + high) / 2 + (0.5 * (len(lines) - 1) - i) * 0.2
        canvas.code(x + 0.1, y, line, color=INK if i == 0 else FAINT)


def _formula(norm: str, call: str) -> list[str]:
    """The residual connection of nmtlib around a call, in two lines."""
    if norm == "pre":
        return ["x + dropout(", f"  {call.format('norm(x)')})"]
    return ["norm(x + dropout(", f"  {call.format('x')}))"]


def encoder_layer(norm: str = "post") -> Figure:
    """One encoder layer: self-attention, then feed-forward, each with its residual connection.

    `norm` is 'post' (Vaswani et al. 2017, 3.1) or 'pre' (Xiong et al. 2020).  Raises ValueError for
    another.
    """
    notes = [
        (_formula(norm, "self_attention({0})"), [("mask", "(B, 1, 1, S)")]),
        (_formula(norm, "feed_forward({0})"), []),
    ]
    return _layer([SELF, FEED_FORWARD], norm, "S", notes)


def decoder_layer(norm: str = "post") -> Figure:
    """One decoder layer: causal self-attention, attention to the memory, feed-forward.

    `norm` is 'post' (Vaswani et al. 2017, 3.1) or 'pre' (Xiong et al. 2020).  Raises ValueError for
    another.
    """
    memory = [("memory", "(B, S, D)"), ("memory_mask", "(B, 1, 1, S)")]
    notes = [
        (_formula(norm, "self_attention({0})"), [("mask", "(B, 1, T, T)")]),
        (_formula(norm, "cross_attention({0}, memory)"), memory),
        (_formula(norm, "feed_forward({0})"), []),
    ]
    return _layer([MASKED, CROSS, FEED_FORWARD], norm, "T", notes)


def _upwards(canvas: Canvas, start: Point, gap: float, text: str, kind: str, code: str) -> Box:
    """A box `gap` above a point, and an arrow from there to it."""
    box = canvas.box(start[0], start[1] + gap + 0.22, WIDTH, 0.44, text, kind, code=code)
    canvas.arrow(start, box.bottom())
    return box


def _embedded(canvas: Canvas, x: float, side: str, words: str, name: str) -> float:
    """From token ids at the foot of the page to embeddings with positions; how high it reaches."""
    length = "S" if side == "source" else "T"
    canvas.text(x, 0.38, words)
    canvas.tensor(x - 0.5, 0.18, side, f"(B, {length})")
    box, kind = Box(x, 0.5, 0, 0), "embedding"
    for text, code in ((f"{name} Embedding", kind), ("+ Positional Encoding", "positions")):
        box = _upwards(canvas, box.top(), 0.24, text, kind, f"{side}_{code}")
    top = box.top()
    canvas.arrow(top, (x, top[1] + 0.4), head=False)
    canvas.code(x + 0.1, top[1] + 0.13, f"(B, {length}, D)")
    return top[1] + 0.4


def whole_model(norm: str = "post") -> Figure:
    """The encoder and decoder stacks from token ids to probabilities.

    Vaswani et al. 2017, figure 1.  `norm` is 'post' (the paper) or 'pre', where one more norm
    closes each stack.  Raises ValueError for another.
    """
    require_one_of("norm", RESIDUAL, norm)
    canvas, left, right = Canvas(7.5), 2.05, 5.45
    y = _embedded(canvas, left, "source", "Inputs", "Input")
    _embedded(canvas, right, "target", "Outputs (shifted right)", "Output")
    encoder = draw_layer(canvas, left, y, [SELF, FEED_FORWARD], norm, -1)
    decoder = draw_layer(canvas, right, y, [MASKED, CROSS, FEED_FORWARD], norm, 1)
    for x, layers, name in ((0.38, encoder, "encoder"), (7.12, decoder, "decoder")):
        middle = (y + layers[-1].last.top()[1]) / 2
        canvas.text(x, middle + 0.12, "N×", size=14)
        canvas.code(x, middle - 0.12, name, align="center")

    top, out = encoder[-1].last.top(), decoder[-1].last.top()
    if norm == "pre":
        top = _upwards(canvas, top, 0.4, "Norm", "norm", "encoder_norm").top()
        out = _upwards(canvas, out, 0.4, "Norm", "norm", "decoder_norm").top()
    middle, end = (left + right) / 2, decoder[1].box.left()
    canvas.arrow(top, (left, top[1] + 0.4), (middle, top[1] + 0.4), (middle, end[1]), end, width=2)
    canvas.tensor(left + 0.1, top[1] + 0.53, "memory", "(B, S, D)")

    linear = _upwards(canvas, out, 0.24 if norm == "pre" else 0.4, "Linear", "linear", "output")
    softmax = canvas.box(right, linear.top()[1] + 0.3 + 0.15, WIDTH, 0.3, "Softmax")
    canvas.arrow(linear.top(), softmax.bottom())
    canvas.tensor(right + 0.1, linear.top()[1] + 0.15, "logits", "(B, T, V)")
    canvas.arrow(softmax.top(), (right, softmax.top()[1] + 0.25))
    canvas.text(right, softmax.top()[1] + 0.4, "Output Probabilities")
    return canvas.cut(softmax.top()[1] + 0.58)


def _stream(canvas: Canvas, x: float, y: float, text: str, kind: str, norm: str) -> float:
    """One sub-layer beside the residual path, upwards from (x, y); how high it reaches."""
    aside, low = x + 1.55, y + 0.12
    branch = [(text, kind), ("Dropout", "step")]
    start = (x, low)
    for name, color in [("Norm", "norm"), *branch] if norm == "pre" else branch:
        box = canvas.box(aside, start[1] + 0.36, 1.5, 0.32, name, color)
        canvas.arrow(start, *([(aside, low)] if start[0] == x else []), box.bottom())
        start = box.top()
    plus = canvas.plus(x, box.top()[1] + 0.28, color=ACCENT)
    canvas.arrow(box.top(), (aside, plus.y), plus.right())
    canvas.arrow((x, y), plus.bottom(), color=ACCENT, width=3)
    if norm == "pre":
        return plus.top()[1]
    box = canvas.box(x, plus.top()[1] + 0.42, 0.9, 0.32, "Norm", "norm")
    canvas.arrow(plus.top(), box.bottom(), color=ACCENT, width=3)
    return box.top()[1]


def residual_and_norm() -> Figure:
    """Post-norm (Vaswani et al. 2017, 3.1) beside pre-norm (Xiong et al. 2020); the residual path
    is the thick one.
    """
    canvas, tops = Canvas(8), []
    for x, norm in zip((0.9, 5.0), RESIDUAL, strict=True):
        canvas.tensor(x + 0.12, 0.2, "x", "(B, T, D)")
        y = 0.3
        for text, kind in (("Self-Attention", "attention"), ("Feed Forward", "feed-forward")):
            y = _stream(canvas, x, y, text, kind, norm)
        tops.append(y)
    top = max(tops) + 0.45
    for x, y, (norm, (formula, *lines)) in zip((0.9, 5.0), tops, RESIDUAL.items(), strict=True):
        canvas.arrow((x, y), (x, top), color=ACCENT, width=3)
        canvas.text(x - 0.45, top + 1.0, f"{norm}-norm", size=12, bold=True, align="left")
        canvas.code(x - 0.45, top + 0.75, formula)
        canvas.lines(x - 0.45, top + 0.38, *lines)
    return canvas.cut(top + 1.2)
