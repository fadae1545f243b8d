"""The models that ship with the course are stored from finished runs, trained first if need be."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import captions
import checkpoints
import other_way
import pytest
import torch

from nmtcourse.teaching.course import CHECKPOINTS, DIRECTIONS
from nmtlib.cli import build_parser
from nmtlib.data.corpora import load
from nmtlib.presets import load_settings
from nmtlib.training.checkpoint import read_checkpoint


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_storing_a_run_keeps_all_that_a_translator_needs(direction, tmp_path, monkeypatch):
    """The shipped folder with a log is a run; stored once more it has the same weights."""
    run, stored = tmp_path / "run", tmp_path / "stored"
    shutil.copytree(CHECKPOINTS / f"toy-{direction}", run)
    corpus = load(f"toy-{direction}")
    (run / "log.txt").write_text("$ nmtlib train this\n")
    small = replace(corpus, validation=corpus.validation[:20], test=corpus.test[:20])
    monkeypatch.setattr(checkpoints, "load", lambda name: small)
    notes = checkpoints.store(run, stored)
    assert notes == json.loads((stored / "notes.json").read_text())
    assert notes["command"] == "nmtlib train this"
    assert notes["as_trained"] == notes["as_shipped"], "rounding twice is rounding once"
    ours, again = (read_checkpoint(path / "model.safetensors") for path in (run, stored))
    assert again[2] == ours[2] and ours[2]["weights"], "a checkpoint names the epoch it comes from"
    for name, tensor in ours[1].items():
        assert again[1][name].dtype == torch.float16 and torch.equal(tensor, again[1][name]), name
    for name in checkpoints.COPIED:
        assert (stored / name).read_bytes() == (run / name).read_bytes()


def test_making_without_runs_trains_each_preset_first(monkeypatch, capsys):
    trained, stored = [], []

    def run(command, check):
        options = build_parser().parse_args(command[3:])
        assert command[1:3] == ["-m", "nmtlib"] and options.command == "train" and check
        trained.append((options.preset, options.out))

    checked = []
    monkeypatch.setattr(checkpoints, "require_finished", lambda run: checked.append(run.folder))
    monkeypatch.setattr(checkpoints.subprocess, "run", run)
    monkeypatch.setattr(checkpoints, "store", lambda run, folder: stored.append((run, folder)))
    checkpoints.make()
    assert [preset for preset, _ in trained] == ["toy-de-en", "toy-en-zh"]
    assert stored == [(out, CHECKPOINTS / preset) for preset, out in trained]
    assert checked == [out for _, out in trained], "what was stopped is not stored"
    trained.clear(), stored.clear()
    checkpoints.make(Path("runs"))
    assert not trained and stored[0] == (Path("runs/toy-de-en"), CHECKPOINTS / "toy-de-en")
    checkpoints.make(None, ["cmn-en-zh"])
    assert trained[-1][0] == "cmn-en-zh-small" and stored[-1][1].name == "cmn-en-zh"


def test_each_step_from_captions_to_a_model_is_a_command(tmp_path):
    parser = build_parser()
    steps = [parser.parse_args(step) for step in captions.steps(tmp_path)]
    kinds = [step.command for step in steps]
    assert kinds == ["train", "backtranslate", "train", "backtranslate", "train"]
    settings = [
        load_settings(step.preset).with_assignments(step.assignments)
        for step in steps
        if step.command == "train"
    ]
    made = [step.out for step in steps if step.command == "backtranslate"]
    assert [step.folder for step in steps[1::2]] == [str(step.out) for step in steps[0:4:2]]
    assert settings[0].corpus.languages == ("en", "de") != settings[1].corpus.languages
    assert [len(s.recipe.get("synthetic", [])) for s in settings] == [0, 1, 2]
    assert settings[2].recipe["synthetic"] == [str(path) for path in made]
    (tmp_path / "en-de").mkdir()
    (tmp_path / "en-de" / "last.safetensors").touch()
    assert next(captions.steps(tmp_path))[:2] == ["train", "--resume"]


def test_no_step_follows_a_training_that_was_stopped(tmp_path, monkeypatch):
    commands = []

    def stopped(command):  # as Ctrl-C leaves it: a run, and no error
        commands.append(command)
        shutil.copytree(CHECKPOINTS / "toy-de-en", command[-1])
        return 0

    monkeypatch.setattr(captions.cli, "main", stopped)
    monkeypatch.setattr(captions, "store", lambda *_: pytest.fail("stored"))
    settings = load_settings("toy-de-en").with_value("epochs", 1_000)
    monkeypatch.setattr(captions.Run, "settings", lambda run: settings)
    with pytest.raises(KeyboardInterrupt, match="en-de was stopped before its end"):
        captions.main(["--out", str(tmp_path)])
    assert len(commands) == 1


def test_the_other_way_ends_with_the_pairs_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other_way.text_of(Path("runs")).parent.mkdir(parents=True)
    other_way.text_of(Path("runs")).write_text("eins\tone\n", "utf-8")
    (mixed, first), (last, second) = other_way.stages(Path("runs"), 2).values()
    assert mixed.corpus.languages == last.corpus.languages == ("en", "de")
    assert mixed.recipe["synthetic"] == [str(tmp_path / other_way.text_of(Path("runs")))]
    assert "synthetic" not in last.recipe
    assert last.training.init_from == str(first) and first != second
    assert mixed.training.seed == last.training.seed == 2 and mixed.tokenizer == last.tokenizer
    assert mixed.model.d_model == last.model.d_model


def test_each_seed_of_the_other_way_is_scored_twice_and_all_together(tmp_path, monkeypatch):
    asked, commands = [], []

    def score(folders, split="test", **how):
        asked.append((len(folders), split))
        return {"bleu": 10.0 * len(asked)}

    def trained(settings, folder, **how):
        return {"seed": settings.training.seed, "bleu": len(folder.parts), "bleu_moses": 1.0}

    monkeypatch.setattr(other_way, "scored", score)
    monkeypatch.setattr(other_way, "run", trained)
    monkeypatch.setattr(other_way.cli, "main", lambda command: commands.append(command))
    output = tmp_path / "found.json"
    other_way.main(["--seeds", "4", "5", "--out", str(tmp_path), "--output", str(output)])
    found = json.loads(output.read_text("utf-8"))
    assert commands[0][:2] == ["backtranslate", "multi30k-de-en"]
    assert asked == [(1, "validation")] * 4 + [(2, "test")]
    assert [[run["seed"] for run in stage["runs"]] for stage in found["stages"].values()] == [
        [4, 5],
        [4, 5],
    ]
    assert list(found["stages"].values())[1]["validation_bleu"]["mean"] == 30.0
    assert found["ensemble"] == {"models": 2, "bleu": 50.0}
