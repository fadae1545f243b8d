"""Diagrams: every word can be read, every arrow ends where it should, and the numbers are those of
nmtlib.
"""

import pathlib
import re
from itertools import combinations

import matplotlib
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from nmtcourse.teaching import diagrams
from nmtcourse.teaching.alignment import cross_attention
from nmtcourse.teaching.course import load_toy, running_pair
from nmtcourse.teaching.diagrams import heads, maps, tables
from nmtcourse.teaching.diagrams.canvas import Canvas
from nmtlib.model.attention import scaled_dot_product_attention
from nmtlib.model.masks import causal_mask
from nmtlib.model.transformer import Transformer, TransformerConfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKERS = {name: getattr(diagrams, name) for name in diagrams.__all__}
MAKERS |= {
    "whole_model_pre": lambda: diagrams.whole_model("pre"),
    "encoder_layer_pre": lambda: diagrams.encoder_layer("pre"),
    "decoder_layer_pre": lambda: diagrams.decoder_layer("pre"),
    "multi_head_1": lambda: diagrams.multi_head(1),
    "multi_head_8": lambda: diagrams.multi_head(8),
}
TOUCH = 2.0  # pixels by which things may overlap and still only touch
MARGIN = 3.0  # pixels of white around the words of a page


# Finding what is wrong


def extents(figure) -> tuple[list[tuple[Text, Bbox]], list[Bbox], list, list[Bbox]]:
    """In pixels: words with their places, boxes, arrows as paths, and the boxes that hold no other
    box.
    """
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    (axes,) = figure.axes
    words = [
        (text, text.get_window_extent(renderer)) for text in axes.texts if text.get_text().strip()
    ]
    boxes = [
        p.get_window_extent()
        for p in axes.patches
        if isinstance(p, (FancyBboxPatch, Rectangle, Circle))
    ]
    arrows = [
        arrow_path(p).transformed(axes.transData)
        for p in axes.patches
        if isinstance(p, FancyArrowPatch)
    ]
    leaves = [
        box for box in boxes if not any(other is not box and within(other, box) for other in boxes)
    ]
    return words, boxes, arrows, leaves


def arrow_path(arrow: FancyArrowPatch) -> Path:
    """Line and head of an arrow, its curves as short straight lines."""
    lines = arrow.get_path().to_polygons(
        closed_only=False
    )  # without the vertices (0, 0) that close polygons
    return Path.make_compound_path(*(Path(line) for line in lines))


def within(inner: Bbox, outer: Bbox, slack: float = 0.5) -> bool:
    """Whether one box lies in another."""
    return (
        inner.x0 >= outer.x0 - slack
        and inner.x1 <= outer.x1 + slack
        and inner.y0 >= outer.y0 - slack
        and inner.y1 <= outer.y1 + slack
    )


def overlap(one: Bbox, other: Bbox) -> bool:
    """Whether two boxes share more than an edge."""
    shared = Bbox.intersection(one, other)
    return shared is not None and min(shared.width, shared.height) > TOUCH


def problems(figure) -> list[str]:
    """Why a reader of this diagram would stumble."""
    words, boxes, arrows, leaves = extents(figure)
    found = [
        f"{t.get_text()!r} leaves the figure"
        for t, box in words
        if not within(box, figure.bbox, -MARGIN)
    ]
    found += [
        f"{t.get_text()!r} is smaller than 9 points" for t, _ in words if t.get_fontsize() < 9
    ]
    for (one, place), (other, other_place) in combinations(words, 2):
        if overlap(place, other_place):
            found.append(f"{one.get_text()!r} lies over {other.get_text()!r}")
    for text, place in words:
        if any(overlap(place, box) and not within(place, box) for box in boxes):
            found.append(f"{text.get_text()!r} crosses the edge of a box")
        if any(arrow.intersects_bbox(place, filled=False) for arrow in arrows):
            found.append(f"{text.get_text()!r} is crossed by an arrow")
    found += ["two boxes overlap" for one, other in combinations(leaves, 2) if overlap(one, other)]
    for arrow in arrows:
        if any(arrow.intersects_bbox(box.padded(-TOUCH), filled=False) for box in leaves):
            found.append("an arrow runs through a box")
        if not within(arrow.get_extents(), figure.bbox):
            found.append("an arrow leaves the figure")
    return found


