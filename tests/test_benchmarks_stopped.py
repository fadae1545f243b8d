"""A training that Ctrl-C stopped is told from one that is finished, or has had its minutes."""

import json
import signal
import time
from dataclasses import replace

import pytest
import seeds
import shared

from nmtlib.data.corpora import load
from nmtlib.presets import load_settings
from nmtlib.training.history import read_history
from nmtlib.training.trainer import Trainer

TINY = [
    "d_model=16",
    "n_heads=1",
    "d_ff=16",
    "n_encoder_layers=1",
    "n_decoder_layers=1",
    "training.max_tokens=1024",
    "training.precision=fp32",
    "training.average=1",
    "epochs=3",
]


@pytest.fixture(autouse=True)
def corpus(monkeypatch):
    """A small corpus, and no curves."""
    whole = load("toy-de-en")
    small = replace(
        whole, train=whole.train[:100], validation=whole.validation[:10], test=whole.test[:10]
    )
    monkeypatch.setattr("nmtlib.experiment.load_corpus", lambda settings: small)
    monkeypatch.setattr("nmtlib.experiment.draw_curves", lambda *_, **__: None)
    monkeypatch.setattr(seeds, "load_corpus", lambda settings: small)
    return small


@pytest.fixture
def at_validation(monkeypatch):
    """Give something that happens while each epoch is validated; what was given before does not."""
    validate = Trainer.validate

    def give(happens):
        def patched(trainer):
            happens(trainer.progress.epoch + 1)
            return validate(trainer)

        monkeypatch.setattr(Trainer, "validate", patched)

    return give


@pytest.fixture
def wait(monkeypatch):
    """Let some minutes pass at once."""
    ahead, clock = [0.0], time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + ahead[0])
    return lambda minutes: ahead.__setitem__(0, ahead[0] + 60 * minutes)


def ctrl_c(epoch):
    if epoch == 1:
        signal.raise_signal(signal.SIGINT)


def go_on(folder, *more, **how):
    """One call of a script; returns whether it trained, and the epochs of the run."""
    settings = load_settings("toy-de-en").with_assignments([*TINY, *more])
    trained = shared.train_or_go_on(folder / "run", settings, **how)
    return trained, len(read_history(folder / "run" / "history.csv"))


@pytest.mark.slow
def test_a_seed_that_was_stopped_is_not_filed_and_goes_on(tmp_path, at_validation):
    places = ["--out", str(tmp_path / "runs"), "--output", str(tmp_path / "found.json")]
    sets = [part for value in TINY for part in ("--set", value)]
    at_validation(ctrl_c)
    with pytest.raises(KeyboardInterrupt, match="was stopped before its end"):
        seeds.main(["toy-de-en", "--seeds", "1", "2", *sets, *places])
    assert not (tmp_path / "found.json").exists() and not (tmp_path / "runs" / "2").exists()
    at_validation(lambda epoch: None)
    seeds.main(["toy-de-en", "--seeds", "1", "2", *sets, *places])
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert [(run["seed"], run["training"]["epochs"]) for run in found["runs"]] == [(1, 3), (2, 3)]


@pytest.mark.slow
def test_a_training_that_was_stopped_within_its_minutes_goes_on(tmp_path, at_validation, wait):
    """The minutes of what follows an epoch, as scoring it, are none of its own."""
    at_validation(lambda epoch: ctrl_c(epoch - 1))
    with pytest.raises(KeyboardInterrupt):
        go_on(tmp_path, minutes=30, after_epoch=lambda trainer: wait(60))
    at_validation(lambda epoch: None)
    assert go_on(tmp_path, minutes=30) == (True, 3)
    assert go_on(tmp_path, minutes=30) == (False, 3)


@pytest.mark.slow
def test_a_training_that_stopped_early_is_finished(tmp_path, monkeypatch):
    monkeypatch.setattr("nmtlib.training.history.Progress.stuck", lambda self, patience: self.epoch)
    assert go_on(tmp_path) == (True, 1)
    assert go_on(tmp_path) == (False, 1)


@pytest.mark.slow
def test_a_training_that_has_had_its_minutes_trains_on_only_for_more(tmp_path, at_validation, wait):
    """They are minutes of training and validation: here, validation takes all of them."""
    at_validation(lambda epoch: wait(40))
    assert go_on(tmp_path, minutes=30) == (True, 1)
    assert go_on(tmp_path, minutes=30) == (False, 1)
    assert go_on(tmp_path, minutes=60) == (True, 2)
    assert go_on(tmp_path, minutes=60) == go_on(tmp_path, minutes=30) == (False, 2)
    assert go_on(tmp_path) == (True, 3)
