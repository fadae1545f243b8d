"""The pictures: true to their numbers, with all their words legible and in place."""

import itertools
import json

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from nmtcourse.teaching import plots

matplotlib.use("Agg")
GERMAN = "Die kleinen Hunde sehen den alten Freundschaftsbecher <EOS>".split()
ENGLISH = "the small dogs see the old friendship cup".split()


@pytest.fixture(autouse=True)
def styled():
    with matplotlib.rc_context():
        plots.setup()
        yield
    plt.close("all")


def attention(rows: int, columns: int) -> torch.Tensor:
    return (2 * torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))).softmax(-1)


def test_a_word_is_written_as_it_is_and_never_read_as_a_formula():
    words = ["5$", r"$\frac{1}$", "$x$", "plain"]
    for labels in (
        *tick_labels(plots.heat_map(torch.eye(4), words, words)),
        next(tick_labels(plots.bars(dict.fromkeys(words, 1.0), y_label="y"))),
        [label for label in plots.scatter(torch.rand(4, 2), words).texts if label.get_text()],
    ):
        labels[0].figure.canvas.draw()
        assert [x._preprocess_math(x.get_text()) for x in labels] == [
            (word, False) for word in words
        ]


def box(artist):
    return artist.get_window_extent()


def assert_legible(figure) -> None:
    """Each word is inside the figure, of readable size, and upon no other word or title."""
    figure.canvas.draw()
    paper = figure.bbox
    for ax in figure.axes:
        names = [text for text in (ax.title, ax.xaxis.label, ax.yaxis.label) if text.get_text()]
        ticks = [[label for label in axis if label.get_text()] for axis in tick_labels(ax)]
        for text in (*names, *itertools.chain(*ticks), *ax.texts):
            assert text.get_fontsize() >= 4
            assert box(text).x0 >= paper.x0 - 2 and box(text).x1 <= paper.x1 + 2, text
            assert box(text).y0 >= paper.y0 - 2 and box(text).y1 <= paper.y1 + 2, text
        for name, label in itertools.product(names, itertools.chain(*ticks)):
            assert not box(name).overlaps(box(label)), (name, label)
        for labels in ticks:
            for a, b in itertools.pairwise(labels):  # the boxes of slanted words say nothing
                slanted = a.get_rotation() % 90 or b.get_rotation() % 90
                assert slanted or not box(a).overlaps(box(b).shrunk(0.95, 0.8)), (a, b)


def tick_labels(ax):
    """The words that are drawn at the two axes."""
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        yield [tick.label1 for tick in ticks if tick.label1.get_visible()]


def test_heat_map_shows_the_numbers_and_words_it_is_given():
    weights = attention(3, 5).requires_grad_()
    ax = plots.heat_map(weights, ENGLISH[:3], GERMAN[:5], title="head 1", annotate=True)
    assert np.allclose(ax.images[0].get_array(), weights.detach())
    assert [label.get_text() for label in ax.get_yticklabels()] == ENGLISH[:3]
    assert [label.get_text() for label in ax.get_xticklabels()] == GERMAN[:5]
    assert [text.get_text() for text in ax.texts] == [f"{w:.2f}" for w in weights.flatten()]
    first, *_, last = map(box, ax.get_yticklabels())
    assert first.y0 > last.y0  # row 0 on top


def test_a_matrix_that_does_not_fit_its_words_is_refused():
    for values in [torch.zeros(3, 2), torch.zeros(2, 2, 2), torch.zeros(2), torch.zeros(0, 2)]:
        with pytest.raises(ValueError, match="shape"):
            plots.heat_map(values, ["a", "b"], ["c", "d"])


def test_curves_draw_the_numbers():
    curves = {"given": ([10, 20], [1.0, 2.0]), "counted": torch.tensor([3.0, 4.0, 5.0])}
    ax = plots.curves(curves, x_label="x", y_label="y")
    given, counted = ax.lines
    assert given.get_xydata().tolist() == [[10, 1], [20, 2]]
    assert counted.get_xydata().tolist() == [[1, 3], [2, 4], [3, 5]]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["given", "counted"]
    assert_legible(ax.figure)


def test_bars_have_the_heights_and_say_them():
    ax = plots.bars({"a": 1.5, "b": -2}, y_label="y", value_format="{:.1f}")
    assert [patch.get_height() for patch in ax.patches] == [1.5, -2]
    assert [text.get_text() for text in ax.texts] == ["1.5", "-2.0"]


def test_histogram_counts_over_the_same_bins():
    ax = plots.histogram({"short": [1, 1, 2], "long": [2, 9]}, x_label="length", bins=4)
    assert [sum(patch.get_height() for patch in bars) for bars in ax.containers] == [3, 2]
    short, long = ([patch.get_x() for patch in bars] for bars in ax.containers)
    assert short == long
    assert len(plots.histogram([1, 2, 2], x_label="length").containers) == 1


def test_the_map_of_the_course_says_what_the_openings_say(tmp_path, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    for name, about in {"04_a": "40 minutes", "05_b": "70 minutes · see [04](04_a.ipynb)"}.items():
        cell = {"source": f"# {name}\n\n**Time** {about}"}
        (tmp_path / f"{name}.ipynb").write_text(json.dumps({"cells": [cell]}))
    plots.course_map(tmp_path)
    needs, minutes = plt.gcf().axes
    assert needs.collections[0].get_array().reshape(2, 2).tolist() == [[0, 0], [1, 0]]
    assert [bar.get_width() for bar in minutes.patches] == [40, 70]


def test_curves_are_told_apart_without_their_colours():
    ax = plots.curves({name: [1.0, 2.0] for name in "abcd"}, x_label="x", y_label="y")
    assert len({line.get_linestyle() for line in ax.lines}) == 4