def said(figure) -> list[str]:
    """All words of a diagram."""
    return [text.get_text() for text in figure.axes[0].texts]


# All diagrams


@pytest.fixture(scope="module")
def figures():
    return {name: make() for name, make in MAKERS.items()}


@pytest.mark.parametrize("name", MAKERS)
def test_nothing_overlaps_and_nothing_is_cut(figures, name):
    assert problems(figures[name]) == []


@pytest.mark.parametrize("name", MAKERS)
def test_a_diagram_has_the_width_of_a_page(figures, name):
    width, height = figures[name].get_size_inches()
    assert 7 <= width <= 8 and 3 <= height <= 11


def test_a_diagram_leaves_the_settings_of_matplotlib_alone():
    import matplotlib.pyplot as plt

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        before, open_before = dict(matplotlib.rcParams), plt.get_fignums()
        for make in MAKERS.values():
            make()
        assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == open_before


def test_a_diagram_does_not_depend_on_the_settings_of_matplotlib():
    settings = {
        "font.family": ["monospace"],
        "font.size": 30,
        "text.color": "red",
        "figure.figsize": (2, 2),
        "figure.constrained_layout.use": True,
        "axes.facecolor": "black",
    }
    plain = extents(diagrams.multi_head())
    with matplotlib.rc_context(settings):
        changed = extents(diagrams.multi_head())
    assert [place.bounds for _, place in plain[0]] == [place.bounds for _, place in changed[0]]
    assert {text.get_color() for text, _ in plain[0]} == {
        text.get_color() for text, _ in changed[0]
    }


# What they say


def test_names_of_the_whole_model_are_those_of_the_code():
    """Each name under a box is an attribute of the model or of its layers, so a renamed part shows
    here.
    """
    model = Transformer(
        TransformerConfig(
            5, 5, d_model=4, n_heads=2, d_ff=4, n_encoder_layers=1, n_decoder_layers=1
        )
    )
    parts = {part for name, _ in model.named_modules() for part in name.split(".")}
    for norm in ("post", "pre"):
        words = said(diagrams.whole_model(norm))
        names = [word for word in words if re.fullmatch(r"[a-z]+(_[a-z]+)*", word)]
        assert set(names) - parts == {"source", "target", "memory", "logits"}
        assert {
            "source_embedding",
            "target_positions",
            "self_attention",
            "cross_attention",
            "output",
        } <= set(names)


def test_pre_norm_has_one_more_norm_in_each_stack():
    words = {norm: said(diagrams.whole_model(norm)) for norm in ("post", "pre")}
    assert words["post"].count("Add & Norm") == 5
    assert words["pre"].count("Norm") == 5 + 2
    assert "encoder_norm" in words["pre"] and "encoder_norm" not in words["post"]


@pytest.mark.parametrize(
    "draw", [diagrams.whole_model, diagrams.encoder_layer, diagrams.decoder_layer]
)
def test_another_norm_is_refused(draw):
    with pytest.raises(ValueError, match="'batch'"):
        draw("batch")


@pytest.mark.parametrize("n_heads", [0, 9])
def test_heads_that_do_not_fit_are_refused(n_heads):
    with pytest.raises(ValueError, match=str(n_heads)):
        diagrams.multi_head(n_heads)


@pytest.mark.parametrize("n_heads", [1, 3, 8])
def test_each_head_is_drawn(n_heads):
    heads_drawn = [
        word for word in said(diagrams.multi_head(n_heads)) if re.fullmatch(r"head \d", word)
    ]
    assert heads_drawn == [f"head {i}" for i in range(n_heads)]


