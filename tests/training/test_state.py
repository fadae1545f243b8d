"""A resume finds what was saved, refuses what was not, and says which of both it is."""

from __future__ import annotations

import math
import os
import shutil
import signal
import threading
from dataclasses import replace

import pytest
import torch
from runs_on_disk import rewrite, with_value

from nmtlib.data.batching import make_example
from nmtlib.experiment import digest_of
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.settings import Settings, TrainingSettings
from nmtlib.training import hardware
from nmtlib.training import trainer as trainer_module
from nmtlib.training.checkpoint import read_checkpoint, save_checkpoint
from nmtlib.training.trainer import Recipe, Trainer

LAYERS = {"n_encoder_layers": 1, "n_decoder_layers": 1}
CONFIG = TransformerConfig(20, 20, d_model=8, n_heads=2, d_ff=16, **LAYERS)
SETTINGS = TrainingSettings(epochs=3, max_tokens=64, average=3, precision="fp32", device="cpu")
SENTENCES = [make_example([4 + i % 16, 5], [4 + i % 16, 5]) for i in range(40)]
IDENTITY = {"corpus": "a", "teachers": "b"}


def make_trainer(
    folder, config=CONFIG, identity=IDENTITY, settings=SETTINGS, report=lambda line: None, **hooks
):
    model, recipe = Transformer(config), Recipe(identity=identity)
    split = SENTENCES, SENTENCES[:9]
    return Trainer(model, *split, settings, folder, recipe, report=report, **hooks)


@pytest.fixture
def trainer(tmp_path):
    """A training that has ended its first epoch and saved it."""
    trainer = make_trainer(tmp_path)
    trainer.run_epoch()
    return trainer


def resave(trainer, change):
    """Save the state again, its checksum included, with what `change` changed in it."""
    rewrite(trainer.run.state_file, lambda content, tensors: change(content["state"], tensors))


def test_what_is_saved_again_unchanged_can_be_resumed(trainer):
    resave(trainer, lambda notes, tensors: None)
    again = make_trainer(trainer.run.folder)
    again.resume()
    assert again.progress == trainer.progress


def test_a_resume_of_another_training_or_model_names_what_changed(trainer):
    for part in IDENTITY:
        with pytest.raises(ValueError, match=f"another run: {part} changed"):
            make_trainer(trainer.run.folder, identity={**IDENTITY, part: "c"}).resume()
    with pytest.raises(ValueError, match="its n_heads is 2, not 4"):
        make_trainer(trainer.run.folder, replace(CONFIG, n_heads=4)).resume()


def test_a_missing_epoch_is_said_and_not_averaged(tmp_path):
    said = []
    trainer = make_trainer(tmp_path, report=said.append)
    trainer.fit()
    assert not any("missing" in line for line in said)
    (tmp_path / "epoch-001.safetensors").unlink()
    trainer.choose_model()
    assert "missing, so not averaged: epoch-001" in said


