"""A training that makes use of other runs, to start from or to learn from: what must fit."""

import shutil

import pytest
import torch
from runs_on_disk import with_value

from nmtcourse.recipes.recipe import train
from nmtlib.presets import load_settings
from nmtlib.run import Run
from nmtlib.training.checkpoint import describe_run, read_checkpoint
from nmtlib.training.hardware import LostProcess


def quiet(line):
    pass


def weights(path):
    tensors = read_checkpoint(path).tensors
    return torch.cat([t.flatten() for name, t in tensors.items() if name.startswith("model.")])


def from_first(settings, first, **more):
    changes = {"init_from": str(first.folder), "learning_rate": 1e-9, **more}
    for key, value in changes.items():
        settings = with_value(settings, key, value)
    return settings


def test_it_begins_with_the_weights_and_the_words_of_that_run(settings, first, tmp_path):
    other = settings.corpus.train[0].replace("train.tsv", "other.tsv")
    tuned = from_first(settings, first, train=[other], dropout=0.3)
    (record,) = train(tmp_path / "tuned", tuned, report=quiet)
    run = Run(tmp_path / "tuned")
    mine, theirs = describe_run(run), describe_run(first)
    assert (mine.source, mine.target) == (theirs.source, theirs.target)
    pair = weights(run.model_file), weights(first.weights_file())
    torch.testing.assert_close(*pair, rtol=0, atol=1e-6)
    assert Run(tmp_path / "tuned").settings().model.dropout == 0.3
    (untrained,) = train(
        tmp_path / "new", tuned.changed({"training": {"init_from": ""}}), report=quiet
    )
    assert record.validation_nll < untrained.validation_nll - 0.1


def test_a_resume_goes_on_with_its_own_weights(settings, first, tmp_path):
    tuned = from_first(settings, first, learning_rate=1e-2, epochs=2)
    whole = train(tmp_path / "whole", tuned, report=quiet)
    stop = {"minutes": 1e-9, "report": quiet}
    train(tmp_path / "parts", tuned, **stop)
    moved = first.folder.rename(first.folder.with_name("elsewhere"))
    try:
        history = train(tmp_path / "parts", resume=True, report=quiet)
    finally:
        moved.rename(first.folder)
    assert [r.validation_nll for r in history] == [r.validation_nll for r in whole]


def test_what_does_not_fit_is_refused_and_leaves_nothing(settings, first, tmp_path):
    for change, message in (
        ({"tokenizer.size": 150}, "made with .*size.*give this run the same"),
        ({"source_language": "en", "target_language": "de"}, "translates de-en, but this .* en-de"),
        ({"d_model": 8}, "its d_model is 16, not 8"),
        ({"norm": "post"}, "its norm is 'pre', not 'post'"),
        ({"init_from": "no-such-run"}, "training.init_from: no-such-run is not a run folder"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            train(tmp_path / "tuned", from_first(settings, first, **change), report=quiet)
        assert not (tmp_path / "tuned").exists()
    for minutes in (float("nan"), 0):
        with pytest.raises(ValueError, match="length of time above 0"):
            train(tmp_path / "run", settings, minutes=minutes, report=quiet)
        assert not (tmp_path / "run").exists()


def test_a_start_in_a_toml_file_lies_beside_it(settings, first):
    toml = first.folder.parent / "own.toml"
    for name, expected in (("first", str(first.folder)), ("toy-de-en", "toy-de-en")):
        text = f'[corpus]\nname = "toy-de-en"\n[training]\ninit_from = "{name}"\n'
        toml.write_text(text)
        assert load_settings(toml).training.init_from == expected


def test_a_run_given_by_a_relative_path_is_found_from_anywhere(settings, first, monkeypatch):
    monkeypatch.chdir(first.folder.parent)
    given = settings.with_assignments(['recipe.teachers=["first", "toy-de-en"]', "init_from=first"])
    assert given.recipe["teachers"] == [str(first.folder), "toy-de-en"]
    assert given.training.init_from == str(first.folder)


def test_a_start_that_fails_leaves_what_it_did_not_write(settings, first, tmp_path):
    folder = tmp_path / "films"
    folder.mkdir()
    (folder / "film.mkv.part").write_text("half of a film")
    larger = from_first(settings, first, d_model=32)
    with pytest.raises(FileExistsError, match="not empty"):
        train(folder, larger, report=quiet)
    (folder / "film.mkv.part").rename(folder / "settings.json")  # a name that a run has, too
    with pytest.raises(FileExistsError, match="not empty"):
        train(folder, larger, report=quiet)
    assert (folder / "settings.json").read_text() == "half of a film"


def test_a_start_that_was_killed_may_be_made_again(settings, first, tmp_path):
    folder = tmp_path / "killed"
    folder.mkdir()
    (folder / "settings.json.0123abcd.part").write_text("ha")
    with pytest.raises(ValueError, match="d_model"):
        train(folder, from_first(settings, first, d_model=32), report=quiet)
    assert not folder.exists()
    assert train(folder, from_first(settings, first), report=quiet)


def test_a_start_of_two_vocabularies_cannot_read_both_ways(settings, first, tmp_path):
    recipe = {"name": "course", "both_directions": True}
    both = from_first(settings, first).changed({"recipe": recipe})
    with pytest.raises(ValueError, match="a vocabulary of each language"):
        train(tmp_path / "run", both, report=quiet)
    assert not (tmp_path / "run").exists()


def test_a_start_may_be_one_file(settings, first, tmp_path):
    alone = shutil.copy(first.model_file, tmp_path / "copied.safetensors")
    of_file = from_first(settings, first, init_from=str(alone))
    of_folder = from_first(settings, first)
    for name, one in (("file", of_file), ("folder", of_folder)):
        train(tmp_path / name, one, report=quiet)
    files = [Run(tmp_path / name).model_file for name in ("file", "folder")]
    assert torch.equal(weights(files[0]), weights(files[1]))


@pytest.mark.parametrize("trained", [True, False])
def test_who_loses_a_process_is_told_to_resume_what_there_is(
    settings, first, tmp_path, trained, monkeypatch
):
    def lose(*arguments):
        raise LostProcess("process 1 has ended")

    folder = tmp_path / "run"
    if trained:
        shutil.copytree(first.folder, folder)
    monkeypatch.setattr("nmtlib.experiment.encode_pairs", lose)
    with pytest.raises(LostProcess) as caught:
        train(folder, None if trained else settings, resume=trained, report=quiet)
    assert ("what was saved is sound" in str(caught.value)) == trained
