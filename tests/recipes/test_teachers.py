"""Runs that teach another: what must fit, and that a resume finds them as they were."""

import shutil
from dataclasses import replace

import pytest
from runs_on_disk import describe_anew, set_anew, with_value

from nmtcourse.recipes.recipe import train
from nmtlib.presets import load_settings
from nmtlib.run import Run
from nmtlib.training.checkpoint import (
    describe_run,
    load_model,
    read_checkpoint,
    save_checkpoint,
)

BOTH = {"recipe": {"name": "course", "both_directions": True}}


def quiet(line):
    pass


def taught_by(settings, *teachers, **more):
    taught = {"recipe.name": "course", "recipe.teachers": [str(teacher) for teacher in teachers]}
    changes = {**taught, **more}
    for key, value in changes.items():
        settings = with_value(settings, key, value)
    return settings


@pytest.mark.slow
def test_a_teacher_changes_the_loss_and_not_what_is_measured(settings, first, tmp_path):
    start = {"init_from": str(first.folder), "learning_rate": 1e-9}
    given = settings.changed({"training": start})
    (alone,) = train(tmp_path / "alone", given, report=quiet)
    (taught,) = train(tmp_path / "taught", taught_by(given, first.folder), report=quiet)
    assert taught.train_nll == pytest.approx(alone.train_nll, abs=1e-4)
    assert abs(taught.train_loss - alone.train_loss) > 0.01


@pytest.mark.slow
def test_who_is_taught_resumes_as_if_it_had_not_stopped(settings, first, tmp_path):
    other = first.folder.with_name("other")
    train(other, settings.changed({"training": {"seed": 2}}), report=quiet)
    taught = taught_by(settings, first.folder, other, epochs=2)
    whole = train(tmp_path / "whole", taught, report=quiet)
    train(tmp_path / "parts", taught, minutes=1e-9, report=quiet)
    history = train(tmp_path / "parts", resume=True, report=quiet)
    assert [r.validation_nll for r in history] == [r.validation_nll for r in whole]


def test_a_resume_wants_the_teachers_as_they_were(settings, first, tmp_path):
    teacher = first.folder.with_name("teacher")
    shutil.copytree(first.folder, teacher)
    train(tmp_path / "run", taught_by(settings, teacher, epochs=2), minutes=1e-9, report=quiet)
    kept = teacher.rename(teacher.with_name("kept"))
    with pytest.raises(FileNotFoundError, match="teacher is not a run folder"):
        train(tmp_path / "run", resume=True, report=quiet)
    shutil.copytree(kept, teacher)
    saved = read_checkpoint(first.model_file)
    model = load_model(first.model_file).requires_grad_(False)
    model.output.bias += 1
    save_checkpoint(Run(teacher).model_file, model, description=saved.description)
    with pytest.raises(ValueError, match="belongs to another run: teachers changed"):
        train(tmp_path / "run", resume=True, report=quiet)


def test_a_teacher_that_does_not_fit_is_refused_and_nothing_is_left(settings, first, tmp_path):
    for change, message in (
        ({"tokenizer.size": 150}, "first has other vocabularies than this run"),
        ({"source_language": "en", "target_language": "de"}, "translates de-en, but this .* en-de"),
        ({"model.max_length": 512}, "at most 256 tokens; set .* to that, not to 512"),
        ({"recipe.teachers": ["no-such"]}, "recipe.teachers: no-such is not a run folder"),
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
    set_anew(Run(teacher).model_file, "training.device", "cuda:77")
    assert train(tmp_path / "run", taught_by(settings, teacher), report=quiet)


def test_who_translates_one_way_cannot_teach_both(settings, tmp_path):
    joint = settings.changed({"tokenizer": {"joint": True}})
    one_way, both = tmp_path / "one-way", joint.changed(BOTH)
    train(one_way, both, report=quiet)
    about = describe_run(Run(one_way)).settings
    describe_anew(Run(one_way).model_file, settings=replace(about, recipe={}))
    with pytest.raises(ValueError, match="one-way translates one way only"):
        train(tmp_path / "run", taught_by(both, one_way), report=quiet)


@pytest.mark.slow
def test_who_translates_both_ways_can_teach_each(settings, tmp_path):
    joint = settings.changed({"tokenizer": {"joint": True}})
    train(tmp_path / "both", joint.changed(BOTH), report=quiet)
    corpus = {"source_language": "en", "target_language": "de"}
    turned = joint.changed({"corpus": corpus, **BOTH})
    for name, given in (("one", joint), ("turned", turned)):
        assert train(tmp_path / name, taught_by(given, tmp_path / "both"), report=quiet)


def test_teachers_in_a_toml_file_lie_beside_it(settings, first):
    here = first.folder.parent
    text = '[corpus]\nname = "toy-de-en"\n[recipe]\nteachers = ["first", "toy-de-en"]\n'
    (here / "own.toml").write_text(text)
    (here / "toy-de-en").mkdir(exist_ok=True)  # an empty folder hides no model
    assert load_settings(here / "own.toml").recipe["teachers"] == [str(first.folder), "toy-de-en"]
