"""The small trainings repeat, a recorded one is what it says, and the pictures show all seeds."""

import copy
import json
import math
import tomllib
from dataclasses import asdict, fields, replace
from pathlib import Path

import course_runs
import matplotlib.pyplot as plt
import pytest
import torch

from nmtcourse.teaching import learning, load_toy
from nmtcourse.teaching.learning import Loop, Point, Recipe, Training
from nmtcourse.teaching.training_pictures import curves_of, draw_history, draw_seeds, measured
from nmtlib import load_corpus
from nmtlib.training.history import EpochRecord

ROOT = Path(__file__).parents[2]
SHORT = Recipe(pairs=40, updates=4, every=2, warmup=2, max_tokens=128)


@pytest.fixture(scope="module")
def translator():
    return load_toy("de-en")


@pytest.fixture(scope="module")
def corpus():
    return load_corpus("toy-de-en")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def new_loop(translator, corpus, recipe=SHORT):
    model = learning.small_model(translator, seed=recipe.seed, dropout=recipe.dropout)
    return Loop(model, learning.encoded(translator, corpus.train[: recipe.pairs]), recipe)


def weights_of(loop):
    return torch.cat([p.detach().flatten() for p in loop.model.parameters()])


# The loop


def test_the_same_recipe_gives_the_same_weights_and_another_seed_others(translator, corpus):
    first, again = (new_loop(translator, corpus) for _ in range(2))
    other = new_loop(translator, corpus, replace(SHORT, seed=2))
    for loop in (first, again, other):
        for _ in range(3):
            loop.step()
    assert torch.equal(weights_of(first), weights_of(again))
    assert not torch.equal(weights_of(first), weights_of(other))


def test_a_copy_goes_on_alone_from_the_same_place(translator, corpus):
    loop = new_loop(translator, corpus)
    loop.step()
    there = copy.deepcopy(loop)
    before = weights_of(loop).clone()
    norms = [there.step() for _ in range(3)]
    assert torch.equal(weights_of(loop), before), "the copy shares weights with its original"
    assert [loop.step() for _ in range(3)] == norms
    assert torch.equal(weights_of(loop), weights_of(there))
    there.optimizer.state.clear()  # the planted bug: Adam's means are lost
    assert loop.step() == there.step()  # the gradient is the same,
    assert not torch.equal(weights_of(loop), weights_of(there))  # but not the way that is taken


def test_every_sentence_is_read_once_in_an_epoch_and_the_next_has_another_order(translator, corpus):
    loop = new_loop(translator, corpus)
    plans = [loop.plan]
    for _ in range(loop.batches_per_epoch + 1):
        loop.step()
    assert loop.epoch == 1 and len(loop.plan) == loop.batches_per_epoch - 1
    plans = [loop._batches(epoch) for epoch in (0, 1)]
    assert all(sorted(sum(plan, [])) == list(range(SHORT.pairs)) for plan in plans)
    assert plans[0] != plans[1]


def test_a_small_model_may_have_other_sizes(translator):
    model = learning.small_model(translator, norm="post", n_encoder_layers=3, d_ff=32)
    assert len(model.encoder) == 3 and model.config.norm == "post" and model.config.d_ff == 32
    usual = learning.small_model(translator)
    assert len(usual.encoder) == 1 and usual.config.norm == "pre"


def test_the_norm_is_that_before_clipping_and_grows_with_the_scale(translator, corpus):
    norms = [
        new_loop(translator, corpus).step(clip=clip, scale=scale)
        for clip, scale in ((1.0, 1.0), (0.01, 1.0), (1.0, 1000.0))
    ]
    assert norms[0] == norms[1] > 0.01
    assert norms[2] == pytest.approx(1000 * norms[0], rel=1e-3)


def test_no_training_needs_the_seed_to_be_set_outside(translator, corpus):
    torch.manual_seed(1)
    first = learning.learn(SHORT, translator, corpus)
    torch.manual_seed(2)
    assert learning.learn(SHORT, translator, corpus) == first


