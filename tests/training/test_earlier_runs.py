"""A training that makes use of other runs, to start from or to learn from: what must fit."""

import json
import shutil

import pytest
import torch

from nmtlib import experiment
from nmtlib.data.corpora import load as load_corpus
from nmtlib.experiment import train
from nmtlib.presets import load_settings
from nmtlib.run import Run
from nmtlib.settings import Settings
from nmtlib.training.checkpoint import load_model, read_checkpoint, save_checkpoint
from nmtlib.training.distributed import LostProcess

SMALL = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 1}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    pairs = load_corpus("toy-de-en").train[:60]
    for name, part in (("train", pairs[:50]), ("other", pairs[20:]), ("validation", pairs[50:])):
        lines = [f"{pair.source}\t{pair.target}\n" for pair in part]
        (folder / f"{name}.tsv").write_text("".join(lines), "utf-8")
    corpus = {split: [str(folder / f"{split}.tsv")] for split in ("train", "validation")}
    corpus |= {"source_language": "de", "target_language": "en"}
    training = {"epochs": 1, "max_tokens": 256, "learning_rate": 1e-2, "warmup": 2}
    sections = {"corpus": corpus, "model": SMALL, "training": training}
    return Settings.from_dict({**sections, "tokenizer": {"size": 200}})


