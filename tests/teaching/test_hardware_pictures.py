"""The pictures of notebook 12 show what they are given, and another thing for other numbers."""

import matplotlib.pyplot as plt
import pytest

from nmtcourse.teaching import hardware_pictures as pictures


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_the_roof_bends_where_both_limits_meet():
    ax = pictures.roofline(1e12, 1e11, {"copy": (0.1, 1e10)}, title="roof")
    x, y = ax.lines[0].get_data()
    assert y.max() == 1e12 and y[x < 10] == pytest.approx(x[x < 10] * 1e11)
    assert ax.lines[1].get_xdata()[0] == 10
    assert ax.get_legend().get_texts()[0].get_text() == "copy"
