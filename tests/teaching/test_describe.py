"""The text about a figure: the same for noise, another for another picture."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

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


def diagonal(offset: int = 0) -> np.ndarray:
    return np.roll(np.eye(8), offset, axis=1)


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
ONE_CELL = np.tril(np.ones((8, 8)), 0)
LEAK = ONE_CELL.copy()
LEAK[2, 3] = 1

DIFFERENT = {
    "transposed map": lambda: (heat(attention()), heat(attention().T)),
    "map upside down": lambda: (heat(attention()), heat(attention()[::-1])),
    "diagonal beside the diagonal": lambda: (heat(diagonal()), heat(diagonal(1))),
    "diagonal before and after": lambda: (heat(diagonal(-1)), heat(diagonal(1))),
    "one cell of a mask": lambda: (heat(ONE_CELL), heat(LEAK)),
    "swapped row words": lambda: (heat(attention()), heat(attention(), rows=SWAPPED)),
    "swapped column words": lambda: (heat(attention()), heat(attention(), columns=SWAPPED)),
    "scale": lambda: (heat(attention()), heat(attention(), limits=(0, 3))),
    "title": lambda: (heat(attention(), title="head 1"), heat(attention(), title="head 2")),
    "name of an axis": lambda: (
        heat(attention(), row_label="query"),
        heat(attention(), row_label="key"),
    ),
    "doubled curve": lambda: (lines({"a": LOSS}), lines({"a": 2 * LOSS})),
    "curve raised by a twentieth": lambda: (lines({"a": LOSS}), lines({"a": 1.05 * LOSS})),
    "curve backwards": lambda: (lines({"a": LOSS}), lines({"a": LOSS[::-1]})),
    "curve elsewhere": lambda: (lines({"a": LOSS}), lines({"a": (np.arange(60) + 40, LOSS)})),
    "labels of curves": lambda: (
        lines({"a": LOSS, "b": LOSS / 2}),
        lines({"b": LOSS, "a": LOSS / 2}),
    ),
    "missing curve": lambda: (lines({"a": LOSS, "b": LOSS / 2}), lines({"a": LOSS})),
    "logarithmic axis": lambda: (lines({"a": LOSS}), lines({"a": LOSS}, log_y=True)),
    "small end of a logarithmic axis": lambda: (
        lines({"a": [1, 1e-3, 1e-6]}, log_y=True),
        lines({"a": [1, 1e-3, 1e-5]}, log_y=True),
    ),
    "bars": lambda: bars_pair({"a": 0.1, "b": 0.2, "c": 0.9}, {"a": 0.2, "b": 0.1, "c": 0.9}),
    "many low bars": lambda: bars_pair(
        dict.fromkeys(range(20), 0.02), {**dict.fromkeys(range(20), 0.02), 7: 0.03}
    ),
    "words beside points": lambda: scatter_pair(["a", "b", "c"], ["b", "a", "c"]),
    "groups of points": lambda: scatter_pair(["a", "b", "c"], ["a", "b", "c"], ["x", "x", "y"]),
}


def bars_pair(first, second):
    return tuple(text_of(plots.bars(values, y_label="share")) for values in (first, second))


def scatter_pair(first, second, groups=None):
    points = [[0, 0], [1, 2], [3, 1]]
    axes = (
        plots.scatter(points, first, groups=["x", "y", "x"]),
        plots.scatter(points, second, groups=groups),
    )
    return tuple(text_of(ax) for ax in axes)


def test_a_change_that_the_eye_sees_changes_the_text():
    for change in DIFFERENT:
        before, after = DIFFERENT[change]()
        assert before != after


def test_noise_around_usual_numbers_changes_nothing():
    for number in [1, 0.5, 0.25, 0.125, 1 / 3, 1 / 7, 1 / 12, 1 / 60, 0.3, 0.05, 10, 100]:
        for values in (
            np.full((8, 8), number),
            np.array([0, number, number, number, max(1, number)]),
        ):
            texts = {summary(values * (1 + noise)) for noise in np.linspace(-1e-6, 1e-6, 21)}
            assert len(texts) == 1


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
    assert texts[0] == texts[1] != texts[2] and "order" not in texts[0]
    assert "x 60; y 60" in texts[0] and "boxes: x 2×2; y 2×2" in texts[0]