def test_a_model_is_not_chosen_from_weights_of_another_one(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.fit()
    other = Transformer(replace(CONFIG, n_heads=4))
    for name in ("best", "epoch-002"):
        kept = (path := tmp_path / f"{name}.safetensors").read_bytes()
        save_checkpoint(path, other, weights="epoch 2", validation_nll=9.0)
        with pytest.raises(ValueError, match=f"{name}.safetensors holds another model: its n_head"):
            trainer.choose_model()
        path.write_bytes(kept)


def test_an_identity_changes_with_what_is_learned_and_not_with_where():
    settings = Settings()
    for key, value in [("device", "cpu"), ("beam", 7), ("corpus.train", ["moved.tsv"])]:
        assert with_value(settings, key, value).identity() == settings.identity(), key
    changes = [("training.seed", 2), ("model.d_ff", 8), ("tokenizer.lowercase", True)]
    changes += [("training.epochs", 99), ("recipe.r_drop", 1)]
    for key, value in changes:
        assert with_value(settings, key, value).identity() != settings.identity(), key
    moved = make_example([4], [5, 5]), make_example([4, 5], [5])
    split = make_example([4, 5], [5]), make_example([4], [5, 5])
    texts = [SENTENCES, SENTENCES[1:], moved, split]
    assert len({digest_of(text) for text in texts}) == len(texts)


def test_a_training_goes_on_in_the_precision_that_was_found_for_it(tmp_path, monkeypatch):
    settings = replace(SETTINGS, precision="auto")
    said: list[str] = []
    for quicker in (True, False):
        monkeypatch.setattr(hardware, "has_quick_bfloat16", lambda quicker=quicker: quicker)
        trainer = make_trainer(tmp_path, settings=settings, report=said.append)
        if quicker:
            trainer.run_epoch()
    assert trainer.precision == torch.float32
    trainer.resume()
    assert trainer.precision == torch.bfloat16


def test_a_resume_with_other_threads_says_that_the_bits_differ(trainer):
    told: list[str] = []
    make_trainer(trainer.run.folder, report=told.append).resume()
    assert not any("threads" in line for line in told)
    resave(trainer, lambda notes, tensors: notes.update(threads=97))
    make_trainer(trainer.run.folder, report=told.append).resume()
    assert "with 97 threads" in told[-1] and "OMP_NUM_THREADS=97" in told[-1]


NOT_NOTES = {  # one of each type of value, and the bounds of each number
    "identity": [None, {"settings": 1}],
    "precision": [None, "float64"],
    "threads": [0, "1"],
    "progress": [None, {"batches": 1}],
}
NOT_PROGRESS = {
    "epoch": [-1, 2, 1.5, None],
    "batches": [-1, 10**9],
    "updates": [-1, 10**38, 2],
    "seconds": [-1.0, float("nan"), float("inf")],
    "totals": [[1.0], "1234"],
    "history": [[], [{}]],
    "more": [1],
}


def test_notes_that_nmtlib_would_not_write_are_refused(trainer):
    wrong = [(note, None, value) for note, values in NOT_NOTES.items() for value in values]
    wrong += [("progress", key, value) for key, values in NOT_PROGRESS.items() for value in values]
    kept = trainer.run.state_file.read_bytes()
    for note, key, value in wrong:

        def change(notes, tensors, note=note, key=key, value=value):
            (notes if key is None else notes[note])[key or note] = value

        resave(trainer, change)
        with pytest.raises(ValueError, match="state.safetensors"):
            make_trainer(trainer.run.folder).resume()
        trainer.run.state_file.write_bytes(kept)
    for note in NOT_NOTES:
        resave(trainer, lambda notes, tensors, note=note: notes.pop(note))
        with pytest.raises(ValueError, match=note):
            make_trainer(trainer.run.folder).resume()
        trainer.run.state_file.write_bytes(kept)


def test_a_state_that_is_not_whole_is_refused(trainer):
    name = "optimizer.exp_avg.encoder.0.feed_forward.fc1.weight"  # of 8 x 16

    def drop_moments(notes, tensors):
        for moment in [name for name in tensors if name.startswith("optimizer.")]:
            del tensors[moment]

    for change in (
        lambda notes, tensors: tensors.pop(name),
        lambda notes, tensors: tensors.update({name: tensors[name].flatten()[:1]}),
        lambda notes, tensors: tensors.update({f"{name}.more": tensors[name].clone()}),
        drop_moments,
    ):
        kept = trainer.run.state_file.read_bytes()
        resave(trainer, change)
        with pytest.raises(ValueError, match="does not fit this optimizer"):
            make_trainer(trainer.run.folder).resume()
        trainer.run.state_file.write_bytes(kept)


def test_a_validation_loss_or_a_size_of_another_type_is_refused(trainer):
    path = trainer.run.best_file
    for value in (None, -1.0, float("nan"), "1.0"):
        rewrite(path, lambda content, tensors, value=value: content.update(validation_nll=value))
        with pytest.raises(ValueError, match="best.safetensors .* validation_nll"):
            trainer.choose_model()
    trainer.model.config = replace(CONFIG)
    for name, value in (("n_heads", 2.0), ("d_model", "8")):
        old = vars(trainer.model.config)[name]
        vars(trainer.model.config)[name] = value
        save_checkpoint(path, trainer.model)
        vars(trainer.model.config)[name] = old
        with pytest.raises(ValueError, match=f"another version of nmtlib: .*{name}"):
            read_checkpoint(path)


@pytest.mark.parametrize("way", ["deleted", "moved", "replaced"])
def test_a_folder_that_is_gone_ends_the_training_and_is_not_made_anew(tmp_path, way):
    folder = tmp_path / "run"

    def remove(trainer):
        folder.rename(tmp_path / "moved") if way == "moved" else shutil.rmtree(folder)
        if way == "replaced":
            folder.mkdir()

    trainer = make_trainer(folder, after_epoch=remove)
    with pytest.raises(FileNotFoundError, match="deleted, moved or replaced while it trained"):
        trainer.fit()
    assert way == "replaced" or not folder.exists()
    assert not folder.exists() or not [*folder.iterdir()]


@pytest.mark.parametrize("how", ["touched", "rounded", "copied"])
def test_a_training_goes_on_whatever_the_time_of_its_file_is(tmp_path, how):
    def disturb(trainer):
        path = trainer.run.state_file
        if how == "copied":  # another inode, the same bytes
            shutil.copyfile(path, tmp_path / "copy")
            (tmp_path / "copy").replace(path)
        os.utime(path, None if how == "touched" else (1, 1))

    trainer = make_trainer(tmp_path / "run", after_epoch=disturb)
    assert len(trainer.fit()) == SETTINGS.epochs


def test_a_training_ends_where_another_run_has_taken_its_place(tmp_path):
    other = make_trainer(tmp_path / "other", settings=replace(SETTINGS, seed=9))
    other.fit()
    take_its_place = lambda trainer: shutil.copy(other.run.state_file, trainer.run.folder)  # noqa: E731
    trainer = make_trainer(tmp_path / "run", after_epoch=take_its_place)
    with pytest.raises(FileNotFoundError, match="deleted, moved or replaced while it trained"):
        trainer.fit()


@pytest.mark.slow
def test_saves_by_the_clock_change_no_bit(tmp_path, monkeypatch):
    torch.manual_seed(0)
    weights = Transformer(CONFIG).state_dict()
    files, saved = {}, {}
    for name, seconds in (("never", math.inf), ("always", -1.0)):
        monkeypatch.setattr(trainer_module, "SAVE_SECONDS", seconds)
        trainer = make_trainer(tmp_path / name)
        trainer.model.load_state_dict(weights)
        save, count = trainer.save, []
        trainer.save = lambda save=save, count=count: (count.append(1), save())[1]
        trainer.fit()
        saved[name] = len(count)
        paths = trainer.run.folder.glob("*.safetensors")
        files[name] = {path.name: read_checkpoint(path).tensors for path in paths}
    assert saved["never"] == SETTINGS.epochs < saved["always"] == trainer.progress.updates
    for name, tensors in files["never"].items():
        assert all(torch.equal(tensors[key], files["always"][name][key]) for key in tensors), name


def test_a_kill_between_two_saves_by_the_clock_resumes_to_the_same_bits(tmp_path, monkeypatch):
    torch.manual_seed(0)
    weights = Transformer(CONFIG).state_dict()
    whole = make_trainer(tmp_path / "whole")
    whole.model.load_state_dict(weights)
    whole.fit()
    monkeypatch.setattr(trainer_module, "SAVE_SECONDS", -1.0)
    killed = make_trainer(tmp_path / "killed")
    killed.model.load_state_dict(weights)
    plain = killed.update

    def update(*arguments):
        if killed.progress.updates == 2:
            raise KeyboardInterrupt  # nothing is saved on the way out
        return plain(*arguments)

    killed.update = update
    with pytest.raises(KeyboardInterrupt):
        killed.fit()
    again = make_trainer(tmp_path / "killed")
    again.resume()
    assert again.progress.updates == 2 and again.progress.batches, "within the first epoch"
    again.fit()
    for path in whole.run.folder.glob("*.safetensors"):
        one, other = (read_checkpoint(f).tensors for f in (path, again.run.folder / path.name))
        assert all(torch.equal(one[key], other[key]) for key in one), path.name


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_stops_after_a_save(tmp_path, name):
    number = getattr(signal, name)
    said, trainer = [], make_trainer(tmp_path, report=lambda line: said.append(line))
    plain = trainer.update

    def update(*arguments):
        if trainer.progress.updates == 1:
            os.kill(os.getpid(), number)
        return plain(*arguments)

    trainer.update = update
    usual = signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL
    outside = signal.signal(number, usual)  # under nohup, SIGHUP would be ignored
    try:
        trainer.fit()
        assert signal.getsignal(number) == usual
    finally:
        signal.signal(number, outside)
    assert "stopped in epoch 1 after 2 updates; --resume goes on from here" in said
    assert read_checkpoint(trainer.run.state_file).header.state.progress.updates == 2


def test_what_ignores_a_closed_terminal_goes_on(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with hardware.stop_on_signal(asked := threading.Event()):
            os.kill(os.getpid(), signal.SIGHUP)
            assert not asked.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)
