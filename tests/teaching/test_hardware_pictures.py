"""The pictures of notebook 12 show what they are given, and another thing for other numbers."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from nmtcourse.teaching import hardware_pictures as pictures
from nmtcourse.teaching.describe import describe
from nmtcourse.teaching.hardware_lab import Timeline

MIB = 2**20


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_memory_stands_on_what_is_always_there():
    seen = Timeline([MIB, 3 * MIB, 0], {"forward": 0, "backward": 2})
    figure = pictures.memory_of_a_step(seen, {"weights": 4 * MIB}, title="a step")
    (ax,) = figure.axes
    assert ax.get_ylim()[1] > 7 and ax.get_ylim()[0] == 0
    assert [text.get_text() for text in ax.texts] == ["forward", "backward"]
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["comes and goes", "weights"]
    higher = pictures.memory_of_a_step(seen, {"weights": 8 * MIB}, title="a step")
    assert describe(figure) != describe(higher)


def test_a_number_has_a_cell_for_each_bit():
    figure = pictures.number_formats({"float32": (8, 23), "bfloat16": (8, 7)})
    assert len(figure.axes[0].patches) == 32 + 16
    assert "8 + 7 bits" in describe(figure)


def test_a_culprit_is_dark_where_it_differs_and_only_there():
    healthy = {"loops": [10, 0, 1.0]}
    figure = pictures.fingerprints({"loops": [100, 0, 1.0]}, healthy, ["started", "read", "share"])
    (image,) = figure.axes[0].images
    assert image.get_array().round(3).tolist() == [[1, 0, 0]]
    appears = pictures.fingerprints({"loops": [10, 7, 1.0]}, healthy, ["started", "read", "share"])
    (image,) = appears.axes[0].images
    assert image.get_array()[0, 1] > 0.5 > 0.01 > image.get_array()[0, 0]


def test_the_roof_bends_where_both_limits_meet():
    ax = pictures.roofline(1e12, 1e11, {"copy": (0.1, 1e10)}, title="roof")
    x, y = ax.lines[0].get_data()
    assert y.max() == 1e12 and y[x < 10] == pytest.approx(x[x < 10] * 1e11)
    assert ax.lines[1].get_xdata()[0] == 10
    assert ax.get_legend().get_texts()[0].get_text() == "copy"


def test_measured_points_stand_beside_the_formula():
    panel = {"formula": ([1, 2], [3, 4]), "measured": ([2], [4]), "floor": ([1, 2], [1, 1])}
    figure = pictures.against_formula({"length": panel, "depth": panel}, "MiB")
    assert [ax.get_xlabel() for ax in figure.axes] == ["length", "depth"]
    curve, points = figure.axes[0].lines
    assert list(curve.get_ydata()) == [3, 4] and points.get_marker() == "o"
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said == ["formula", "measured", "weights and moments"]


def test_seeds_are_thin_and_their_mean_is_thick():
    ax = pictures.seeds({"one": [[1, 3, 5, 7], [3, 5, 7, 9]]}, every=2)
    thin, other, mean = ax.lines
    assert list(thin.get_ydata()) == [2, 6] and list(mean.get_ydata()) == [3, 7]
    assert list(mean.get_xdata()) == [2, 4] and mean.get_linewidth() > 2 * other.get_linewidth()


def test_a_ring_is_drawn_state_by_state():
    figure = pictures.ring([np.ones((2, 2)), np.array([[1, 2], [2, 1]]), np.full((2, 2), 2)])
    assert [ax.get_title() for ax in figure.axes] == ["0: start", "1: sum", "2: copy"]
    assert [text.get_text() for text in figure.axes[1].texts] == ["1", "2", "2", "1"]


@pytest.mark.parametrize(
    ("value", "told"), [(0.25, "0.25"), (1200, "1,200"), (2_500_000, "2.50 M"), (1.0, "1")]
)
def test_numbers_in_cells_are_short(value, told):
    assert pictures._short(value) == told