# What is kept


def test_points_are_measured_where_the_recipe_says(translator, corpus):
    training = learning.learn(SHORT, translator, corpus, keep=True)
    assert [p.updates for p in training.points] == [2, 4]
    loop = new_loop(translator, corpus)
    assert training.points[-1].epochs == pytest.approx(4 / loop.batches_per_epoch)
    assert list(training.kept) == list(learning.choices(training.points, [{}, {}]))
    # The last weights on the test split, not on validation.
    for _ in range(4):
        loop.step()
    last = learning.worth(loop.model, translator, corpus.test[:500])
    assert training.kept["last"] == pytest.approx(last)
    assert learning.from_json(learning.to_json(training)).recipe == SHORT


def point(nll, bleu):
    return Point(1, 1.0, 0.0, nll, 0.5, bleu)


def test_each_rule_chooses_its_weights():
    points = [point(2.0, 20.0), point(1.0, 10.0), point(3.0, 30.0), point(4.0, 5.0)]
    weights = [{"w": torch.tensor([float(i)])} for i in range(4)]
    chosen = learning.choices(points, weights)
    assert {rule: float(found["w"]) for rule, found in chosen.items()} == {
        "lowest validation loss": 1.0,
        "best validation BLEU": 2.0,
        "last": 3.0,
        "average of the last 5": 1.5,
    }


def test_an_average_is_of_the_last_five_and_changes_none_of_them():
    weights = [{"w": torch.full((2,), float(i))} for i in range(7)]
    chosen = learning.choices([point(1.0, 1.0)] * 7, weights)
    assert torch.equal(chosen["average of the last 5"]["w"], torch.full((2,), 4.0))
    assert [float(one["w"][0]) for one in weights] == list(range(7))


# The recording


def test_the_recorded_trainings_are_those_of_the_command():
    stored = json.loads(learning.RECORDED.read_text())
    found = [learning.from_json(training) for training in stored["trainings"]]
    assert [training.recipe for training in found] == list(course_runs.recipes())
    assert stored["command"] == "course_runs.py"
    assert {"torch", "nmtlib", "processor", "threads"} <= set(stored["machine"])
    assert [learning.to_json(training) for training in found] == stored["trainings"]
    assert learning.recorded_ends() == stored["ends"] and list(stored["ends"]) == list(
        course_runs.SCHEDULES
    )
    for rows in stored["ends"].values():
        assert [[float(peak) for peak in row] for row in rows] == [list(course_runs.PEAKS)] * 3


def agrees(training: Training, recorded: Training, tolerance=0.02) -> bool:
    """Whether the points of a training are the first ones of a recorded one."""
    pairs = zip(training.points, recorded.points, strict=False)
    return all(
        mine.updates == theirs.updates
        and math.isclose(mine.train_nll, theirs.train_nll, abs_tol=tolerance)
        and math.isclose(mine.validation_nll, theirs.validation_nll, abs_tol=tolerance)
        for mine, theirs in pairs
    )


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [{"smoothing": 0.0, "dropout": 0.1}, {"smoothing": 0.1}])
def test_a_recorded_training_can_be_made_again(translator, corpus, wanted):
    recorded = learning.recorded(pairs=200, **wanted)[0]
    made = learning.learn(replace(recorded.recipe, updates=75), translator, corpus)
    assert len(made.points) == 3 and agrees(made, recorded)
    # Planted: a recording of another recipe, or one that was touched.
    assert not agrees(made, learning.recorded(pairs=200, smoothing=0.0, dropout=0.0)[0])
    touched = [p._replace(validation_nll=p.validation_nll - 0.05) for p in recorded.points]
    assert not agrees(made, replace(recorded, points=touched))


