"""What readers hear of a figure: the numbers that it shows, and the same for noise."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from nmtcourse.teaching import diagrams, plots
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


def test_a_diagram_is_told_by_its_docstring_and_its_words():
    text = alt_text(diagrams.whole_model())
    assert text.startswith("The encoder and decoder stacks from token ids to probabilities.")
    assert "Output Embedding" in text and "source_embedding" not in text


def test_noise_changes_nothing_and_other_numbers_do():
    noise = 1e-8 * np.random.RandomState(0).randn(3, 3)
    assert heard(plots.heat_map(LOOKS + noise, ENGLISH, GERMAN)) == heard(
        plots.heat_map(LOOKS, ENGLISH, GERMAN)
    )
    first, second = ({"a": [4, 2, last]} for last in (1, 1.5))
    look = {"x_label": "x", "y_label": "y"}
    assert heard(plots.curves(first, **look)) != heard(plots.curves(second, **look))
