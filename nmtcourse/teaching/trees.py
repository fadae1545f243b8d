"""Pictures of searching: a tree of probabilities, a beam at work, and the cache behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from nmtcourse.teaching.canvas import ACCENT, FAINT, INK, SMALL, Box, Canvas, labelled, mix
from nmtcourse.teaching.language import say
from nmtcourse.teaching.style import COLOURS
from nmtlib.specials import EOS, SPECIALS

END = SPECIALS[EOS]
GREY = "#757575"  # what a search gives up; 4.6 : 1 on white
ENDED = COLOURS[2]
GONE = "pruned"
ROOT = 0.72  # inches: how wide the box is that a search starts from
GREEDY = COLOURS[1]
Candidate = tuple[Sequence[str], float]  # words of a hypothesis, and its log-probability


@labelled
def probability_tree(
    first: Mapping[str, float], second: Mapping[str, Mapping[str, float]]
) -> Figure:
    """All sentences of two words: probabilities on the branches, their products at the ends.

    `first` are the probabilities of the first word, `second[word]` of what follows it.  Orange is
    the way of greedy search, blue the most probable sentence.  Raises ValueError where a word of
    `first` has no branch in `second`.
    """
    if missing := [word for word in first if word not in second]:
        raise ValueError(f"no second word is given after {missing}")
    product = {(a, b): first[a] * second[a][b] for a in first for b in second[a]}
    greedy = max(first, key=first.get)
    ways = {"greedy": (greedy, max(second[greedy], key=second[greedy].get))}
    ways["best"] = max(product, key=product.get)
    line, height = 0.31, 0.31 * len(product) + 0.7
    canvas, rows = Canvas(6.2, height), iter(range(len(product)))
    root = canvas.box(0.75, (height - 0.4) / 2, 0.9, 0.3, "<BOS>")
    canvas.text(5.3, height - 0.2, say("product"), size=SMALL, color=FAINT, align="left")
    for a in first:
        ends = {b: height - 0.6 - next(rows) * line for b in second[a]}
        node = canvas.box(2.45, sum(ends.values()) / len(ends), 0.9, 0.3, a)
        _branch(canvas, root, node, first[a], [name for name in ways if ways[name][0] == a])
        for b, y in ends.items():
            on = [name for name in ways if ways[name] == (a, b)]
            leaf = canvas.box(4.4, y, 0.9, 0.27, b)
            _branch(canvas, node, leaf, second[a][b], on)
            color = {"greedy": GREEDY, "best": ACCENT}[on[-1]] if on else FAINT
            words = f"{product[a, b]:.2f}" + "".join(f"  {say(name)}" for name in on)
            canvas.text(5.3, y, words, size=SMALL, align="left", color=color, bold=bool(on))
    return canvas.cut(height)


def _branch(canvas: Canvas, start: Box, end: Box, p: float, on: Sequence[str]) -> None:
    """A branch with its probability; `on` names the searches that go this way."""
    color = {"greedy": GREEDY, "best": ACCENT}[on[-1]] if on else FAINT
    canvas.arrow(start.right(), end.left(), color=color, width=2.2 if on else 0.9)
    (x, y), (u, v) = start.right(), end.left()
    _label(canvas, x + 0.62 * (u - x), y + 0.62 * (v - y), f"{p:.2f}", color)


def _label(canvas: Canvas, x: float, y: float, text: str, color: str) -> None:
    """A small number on a line, on white."""
    written = canvas.text(x, y, text, size=8, color=color)
    written.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.6})


@labelled
def beam_tree(history: Sequence[Sequence[Candidate]], beam: int, best: Sequence[str]) -> Figure:
    """A beam search, a row a step: live (white), finished (green), or given up (grey).

    `history[t]` are the candidates of a step, best first, as (words, log-probability); see
    `fates`.  Of those given up only the first are drawn, where there is room beside the beam.  The
    number on a branch is what its word adds to the log-probability, the one below a word their sum;
    the way to `best` is blue.  Raises ValueError for a candidate that extends no hypothesis of the
    step before.
    """
    last = len(history) - 1
    steps = [fates(row, beam, last=step == last) for step, row in enumerate(history)]
    rows = [[c for rank, c in enumerate(row) if c[0] != GONE or rank < beam + 2] for row in steps]
    wide, high, left = 6.4 / max(map(len, rows)), 0.82, 0.65
    height = high * len(history) + 0.9
    canvas = Canvas(7.1, height)
    root = canvas.box(left + wide / 2, height - 0.2, ROOT, 0.26, "<BOS>")
    open_nodes: dict[tuple[str, ...], tuple[Box, float]] = {(): (root, 0.0)}
    for step, row in enumerate(rows):
        y = height - 0.2 - high * (step + 1)
        canvas.text(0.05, y, say(f"step {step}"), size=8, color=FAINT, align="left")
        nodes = {}
        for rank, (fate, (words, log_prob)) in enumerate(row):
            way = fate != GONE and tuple(words) == tuple(best)[: len(words)]
            parent, before = _parent(open_nodes, words)
            node = _node(canvas, (left + (rank + 0.5) * wide, y), words[-1], wide, fate, way)
            _join(canvas, parent, node, log_prob - before, way, fate)
            color = GREY if fate == GONE else INK
            canvas.text(node.x, y - 0.22, _minus(log_prob), size=7.5, color=color)
            if fate == "open":
                nodes[tuple(words)] = node, log_prob
        open_nodes = nodes
    legend = ("white: live", "grey: given up", "green: finished", "blue: the result")
    canvas.text(3.85, 0.12, "     ".join(map(say, legend)), size=SMALL, color=FAINT)
    return canvas.cut(height)


def fates(
    candidates: Sequence[Candidate], beam: int, *, last: bool = False
) -> list[tuple[str, Candidate]]:
    """What becomes of the candidates of a step, best first: 'ended', 'open' or 'pruned'.

    One whose last word is <EOS> has ended, if it is among the first `beam`; the first `beam`
    others go on, but in the `last` step none does.
    """
    decided, going_on = [], 0
    for rank, candidate in enumerate(candidates):
        fate = GONE
        if candidate[0][-1] == END:
            fate = "ended" if rank < beam else fate
        elif going_on < beam and not last:
            fate, going_on = "open", going_on + 1
        decided.append((fate, candidate))
    return decided


def _parent(
    nodes: Mapping[tuple[str, ...], tuple[Box, float]], words: Sequence[str]
) -> tuple[Box, float]:
    start = tuple(words[:-1])
    if start not in nodes:
        raise ValueError(f"{' '.join(words)!r} extends no hypothesis of the step before")
    return nodes[start]


def _node(
    canvas: Canvas, at: tuple[float, float], word: str, wide: float, fate: str, way: bool
) -> Box:
    """A word in its box; grey where the search gives it up."""
    if fate == GONE:
        canvas.text(*at, word, size=8.5, color=GREY)
        return Box(*at, wide - 0.25, 0.24)
    node = canvas.box(*at, wide - 0.25, 0.27)
    face = {"open": "white", "ended": mix(ENDED, "white", 0.3)}[fate]
    canvas.axes.patches[-1].set(facecolor=face, edgecolor=ACCENT if way else INK)
    canvas.axes.patches[-1].set_linewidth(2.2 if way else 1.0)
    canvas.text(*at, word, size=8.5, bold=way)
    return node


def _join(canvas: Canvas, parent: Box, node: Box, gain: float, way: bool, fate: str) -> None:
    """A branch from the number below the parent to its child, and what it adds."""
    color = ACCENT if way else GREY if fate == GONE else INK
    x, y = parent.x, parent.bottom()[1] - (0.0 if parent.width == ROOT else 0.17)
    canvas.arrow((x, y), node.top(), color=color, width=2.2 if way else 0.8)
    # Near the child, where branches have parted.
    _label(canvas, x + 0.88 * (node.x - x), y + 0.7 * (node.top()[1] - y), _minus(gain), color)


def _minus(number: float) -> str:
    return f"{number:.2f}".replace("-", "\N{MINUS SIGN}")


@labelled
def cache_filling(words: Sequence[str]) -> Figure:
    """Which keys and values are computed at each step, without a cache and with one.

    `words` are what the decoder reads, <BOS> first.
    """
    n = len(words)
    cell, top = (min(0.42, 3.0 / n), 0.28), 0.28 * n + 0.55
    canvas = Canvas(8, top + 0.75)
    computed, cached = mix(GREEDY, "white", 0.75), mix(ACCENT, "white", 0.35)
    titles = f"without a cache: {n * (n + 1) // 2} computed", f"with a cache: {n} computed"
    for x, title, old in ((0.95, titles[0], computed), (4.75, titles[1], cached)):
        canvas.text(x, top + 0.6, say(title), bold=True, align="left")
        for step, word in enumerate(words):
            y = top - (step + 1) * cell[1]
            name = canvas.text(
                x + (step + 0.35) * cell[0], top + 0.07, word, size=7.5, align="left"
            )
            name.set_rotation(28)
            canvas.text(
                x - 0.08, y + 0.14, say(f"step {step}"), size=7.5, align="right", color=FAINT
            )
            for position in range(n):
                face: object = computed if position == step else old if position < step else "white"
                _square(canvas, x + position * cell[0], y, cell, face)
    legend = {
        "computed in this step": computed,
        "read from the cache": cached,
        "not generated yet": "white",
    }
    for x, (text, face) in zip((0.95, 3.05, 4.95), legend.items(), strict=True):
        _square(canvas, x, 0.12, (0.24, 0.24), face)
        canvas.text(x + 0.34, 0.24, say(text), size=SMALL, align="left")
    return canvas.cut(top + 0.75)


def _square(canvas: Canvas, x: float, y: float, size: tuple[float, float], face: object) -> None:
    look = {"facecolor": face, "edgecolor": "#9A9A9A", "linewidth": 0.8, "zorder": 2}
    canvas.axes.add_patch(Rectangle((x, y), *size, **look))


@labelled
def cache_reordering(before: Sequence[str], parents: Sequence[int], after: Sequence[str]) -> Figure:
    """The hypotheses of a beam before and after a step, and which row of the cache each needs.

    `before[row]` are the words whose keys and values lie in a row of the cache; `after[row]`
    continues `before[parents[row]]`.  Blue arrows are rows that move, grey ones rows that stay.
    Raises ValueError where parents are missing or are no row.
    """
    rows = max(len(before), len(after))
    if len(parents) != len(after) or not all(0 <= parent < len(before) for parent in parents):
        wrong = f"{len(after)} hypotheses with parents {list(parents)} among {len(before)} rows"
        raise ValueError(f"each new hypothesis needs one parent, the row that it extends; {wrong}")
    height = 0.5 * rows + 0.6
    canvas = Canvas(8, height)
    titles = ((1.85, "rows of the cache"), (6.0, "hypotheses after this step"))
    for x, title in titles:
        canvas.text(x, height - 0.2, say(title), bold=True)
    old, new = (
        [_row(canvas, x, height - 0.65 - 0.5 * i, words) for i, words in enumerate(column)]
        for x, column in ((1.85, before), (6.0, after))
    )
    for x, boxes in ((0.22, old), (7.64, new)):
        for row, box in enumerate(boxes):
            canvas.text(x, box.y, str(row), size=SMALL, color=FAINT)
    for row, parent in enumerate(parents):
        moves = row != parent
        look = {"color": ACCENT if moves else GREY, "width": 2.2 if moves else 1.0}
        canvas.arrow(old[parent].right(), new[row].left(), **look)
    return canvas.cut(height)


def _row(canvas: Canvas, x: float, y: float, words: str) -> Box:
    box = canvas.box(x, y, 3.0, 0.34)
    canvas.text(x, y, words, size=8.5)
    return box
