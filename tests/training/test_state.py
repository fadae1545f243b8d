"""A resume finds what was saved, refuses what was not, and says which of both it is."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch

from nmtlib.data.batching import make_example
from nmtlib.data.codec import Codec
from nmtlib.data.tokenizers import WhitespaceTokenizer
from nmtlib.data.vocab import SPECIALS, Vocab
from nmtlib.experiment import identity_of
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.run import Run
from nmtlib.sections import TrainingSettings
from nmtlib.settings import Settings
from nmtlib.training import hardware
from nmtlib.training.checkpoint import read_checkpoint, save_checkpoint
from nmtlib.training.history import Progress
from nmtlib.training.trainer import Trainer

LAYERS = {"n_encoder_layers": 1, "n_decoder_layers": 1}
CONFIG = TransformerConfig(20, 20, d_model=8, n_heads=2, d_ff=16, **LAYERS)
SETTINGS = TrainingSettings(epochs=3, max_tokens=64, average=3, precision="fp32", device="cpu")
SENTENCES = [make_example([4 + i % 16, 5], [4 + i % 16, 5]) for i in range(40)]
IDENTITY = {"settings": "a", "corpus": "b"}


def make_trainer(
    folder, config=CONFIG, identity=IDENTITY, report=lambda line: None, settings=SETTINGS
):
    options = {"report": report, "identity": identity}
    return Trainer(Transformer(config), SENTENCES, SENTENCES[:9], settings, folder, **options)


@pytest.fixture
def trainer(tmp_path):
    """A training that has ended its first epoch and saved it."""
    trainer = make_trainer(tmp_path)
    trainer.run_epoch()
    return trainer


def resave(trainer, change):
    """Save the state again, its checksum included, with notes and tensors that `change` changed."""
    path = trainer.run.last_file
    _, tensors, notes = read_checkpoint(path)
    change(notes, tensors := {n: t for n, t in tensors.items() if n.startswith("adam.")})
    save_checkpoint(path, trainer.model, tensors, **notes)


def test_what_is_saved_again_unchanged_can_be_resumed(trainer):
    resave(trainer, lambda notes, tensors: None)
    again = make_trainer(trainer.run.folder)
    again.resume()
    assert again.progress == trainer.progress


def in_progress(**values):
    return lambda notes, tensors: notes["progress"].update(values)


def in_row(**values):
    return lambda notes, tensors: notes["progress"]["history"][0].update(values)


@pytest.mark.parametrize(
    "change",
    [
        lambda notes, tensors: notes.update(progress=None),
        lambda notes, tensors: notes.update(progress=[]),
        lambda notes, tensors: notes["progress"].pop("history"),
        in_progress(speed=7),
        in_progress(epoch=2),
        in_progress(epoch=-1),
        in_progress(epoch=1.0),
        in_progress(epoch="1"),
        in_progress(batches=10**6),
        in_progress(batches=-1),
        in_progress(updates=None),
        in_progress(seconds=math.inf),
        in_progress(sums=[0.0]),
        in_progress(sums=[0.0] * 5),
        in_progress(sums=["a"] * 4),
        in_progress(sums=[math.nan] * 4),
        in_progress(history=[]),
        in_progress(history=[1]),
        in_row(epoch=2),
        in_row(speed=7),
        in_row(validation_nll="low"),
        in_row(validation_nll=math.nan),
    ],
)
def test_a_progress_that_cannot_be_is_refused(trainer, change):
    resave(trainer, change)
    with pytest.raises(ValueError, match=r"last\.safetensors: the progress .* is damaged"):
        make_trainer(trainer.run.folder).resume()


@pytest.mark.parametrize("key", ["step", "exp_avg", "exp_avg_sq"])
@pytest.mark.parametrize(
    "change", [None, lambda t: torch.zeros(3), lambda t: t.double(), lambda t: t.int(), torch.neg]
)
def test_adam_states_that_are_missing_or_do_not_fit_are_refused(trainer, key, change):
    name = f"adam.{key}.output.bias"

    def changed(notes, tensors):
        found = tensors.pop(name)
        if change:
            tensors[name] = change(found)

    resave(trainer, changed)
    if change is torch.neg and key == "exp_avg":
        make_trainer(trainer.run.folder).resume()  # a mean of gradients may be anything
        return
    with pytest.raises(ValueError, match=rf"last\.safetensors: Adam's {key} of output\.bias"):
        make_trainer(trainer.run.folder).resume()


@pytest.mark.parametrize("lost", [True, False])
def test_a_momentum_of_muon_that_is_missing_or_does_not_fit_is_refused(tmp_path, lost):
    settings = replace(SETTINGS, optimizer="muon")
    trainer = make_trainer(tmp_path, settings=settings)
    trainer.run_epoch()
    path, name = trainer.run.last_file, "encoder.0.feed_forward.fc1.weight"
    _, tensors, notes = read_checkpoint(path)
    tensors = {n: t for n, t in tensors.items() if n.startswith(("adam.", "muon."))}
    found = tensors.pop(f"muon.momentum_buffer.{name}")
    if not lost:
        tensors[f"muon.momentum_buffer.{name}"] = found.mT
    save_checkpoint(path, trainer.model, tensors, **notes)
    with pytest.raises(ValueError, match=rf"Muon's momentum_buffer of {name} is missing"):
        make_trainer(tmp_path, settings=settings).resume()


@pytest.mark.parametrize("part", IDENTITY)
def test_a_resume_of_another_training_names_what_changed(trainer, part):
    with pytest.raises(ValueError, match=f"another training: {part} changed"):
        make_trainer(trainer.run.folder, identity={**IDENTITY, part: "c"}).resume()


def test_a_resume_with_another_model_names_the_field(trainer):
    with pytest.raises(ValueError, match="its n_heads is 2, not 4"):
        make_trainer(trainer.run.folder, replace(CONFIG, n_heads=4)).resume()


def test_a_state_of_an_older_version_says_nothing_of_its_identity_and_is_resumed(trainer):
    resave(trainer, lambda notes, tensors: notes.pop("identity"))
    resumed = make_trainer(trainer.run.folder)
    resumed.resume()
    assert resumed.progress == trainer.progress


def test_a_missing_epoch_is_said_and_not_averaged(tmp_path):
    said = []
    trainer = make_trainer(tmp_path, report=said.append)
    trainer.fit()
    assert not any("missing" in line for line in said)
    (tmp_path / "epoch-001.safetensors").unlink()
    trainer.choose_model()
    assert "missing, so not averaged: epoch-001" in said


@pytest.mark.parametrize("name", ["best", "epoch-002"])
def test_a_model_is_not_chosen_from_weights_of_another_one(tmp_path, name):
    trainer = make_trainer(tmp_path)
    trainer.fit()
    notes = {"weights": "epoch 2", "validation_nll": 9.0}
    other = Transformer(replace(CONFIG, n_heads=4))
    save_checkpoint(tmp_path / f"{name}.safetensors", other, **notes)
    with pytest.raises(ValueError, match=f"{name}.safetensors holds another model: its n_heads"):
        trainer.choose_model()


def test_an_identity_changes_with_what_is_learned_and_not_with_where(tmp_path):
    codec = Codec(WhitespaceTokenizer(), Vocab([*SPECIALS, "a", "b"]))
    settings = Settings()
    run = Run.create(tmp_path / "run", settings, codec, codec)
    start = identity_of(run, settings, SENTENCES, SENTENCES[:1])

    def changed(settings=settings, training=SENTENCES, validation=SENTENCES[:1]):
        now = identity_of(run, settings, training, validation)
        return [part for part in start if start[part] != now[part]]

    assert not changed() and not changed(copy.deepcopy(settings))
    assert not changed(settings.with_value("device", "cpu"))
    assert not changed(settings.with_value("corpus.train", ["moved.tsv"]))
    changes = [("seed", 2), ("d_ff", 8), ("lowercase", True), ("epochs", 99)]
    for key, value in (*changes, ("compile", "default")):
        assert changed(settings.with_value(key, value)) == ["settings"], key
    assert changed(training=SENTENCES[1:]) == changed(validation=SENTENCES[1:2]) == ["corpus"]
    moved = make_example([4], [5, 5]), make_example([4, 5], [5])
    split = make_example([4, 5], [5]), make_example([4], [5, 5])
    assert changed(training=moved) and changed(training=split)
    assert identity_of(run, settings, moved, ()) != identity_of(run, settings, split, ())
    run.codec_file("target").write_text("{}")
    assert changed() == ["target.json"]


def test_an_identity_changes_with_who_teaches_and_how_loudly(tmp_path):
    codec = Codec(WhitespaceTokenizer(), Vocab([*SPECIALS, "a", "b"]))
    run = Run.create(tmp_path / "run", Settings(), codec, codec)
    for name in ("first", "moved", "second"):
        Run.create(tmp_path / name, Settings(), codec, codec)
        (tmp_path / name / "model.safetensors").write_text(name.replace("moved", "first"))

    def identity(*teachers, weight=0.5):
        settings = Settings().with_value("teachers", [str(tmp_path / name) for name in teachers])
        settings = settings.with_value("teacher_weight", weight)
        return identity_of(run, settings, SENTENCES, SENTENCES[:1])

    assert identity() == identity(weight=0.9) != identity("first") == identity("moved")
    assert "teachers" not in identity()
    assert identity("first")["settings"] == identity("second")["settings"]
    assert identity("first")["teachers"] != identity("second")["teachers"]
    assert identity("first")["settings"] != identity("first", weight=0.9)["settings"]
    assert identity("first", "second")["teachers"] != identity("first")["teachers"]


def test_an_empty_progress_makes_a_round_trip():
    values = {"sums": [0.0] * 4, "history": []}
    assert Progress.from_dict(values) == Progress()


def test_a_training_goes_on_in_the_precision_that_was_found_for_it(tmp_path, monkeypatch):
    settings = replace(SETTINGS, precision="auto")
    said: list[str] = []
    for quicker in (True, False):
        monkeypatch.setattr(hardware, "quicker_in_bfloat16", lambda quicker=quicker: quicker)
        trainer = make_trainer(tmp_path, settings=settings, report=said.append)
        if quicker:
            trainer.run_epoch()
    assert trainer.precision == torch.float32
    trainer.resume()
    assert trainer.precision == torch.bfloat16 and "in bfloat16, as the training began" in said
    resave(trainer, lambda notes, tensors: notes.update(precision="int8"))
    with pytest.raises(ValueError, match="precision must be one of float32, bfloat16, not 'int8'"):
        make_trainer(tmp_path, settings=settings).resume()
