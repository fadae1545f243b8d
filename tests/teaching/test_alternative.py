"""What readers hear of a figure: the numbers that it shows, and the same for noise."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from nmtcourse.teaching import plots
from nmtcourse.teaching.alternative import alt_text

matplotlib.use("Agg")
GERMAN, ENGLISH = ["die", "Frau", "schläft"], ["the", "woman", "sleeps"]
LOOKS = np.array([[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.4, 0.3, 0.3]])


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def heard(drawn) -> str:
    return alt_text(drawn.figure)


def test_a_curve_is_told_by_its_ends_and_axes_by_their_range():
    lines = {"train": [4, 2, 1], "validation": [5, 3, 2.5]}
    text = heard(plots.curves(lines, x_label="epoch", y_label="loss", title="two curves"))
    assert text == (
        "Line plot “two curves”: loss from 1 to 5 against epoch from 1 to 3; "
        "train: 4 to 1; validation: 5 to 2.5."
    )


def test_a_heat_map_names_its_words_and_what_stands_out():
    text = heard(plots.heat_map(LOOKS, ENGLISH, GERMAN, row_label="said", column_label="read"))
    assert "3 rows, said (the, woman, sleeps); 3 columns, read (die, Frau, schläft)" in text
    assert "the: die, woman: Frau" in text and "sleeps: " not in text


def test_noise_changes_nothing_and_other_numbers_do():
    noise = 1e-8 * np.random.RandomState(0).randn(3, 3)
    assert heard(plots.heat_map(LOOKS + noise, ENGLISH, GERMAN)) == heard(
        plots.heat_map(LOOKS, ENGLISH, GERMAN)
    )
    first, second = ({"a": [4, 2, last]} for last in (1, 1.5))
    look = {"x_label": "x", "y_label": "y"}
    assert heard(plots.curves(first, **look)) != heard(plots.curves(second, **look))