@pytest.fixture(scope="module")
def first(settings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "first"
    train(folder, settings, report=quiet)
    return Run(folder)


def quiet(line):
    pass


def weights(path):
    tensors = read_checkpoint(path)[1]
    return torch.cat([t.flatten() for name, t in tensors.items() if name.startswith("model.")])


def from_first(settings, first, **more):
    changes = {"start": str(first.folder), "learning_rate": 1e-9, **more}
    for key, value in changes.items():
        settings = settings.with_value(key, value)
    return settings


def test_it_begins_with_the_weights_and_the_words_of_that_run(settings, first, tmp_path):
    other = settings.corpus.train[0].replace("train.tsv", "other.tsv")
    tuned = from_first(settings, first, train=[other], dropout=0.3)
    (record,) = train(tmp_path / "tuned", tuned, report=quiet)
    run = Run(tmp_path / "tuned")
    assert run.codec_digests() == first.codec_digests()
    torch.testing.assert_close(
        weights(run.model_file), weights(first.weights_file()), rtol=0, atol=1e-6
    )
    assert Run(tmp_path / "tuned").settings().model.dropout == 0.3
    (untrained,) = train(tmp_path / "new", tuned.with_value("start", ""), report=quiet)
    assert record.validation_nll < untrained.validation_nll - 0.1


def test_a_resume_goes_on_with_its_own_weights(settings, first, tmp_path):
    tuned = from_first(settings, first, learning_rate=1e-2, epochs=2)
    whole = train(tmp_path / "whole", tuned, report=quiet)
    stop = {"minutes": 1e-9, "report": quiet}
    train(tmp_path / "parts", tuned, **stop)
    moved = first.folder.rename(first.folder.with_name("elsewhere"))
    try:
        history = train(tmp_path / "parts", report=quiet)
    finally:
        moved.rename(first.folder)
    assert [r.validation_nll for r in history] == [r.validation_nll for r in whole]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokenizer.size": 150}, r"made with size = 200; give this training the same"),
        ({"source_language": "en", "target_language": "de"}, "translates de-en, but this .* en-de"),
        ({"d_model": 8}, "its d_model is 16, not 8"),
        ({"norm": "post"}, "its norm is 'pre', not 'post'"),
        ({"start": "no-such-run"}, "training.start: no-such-run is not a run folder"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing(
    settings, first, tmp_path, change, message
):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        train(tmp_path / "tuned", from_first(settings, first, **change), report=quiet)
    assert not (tmp_path / "tuned").exists()


@pytest.mark.parametrize("minutes", [float("nan"), 0, -1])
def test_a_time_that_is_none_is_refused_before_anything_is_written(settings, tmp_path, minutes):
    with pytest.raises(ValueError, match="length of time greater than 0"):
        train(tmp_path / "run", settings, minutes=minutes, report=quiet)
    assert not (tmp_path / "run").exists()


def test_a_start_in_a_toml_file_lies_beside_it(settings, first):
    here = first.folder.parent
    (here / "own.toml").write_text('[corpus]\nname = "toy-de-en"\n[training]\nstart = "first"\n')
    assert load_settings(here / "own.toml").training.start == str(first.folder)
    (here / "own.toml").write_text(
        '[corpus]\nname = "toy-de-en"\n[training]\nstart = "toy-de-en"\n'
    )
    assert load_settings(str(here / "own.toml")).training.start == "toy-de-en"


def taught_by(settings, *teachers, **more):
    changes = {"teachers": [str(teacher) for teacher in teachers], **more}
    for key, value in changes.items():
        settings = settings.with_value(key, value)
    return settings


def test_a_teacher_changes_the_loss_and_not_what_is_measured(settings, first, tmp_path):
    given = from_first(settings, first)
    (alone,) = train(tmp_path / "alone", given, report=quiet)
    (taught,) = train(tmp_path / "taught", taught_by(given, first.folder), report=quiet)
    assert taught.train_nll == pytest.approx(alone.train_nll, abs=1e-4)
    assert abs(taught.train_loss - alone.train_loss) > 0.01


def test_who_is_taught_resumes_as_if_it_had_not_stopped(settings, first, tmp_path):
    other = first.folder.with_name("other")
    train(other, settings.with_value("seed", 2), report=quiet)
    taught = taught_by(settings, first.folder, other, epochs=2)
    whole = train(tmp_path / "whole", taught, report=quiet)
    train(tmp_path / "parts", taught, minutes=1e-9, report=quiet)
    history = train(tmp_path / "parts", report=quiet)
    assert [r.validation_nll for r in history] == [r.validation_nll for r in whole]


def test_a_resume_wants_the_teachers_as_they_were(settings, first, tmp_path):
    teacher = first.folder.with_name("teacher")
    shutil.copytree(first.folder, teacher)
    train(tmp_path / "run", taught_by(settings, teacher, epochs=2), minutes=1e-9, report=quiet)
    kept = teacher.rename(teacher.with_name("kept"))
    with pytest.raises(FileNotFoundError, match="teacher is not a run folder"):
        train(tmp_path / "run", report=quiet)
    shutil.copytree(kept, teacher)
    save_checkpoint(Run(teacher).model_file, load_model(first.best_file).requires_grad_(False))
    with pytest.raises(ValueError, match="belongs to another training: teachers changed"):
        train(tmp_path / "run", report=quiet)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokenizer.size": 150}, "first has other vocabularies than this training"),
        ({"source_language": "en", "target_language": "de"}, "translates de-en, but this .* en-de"),
        (
            {"model.max_length": 512},
            "at most 256 tokens; set .* to that, not to 512",
        ),
        ({"teachers": ["no-such-run"]}, "training.teachers: no-such-run is not a run folder"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused_and_nothing_is_left(
    settings, first, tmp_path, change, message
):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        train(tmp_path / "run", taught_by(settings, first.folder, **change), report=quiet)
    assert not (tmp_path / "run").exists()


def test_who_is_not_trained_to_its_end_cannot_teach(settings, first, tmp_path):
    unfinished = tmp_path / "unfinished"
    shutil.copytree(first.folder, unfinished)
    Run(unfinished).model_file.unlink()
    with pytest.raises(ValueError, match=f"not trained to its end; .* --resume --out {unfinished}"):
        train(tmp_path / "run", taught_by(settings, unfinished), report=quiet)


def test_a_teacher_serves_on_another_device_than_its_own(settings, first, tmp_path):
    teacher = tmp_path / "teacher"
    shutil.copytree(first.folder, teacher)
    stored = json.loads((teacher / "settings.json").read_text("utf-8"))
    stored["training"]["device"] = "cuda:77"
    (teacher / "settings.json").write_text(json.dumps(stored), "utf-8")
    assert train(tmp_path / "run", taught_by(settings, teacher), report=quiet)


def test_who_translates_one_way_cannot_teach_both(settings, tmp_path):
    joint = settings.with_value("joint", True)
    one_way, both = tmp_path / "one-way", joint.with_value("both_directions", True)
    train(one_way, both, report=quiet)
    stored = json.loads((one_way / "settings.json").read_text("utf-8"))
    stored["corpus"]["both_directions"] = False
    (one_way / "settings.json").write_text(json.dumps(stored), "utf-8")
    with pytest.raises(ValueError, match="one-way translates one way only"):
        train(tmp_path / "run", taught_by(both, one_way), report=quiet)


def test_who_translates_both_ways_can_teach_each(settings, tmp_path):
    joint = settings.with_value("joint", True)
    train(tmp_path / "both", joint.with_value("both_directions", True), report=quiet)
    corpus = {"source_language": "en", "target_language": "de"}
    turned = joint.changed({"corpus": {"both_directions": True, **corpus}}, "test")
    for name, given in (("one", joint), ("turned", turned)):
        assert train(tmp_path / name, taught_by(given, tmp_path / "both"), report=quiet)


def test_teachers_in_a_toml_file_lie_beside_it(settings, first):
    here = first.folder.parent
    text = '[corpus]\nname = "toy-de-en"\n[training]\nteachers = ["first", "toy-de-en"]\n'
    (here / "own.toml").write_text(text)
    (here / "toy-de-en").mkdir(exist_ok=True)  # an empty folder hides no model
    assert load_settings(here / "own.toml").training.teachers == [str(first.folder), "toy-de-en"]


def test_a_run_given_by_a_relative_path_is_found_from_anywhere(settings, first, monkeypatch):
    monkeypatch.chdir(first.folder.parent)
    given = settings.with_assignments(['training.teachers=["first", "toy-de-en"]', "start=first"])
    assert given.training.teachers == [str(first.folder), "toy-de-en"]
    assert given.training.start == str(first.folder)


def test_a_start_that_fails_leaves_what_it_did_not_write(settings, first, tmp_path):
    folder = tmp_path / "films"
    folder.mkdir()
    (folder / "film.mkv.part").write_text("half of a film")
    larger = from_first(settings, first, d_model=32)
    with pytest.raises(FileExistsError, match="not empty"):
        train(folder, larger, report=quiet)
    (folder / "film.mkv.part").rename(folder / "source.json")  # a name that a run has, too
    with pytest.raises(FileExistsError, match="not empty"):
        train(folder, larger, report=quiet)
    assert (folder / "source.json").read_text() == "half of a film"


def test_a_start_that_was_killed_may_be_made_again(settings, first, tmp_path):
    folder = tmp_path / "killed"
    folder.mkdir()
    (folder / "source.json.0123abcd.part").write_text("ha")
    shutil.copy(first.codec_file("target"), folder)
    with pytest.raises(ValueError, match="d_model"):
        train(folder, from_first(settings, first, d_model=32), report=quiet)
    assert not folder.exists(), "all in it was left by a start"


def test_a_start_of_two_vocabularies_cannot_read_both_ways(settings, first, tmp_path):
    both = from_first(settings, first, both_directions=True)
    with pytest.raises(ValueError, match="a vocabulary of each language"):
        train(tmp_path / "run", both, report=quiet)
    assert not (tmp_path / "run").exists()


def test_a_start_whose_words_were_changed_is_refused(settings, first, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(first.folder, other)
    codec = json.loads((other / "target.json").read_text("utf-8"))
    codec["tokens"][4:] = reversed(codec["tokens"][4:])
    (other / "target.json").write_text(json.dumps(codec), "utf-8")
    with pytest.raises(ValueError, match="target.json changed since it was written"):
        train(tmp_path / "run", from_first(settings, Run(other)), report=quiet)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("trained", [True, False])
def test_who_loses_a_process_is_told_to_resume_what_there_is(
    settings, first, tmp_path, trained, monkeypatch
):
    def lose(settings):
        raise LostProcess("process 1 has ended")

    folder = tmp_path / "run"
    if trained:
        shutil.copytree(first.folder, folder)
    monkeypatch.setattr(experiment, "load_corpus", lose)
    with pytest.raises(LostProcess) as caught:
        train(folder, None if trained else settings, report=quiet)
    assert ("what was saved is sound" in str(caught.value)) == trained
