"""The text about a figure: the same to its reader for noise, another for another picture."""

from itertools import permutations

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from reading import write_as_stored

from nmtcourse.teaching import plots
from nmtcourse.teaching.describe import describe, summary

matplotlib.use("Agg")
WORDS = ["die", "kleinen", "Hunde", "sehen", "den", "Mann", ".", "<EOS>"]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def attention(seed: int = 0, size: int = 8) -> np.ndarray:
    scores = torch.randn(size, size, generator=torch.Generator().manual_seed(seed))
    return (2 * scores).softmax(-1).numpy()


def text_of(drawn) -> str:
    """The description of a figure, or of the figure of some axes."""
    text = describe(drawn.figure)
    plt.close(drawn.figure)
    return text


def heat(values, rows=WORDS, columns=WORDS, **more) -> str:
    return text_of(plots.heat_map(values, rows, columns, **more))


def lines(curves, **more) -> str:
    return text_of(plots.curves(curves, x_label="step", y_label="nats", **more))


LOSS = 4 * np.exp(-np.arange(60) / 20) + 0.5
SWAPPED = [WORDS[1], WORDS[0], *WORDS[2:]]


def bars(values) -> str:
    return text_of(plots.bars(values, y_label="share"))


def points(labels, groups=("x", "y", "x")) -> str:
    return text_of(plots.scatter([[0, 0], [1, 2], [3, 1]], labels, groups=list(groups)))


@pytest.mark.slow
def test_a_change_that_the_eye_sees_changes_the_text():
    a, low = attention(), dict.fromkeys(range(20), 0.02)
    maps = [heat(each) for each in (a, a / 2, np.tril(a), np.eye(8), np.tril(np.ones((8, 8))))]
    maps += [heat(a, rows=SWAPPED), heat(a, columns=SWAPPED), heat(a, limits=(0, 3))]
    maps += [heat(a, title=title) for title in ("head 1", "head 2")]
    maps += [heat(a, row_label=label) for label in ("query", "key")]
    curves = [lines({"a": y}) for y in (LOSS, 2 * LOSS, 1.3 * LOSS, LOSS[:59])]
    curves += [lines({"a": (np.arange(60) + 40, LOSS)}), lines({"a": LOSS}, log_y=True)]
    curves += [lines({"a": LOSS, "b": LOSS / 2}), lines({"b": LOSS, "a": LOSS / 2})]
    curves += [lines({"a": [1, 1e-3, end]}, log_y=True) for end in (1e-5, 1e-6)]
    others = [bars({"a": 0.1, "b": 0.2, "c": 0.9}), bars({"a": 0.3, "b": 0.2, "c": 0.9})]
    others += [bars(low), bars({**low, 7: 0.03})]
    others += [points("abc"), points("bac"), points("abc", "xxy")]
    texts = [*maps, *curves, *others]
    assert not [(a, b) for a, b in permutations(texts, 2) if write_as_stored(a, b) == b]


def test_noise_around_usual_numbers_changes_nothing_for_a_reader():
    for number in [1, 0.5, 0.25, 0.125, 1 / 3, 1 / 7, 1 / 12, 1 / 60, 0.3, 0.05, 10, 100, 9.35]:
        for values in (np.full((8, 8), number), np.array([0, *[number] * 3, max(1, number)])):
            stored = summary(values)
            for noise in np.linspace(-1e-6, 1e-6, 21):
                assert write_as_stored(summary(values * (1 + noise)), stored) == stored


def test_the_numbers_of_a_range_have_the_decimals_that_its_largest_needs():
    assert summary([3, 1, 2]) == "3: 1.00 to 3.00, middle 2.00"
    assert summary([[-0.002, 0.05]]) == "1×2: -0.0020 to 0.0500, middle 0.0240"
    assert summary([1024, np.nan, 0, 1e-9]) == "4: 0.0 to 1024.0, middle 0.0, 1 gaps"
    assert summary([-1e-15, 0]) == "2: 0.0 to 0.0, middle 0.0"
    assert summary([np.nan]) == "1 without a number"


@pytest.mark.slow
def test_drawing_a_figure_does_not_change_its_text():
    drawn = [
        plots.heat_map(attention(), WORDS, WORDS, title="map", annotate=True),
        plots.curves({"a": LOSS, "b": LOSS / 2}, x_label="step", y_label="nats", log_x=True),
        plots.bars({"x": {"a": 1, "b": 2}, "y": {"a": 3}}, y_label="share"),
        plots.scatter([[0, 0], [1, 2]], ["a", "b"]),
    ]
    for ax in drawn:
        before = describe(ax.figure)
        ax.figure.canvas.draw()
        assert describe(ax.figure) == before


def test_a_figure_that_varies_keeps_its_words_and_loses_its_numbers():
    texts = []
    for factor, label in ((1, "loss"), (2, "loss"), (1, "gain")):
        ax = plots.curves({label: factor * LOSS}, x_label="step", y_label="nats", log_y=True)
        ax.bar([1, 2], [1, factor])
        plots.varies()
        texts.append(text_of(ax))
    assert texts[0] == texts[1] != texts[2] and "middle" not in texts[0]
    assert "x 60; y 60" in texts[0] and "boxes: x 2×2; y 2×2" in texts[0]