@pytest.mark.slow
@pytest.mark.nightly
def test_a_recorded_end_can_be_found_again(monkeypatch):
    peak = 0.002
    monkeypatch.setattr(course_runs, "PEAKS", (peak,))
    for name, found in course_runs.ends(seed=1).items():
        by_seed = [row[str(peak)] for row in learning.recorded_ends()[name]]
        assert found == {str(peak): pytest.approx(by_seed[1], abs=0.02)}
        assert abs(by_seed[0] - by_seed[1]) > 0.02  # that of another seed is seen


def test_recorded_finds_all_seeds_of_a_recipe_and_names_what_is_missing():
    found = learning.recorded(pairs=20_000, updates=900)
    assert [t.recipe.seed for t in found] == [1, 2, 3, 4, 5]
    assert len({str(asdict(replace(t.recipe, seed=0))) for t in found}) == 1
    with pytest.raises(ValueError, match="'pairs': 7"):
        learning.recorded(pairs=7)


def test_bleu_is_read_off_after_so_many_updates():
    trainings = [Training(SHORT, [point(1.0, bleu)._replace(updates=4)]) for bleu in (10.0, 20.0)]
    assert learning.bleu_at(trainings, 4) == [10.0, 20.0] and learning.bleu_at(trainings, 2) == []


@pytest.mark.slow
def test_a_training_that_ends_before_it_has_saved_is_told(tmp_path):
    with pytest.raises(RuntimeError, match="exit status [12], no save"):
        learning.start_training(tmp_path / "run", ["no_such_setting=1"])


def test_a_curve_is_one_figure_of_each_training():
    trainings = [Training(SHORT, [point(1.0, 10.0), point(2.0, 20.0)])] * 2
    assert curves_of(trainings, "bleu", "updates") == [([1, 1], [10.0, 20.0])] * 2


def test_measured_runs_are_curves_against_updates_or_what_an_update_counts():
    runs = [{4: {"nll": 2.0, "accuracy": 0.5}, 8: {"nll": 1.0, "accuracy": 0.6}}]
    assert measured(runs, "nll") == [([4, 8], [2.0, 1.0])]
    assert measured([{4: 2.0, 8: 1.0}], unit=16) == [([64, 128], [2.0, 1.0])]


def test_the_recording_is_part_of_the_package_and_small():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["nmtcourse"]
    assert learning.RECORDED in {f for p in patterns for f in (ROOT / "nmtcourse").glob(p)}
    assert learning.RECORDED.stat().st_size < 50_000


# Pictures


def test_the_mean_of_the_seeds_is_a_labelled_line_and_their_range_a_band():
    ax = plt.figure().add_subplot()
    groups = {"a": [([1, 2], [0, 0]), ([1, 2], [2, 4])], "b": [([1], [5])]}
    assert draw_seeds(groups, ax, xlabel="update") is ax and ax.get_xlabel() == "update"
    thick = {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}
    assert list(thick["a"].get_ydata()) == [1, 2] and list(thick["b"].get_ydata()) == [5]
    band = ax.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (0, 4)
    assert len({line.get_color() for line in ax.lines}) == 2
    plt.close(ax.figure)


def test_seeds_that_were_measured_at_other_places_have_no_mean():
    ax = plt.figure().add_subplot()
    with pytest.raises(ValueError, match="'a' have no common places"):
        draw_seeds({"a": [([1, 2], [0, 0]), ([1, 3], [2, 4])]}, ax)
    plt.close(ax.figure)


def test_the_four_figures_of_a_training_are_drawn_for_both_splits():
    figures = {f.name: 1 for f in fields(EpochRecord)} | {"validation_nll": 2.0}
    figure = draw_history([EpochRecord(**figures)] * 2, [10.0, 20.0])
    lines = {ax.get_ylabel(): [list(line.get_ydata()) for line in ax.lines] for ax in figure.axes}
    assert lines["NLL (nats a token)"] == [[1, 1], [2, 2]]
    assert lines["BLEU (validation)"] == [[10, 20]] and len(lines) == 4
    plt.close(figure)