def test_numbers_of_the_diagrams_are_what_nmtlib_computes():
    mask = causal_mask(3)[0, 0]
    found = heads.steps(heads.QUERY, heads.KEY, heads.VALUE, mask)
    result, weights = scaled_dot_product_attention(
        heads.QUERY, heads.KEY, heads.VALUE, mask, return_weights=True
    )
    torch.testing.assert_close((found.weights, found.result), (weights, result))
    numbers = [
        word for word in said(diagrams.masked_self_attention()) if re.fullmatch(r"−?\d+\.\d+", word)
    ]
    assert [f"{value:.2f}" for value in weights.flatten().tolist()] == [
        n for n in numbers if len(n) == 4 and n[0] != "−"
    ][:9]
    assert [f"{value:z.1f}".replace("-", "−") for value in result[1].tolist()] == numbers[-4:]


def test_each_word_of_cross_attention_looks_at_its_translation():
    weights = heads.steps(
        heads.QUERY, tables.MEMORY, heads.VALUE, torch.ones(3, 3, dtype=torch.bool)
    ).weights
    assert weights.argmax(dim=-1).tolist() == [0, 1, 2]


def test_the_trained_heads_show_each_weight_where_it_is():
    pair = running_pair()
    weights = torch.cat(cross_attention(load_toy(), [pair])[0].unbind())  # (layers * heads, T, S)
    weights = weights[:, pair.target.split().index("bought")]
    words = said(diagrams.trained_heads())
    assert [word for word in words if word in (*pair.source.split(), "<EOS>")] == [
        *pair.source.split(),
        "<EOS>",
    ]
    large = [f"{w:.2f}" for w in weights.flatten().tolist() if w >= 0.06]
    assert [word for word in words if re.fullmatch(r"\d\.\d\d", word)] == large
    assert [word for word in words if re.fullmatch(r"layer \d, head \d", word)] == [
        f"layer {layer}, head {head}" for layer in range(2) for head in range(4)
    ]


def test_the_course_map_holds_every_notebook_in_order():
    names = [name for _, _, name, _ in maps.COURSE]
    assert [int(name[:2]) for name in names] == list(range(16))
    written = {path.stem for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")}
    assert written - set(names) == set()
    words = said(diagrams.course_map())
    assert [word for word in words if re.fullmatch(r"\d\d", word)] == [name[:2] for name in names]


# The finding itself


def drawing(*lines: str):
    """A small diagram made by lines of code on a canvas `c`."""
    canvas = Canvas(7.5, 4)
    for line in lines:
        exec(line, {"c": canvas})
    return canvas.figure


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (['c.text(2, 2, "one")', 'c.text(2.1, 2.05, "two")'], "lies over"),
        (['c.text(0.1, 2, "a long word")'], "leaves the figure"),
        (['c.box(2, 2, 0.5, 0.4, "a long word")'], "crosses the edge"),
        (['c.text(2, 2, "word")', "c.arrow((1, 1), (3, 3))"], "crossed by an arrow"),
        (['c.text(2, 2, "word")', "c.arrow((1, 1), (2, 1), (2, 3))"], "crossed by an arrow"),
        (['c.box(2, 2, 1, 0.4, "one")', 'c.box(2.4, 2.3, 1, 0.4, "two")'], "two boxes overlap"),
        (["c.box(2, 2, 1, 0.4)", "c.arrow((1, 2), (3, 2))"], "through a box"),
        (["c.arrow((1, 2), (9, 2))"], "an arrow leaves"),
        (['c.text(2, 2, "word", size=7)'], "smaller than 9"),
        (['c.table(2, 2, [[1, 2]], cell=(0.2, 0.2), numbers=".3f")'], "crosses the edge"),
    ],
)
def test_what_is_wrong_is_found(lines, problem):
    found = problems(drawing(*lines))
    assert found and any(problem in line for line in found)


def test_what_only_touches_is_right():
    lines = [
        "c.frame(2, 2, 3, 3)",
        'b = c.box(2, 2, 1, 0.4, "word"); c.arrow((2, 1), b.bottom())',
        'c.text(2, 2.35, "above")',
        "c.table(5, 2, [[1.0, None]])",
    ]
    assert problems(drawing(*lines)) == []


def test_an_unknown_kind_of_box_is_refused():
    with pytest.raises(ValueError, match="'attenton'"):
        Canvas(7, 4).box(1, 1, 1, 1, "x", "attenton")
