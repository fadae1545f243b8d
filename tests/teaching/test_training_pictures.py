"""A figure over several seeds says which of them were recorded."""

import matplotlib.pyplot as plt
import pytest

from nmtcourse.teaching import hardware_pictures
from nmtcourse.teaching.learning import recorded
from nmtcourse.teaching.records import Runs, common_note
from nmtcourse.teaching.training_pictures import curves_of, draw_seeds, measured, over

X = (1, 2, 3)
LIVE = [[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def legend_of(ax):
    legend = ax.get_legend()
    return legend and (legend.get_title().get_text(), [t.get_text() for t in legend.get_texts()])


def test_the_legend_says_which_seeds_were_recorded():
    some, every = Runs(LIVE, recorded=[5]), Runs(LIVE, recorded=[4, 5])
    a, b = over(X, some), over(X, every)
    assert legend_of(draw_seeds({"a": a, "b": a})) == ("seed 5 recorded", ["a", "b"])
    assert legend_of(draw_seeds({"a": a, "b": b}))[0] == "seed 5 recorded; recorded"
    assert legend_of(draw_seeds({"a": b})) == ("recorded", [])
    assert legend_of(draw_seeds({"a": over(X, LIVE), "b": over(X, LIVE)})) == ("", ["a", "b"])
    assert legend_of(draw_seeds({"a": over(X, LIVE)})) is None
    shown = hardware_pictures.seeds({"a": some, "b": some}, every=1)
    assert legend_of(shown)[0] == "seed 5 recorded"


def test_curves_of_recorded_runs_know_it():
    runs = Runs([{1: {"nll": 2.0}, 2: {"nll": 1.0}}] * 3, recorded=[1, 2])
    assert measured(runs, "nll").note == over(X, runs, 1).note == "seeds 1, 2 recorded"
    assert measured(runs, "nll", unit=5)[0] == ([5, 10], [2.0, 1.0])
    trainings = recorded(2, pairs=200, smoothing=0.0, dropout=0.1)
    assert len(trainings) == 2 and curves_of(trainings, "bleu").note == "recorded"
    assert common_note([runs, trainings, LIVE]) == "seeds 1, 2 recorded; recorded"
