"""What readers hear of a figure: the numbers that it shows, and the same for noise."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from nmtcourse.teaching import diagrams, plots
from nmtcourse.teaching.alternative import LONGEST, alt_text

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


def test_thin_lines_are_counted_and_small_numbers_of_a_logarithmic_axis_kept():
    ax = plots.curves({"a": [1, 1e-3, 1e-6]}, x_label="x", y_label="error", log_y=True)
    ax.plot([1, 2, 3], [1, 1, 1])
    text = heard(ax)
    assert "a: 1 to 1e-06" in text and "(logarithmic)" in text and "1 more line" in text


def test_a_heat_map_names_its_words_and_what_stands_out():
    text = heard(plots.heat_map(LOOKS, ENGLISH, GERMAN, row_label="said", column_label="read"))
    assert "3 rows, said (the, woman, sleeps); 3 columns, read (die, Frau, schläft)" in text
    assert "the: die, woman: Frau" in text and "sleeps: " not in text


def test_words_that_panels_share_are_told_once():
    maps = plots.heat_maps([LOOKS, LOOKS.T], ENGLISH, GERMAN, ["head 0", "head 1"])
    text = alt_text(maps)
    assert text.count("woman, sleeps") == 1 and "“head 1”" in text


def test_bars_are_told_one_by_one_where_they_are_few():
    text = heard(plots.bars({"greedy": 20, "beam": 23}, y_label="BLEU"))
    assert "greedy: 20, beam: 23" in text
    many = heard(plots.histogram(np.arange(100.0), x_label="words"))
    assert many.startswith("Histogram") and "30 bars up to 4" in many


def test_a_diagram_is_told_by_its_docstring_and_its_words():
    text = alt_text(diagrams.whole_model())
    assert text.startswith("The encoder and decoder stacks from token ids to probabilities.")
    assert "Output Embedding" in text and "source_embedding" not in text


def test_many_panels_are_named_and_not_all_told():
    maps = plots.heat_maps([LOOKS] * 24, ENGLISH, GERMAN, [f"head {i}" for i in range(24)])
    assert "“head 23”." in alt_text(maps) and len(alt_text(maps)) < 2 * LONGEST


def test_noise_changes_nothing_and_other_numbers_do():
    noise = 1e-8 * np.random.RandomState(0).randn(3, 3)
    assert heard(plots.heat_map(LOOKS + noise, ENGLISH, GERMAN)) == heard(
        plots.heat_map(LOOKS, ENGLISH, GERMAN)
    )
    first, second = ({"a": [4, 2, last]} for last in (1, 1.5))
    look = {"x_label": "x", "y_label": "y"}
    assert heard(plots.curves(first, **look)) != heard(plots.curves(second, **look))


def test_points_formulas_and_empty_figures():
    assert "dog, cat" in heard(plots.scatter([[0, 0], [1, 2]], ["dog", "cat"]))
    _, ax = plt.subplots()
    ax.plot([1, 2], [0, np.nan])
    ax.set(title="$d_{model}$", xlabel="x")
    assert heard(ax).startswith("Line plot “d_model”: x from 1")
    assert alt_text(plt.figure()) == ""
