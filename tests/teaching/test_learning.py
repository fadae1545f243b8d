"""The small trainings repeat, and a recorded one is what it says."""

import json
import math
from dataclasses import replace

import course_runs
import pytest
import torch

from nmtcourse.teaching import learning, load_toy
from nmtcourse.teaching.learning import Loop, Point, Recipe, Training
from nmtlib import load_corpus

SHORT = Recipe(pairs=40, updates=4, every=2, warmup=2, max_tokens=128)


@pytest.fixture(scope="module")
def translator():
    return load_toy("de-en")


@pytest.fixture(scope="module")
def corpus():
    return load_corpus("toy-de-en")


def new_loop(translator, corpus, recipe=SHORT):
    model = learning.small_model(translator, seed=recipe.seed, dropout=recipe.dropout)
    return Loop(model, learning.encoded(translator, corpus.train[: recipe.pairs]), recipe)


def weights_of(loop):
    return torch.cat([p.detach().flatten() for p in loop.model.parameters()])


def test_the_same_recipe_gives_the_same_weights_and_another_seed_others(translator, corpus):
    first, again = (new_loop(translator, corpus) for _ in range(2))
    other = new_loop(translator, corpus, replace(SHORT, seed=2))
    for loop in (first, again, other):
        for _ in range(3):
            loop.step()
    assert torch.equal(weights_of(first), weights_of(again))
    assert not torch.equal(weights_of(first), weights_of(other))


def test_every_sentence_is_read_once_in_an_epoch_and_the_next_has_another_order(translator, corpus):
    loop = new_loop(translator, corpus)
    for _ in range(loop.batches_per_epoch + 1):
        loop.step()
    assert loop.epoch == 1 and len(loop.plan) == loop.batches_per_epoch - 1
    plans = [loop._batches(epoch) for epoch in (0, 1)]
    assert all(sorted(sum(plan, [])) == list(range(SHORT.pairs)) for plan in plans)
    assert plans[0] != plans[1]


def test_an_average_is_of_the_last_five_and_changes_none_of_them():
    weights = [{"w": torch.full((2,), float(i))} for i in range(7)]
    chosen = learning.choices([Point(1, 1.0, 0.0, 1.0, 0.5, 1.0)] * 7, weights)
    assert torch.equal(chosen["average of the last 5"]["w"], torch.full((2,), 4.0))
    assert [float(one["w"][0]) for one in weights] == list(range(7))


def test_the_recorded_trainings_are_those_of_the_command():
    stored = json.loads(learning.RECORDED.read_text())
    found = [learning.from_json(training) for training in stored["trainings"]]
    assert [training.recipe for training in found] == list(course_runs.recipes())
    assert stored["command"] == "course_runs.py"
    assert {"torch", "nmtlib", "processor", "threads"} <= set(stored["machine"])
    assert [learning.to_json(training) for training in found] == stored["trainings"]


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
def test_a_recorded_training_can_be_made_again(translator, corpus):
    recorded = learning.recorded(pairs=200, smoothing=0.1)[0]
    made = learning.learn(replace(recorded.recipe, updates=75), translator, corpus)
    assert len(made.points) == 3 and agrees(made, recorded)
    # Planted: a recording of another recipe, or one that was touched.
    assert not agrees(made, learning.recorded(pairs=200, smoothing=0.0, dropout=0.0)[0])
    touched = [p._replace(validation_nll=p.validation_nll - 0.05) for p in recorded.points]
    assert not agrees(made, replace(recorded, points=touched))
