"""The command line: whatever goes wrong is one line of explanation, and nothing is lost."""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from limits import NO_PROGRESS
from runs_on_disk import set_anew
from tiny import PRESET, sentence_pairs

from nmtcourse import main as cli
from nmtcourse.corpora import load_corpus, names
from nmtcourse.welcome import GROUPS, WELCOME
from nmtlib import cli as core
from nmtlib.files import write_atomically
from nmtlib.inference.translator import Translator
from nmtlib.presets import load_settings, presets
from nmtlib.run import SHIPPED
from nmtlib.settings import Settings
from nmtlib.training.checkpoint import load_model, read_checkpoint
from nmtlib.training.history import read_history
from nmtlib.training.trainer import Trainer

ROOT = Path(__file__).resolve().parents[1]
STATES = ("model", "best", "state")
RUN_FILES = {
    *("settings.json", "history.csv", "curves.png", "samples.txt"),
    *("log.txt", *(f"{name}.safetensors" for name in STATES)),
}
COMMANDS = " ".join(names for names, _ in GROUPS.values()).split()


SPLITS = {
    "train": sentence_pairs()[:40],
    "validation": sentence_pairs()[40:50],
    "test": sentence_pairs()[50:],
}


def write_corpus(folder: Path, preset: str = PRESET) -> Path:
    """Three TSV files and their preset; returns the path of the preset."""
    for split, rows in SPLITS.items():
        (folder / f"{split}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows), "utf-8")
    (folder / "own.toml").write_text(preset, "utf-8")
    return folder / "own.toml"


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder with what they hold."""
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


@pytest.fixture
def preset(tmp_path) -> str:
    return str(write_corpus(tmp_path))


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, str]:
    """A finished run, and what its training printed."""
    folder = tmp_path_factory.mktemp("trained")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = cli.main(["train", str(write_corpus(folder)), "--out", str(folder / "run")])
    assert status == 0
    return folder / "run", printed.getvalue()


@pytest.fixture
def run(trained, tmp_path) -> Path:
    """A copy of the finished run, to be changed at will."""
    return shutil.copytree(trained[0], tmp_path / "run")


@pytest.fixture
def call(capsys):
    """Run one command in this process; returns exit status, standard output and standard error."""

    def run_command(*arguments) -> tuple[int, str, str]:
        capsys.readouterr()
        status = cli.main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return run_command


@pytest.fixture
def train(call, preset, tmp_path):
    """Train the preset in `tmp_path / "run"` with more arguments; returns what `call` does."""
    return lambda *more: call("train", preset, "--out", tmp_path / "run", *more)


@pytest.fixture
def refused(call):
    """Run a command that must fail as an error should; returns its one line."""

    def run_command(*arguments) -> str:
        status, _, error = call(*arguments)
        assert status == 1
        assert error.startswith("nmtlib: ") and error.endswith("\n") and error.count("\n") == 1, (
            error
        )
        assert "Traceback" not in error and len(error.strip()) > len("nmtlib: something")
        return error

    return run_command


def weights(path: Path) -> dict[str, torch.Tensor]:
    return {
        name: t for name, t in read_checkpoint(path).tensors.items() if name.startswith("model.")
    }


def same_weights(one: Path, two: Path, *names: str) -> bool:
    """Whether files of two runs, by default the chosen model, hold equal weights."""
    files = [
        [weights(run / f"{name}.safetensors") for run in (one, two)] for name in names or STATES[:1]
    ]
    return all(a.keys() == b.keys() and all(torch.equal(a[n], b[n]) for n in a) for a, b in files)


# Training


def test_a_finished_run_is_complete(trained):
    folder, printed = trained
    files = {name for name in contents(folder) if not name.startswith("epoch-")}
    assert files == RUN_FILES, "nothing is missing or half written"
    assert json.loads((folder / "settings.json").read_text("utf-8"))["model"]["d_model"] == 16
    history = read_history(folder / "history.csv")
    assert [record.epoch for record in history] == [1, 2]
    assert history[1].train_nll < history[0].train_nll, "it learns"
    picture = (folder / "curves.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 5000
    for name in STATES:
        assert load_model(folder / f"{name}.safetensors").config.d_model == 16
    for text in ("40 training pairs", "10 for validation", str(folder)):
        assert text in printed
    assert len(re.findall(r"^epoch +\d/2 ", printed, re.MULTILINE)) == 2


def test_after_each_epoch_one_sentence_is_translated_with_the_weights_of_then(trained):
    folder, printed = trained
    shown = re.findall(r"^epoch .*\n +(.+)  →  (.*)$", printed, re.MULTILINE)
    (source,) = {given for given, _ in shown}
    assert source == SPLITS["validation"][0][0]
    for number, (_, translation) in enumerate(shown, start=1):
        then = Translator.load(folder, checkpoint=f"epoch-{number:03}", device="cpu")
        assert [translation] == then.translate([source], beam=1, max_length=20)
    assert len(shown) == 2


@pytest.mark.slow
def test_the_same_command_makes_the_same_model(call, preset, trained, tmp_path):
    assert call("train", preset, "--out", tmp_path / "again")[0] == 0
    assert same_weights(tmp_path / "again", trained[0], "model", "best")
    assert call("train", preset, "--out", tmp_path / "new", "--set", "seed=2")[0] == 0
    assert not same_weights(tmp_path / "new", trained[0])


def test_a_run_is_never_overwritten_and_a_folder_with_other_things_never_used(
    refused, preset, run, tmp_path
):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("precious")
    before = contents(tmp_path)
    line = refused("train", preset, "--out", run)
    assert "nothing is overwritten" in line and str(run) in line
    refused("train", preset, "--out", tmp_path / "thesis")
    refused("train", preset, "--out", tmp_path / "thesis" / "chapter.txt")
    assert contents(tmp_path) == before


def test_evaluate_after_training(train, tmp_path):
    status, printed, _ = train("--set", "epochs=1", "--evaluate")
    assert status == 0 and "BLEU" in printed and SPLITS["test"][0][0] in printed
    assert json.loads((tmp_path / "run" / "test-beam2.json").read_text("utf-8"))["split"] == "test"


# Stopping and resuming


def test_a_stopped_run_goes_on_to_the_same_model(call, train, trained, tmp_path):
    status, printed, _ = train("--minutes", "1e-9")
    assert status == 0 and "--resume" in printed
    assert not (tmp_path / "run" / "model.safetensors").exists(), "it stopped in the first epoch"
    status, printed, _ = call("train", "--resume", "--out", tmp_path / "run")
    assert status == 0 and "resuming" in printed and "epoch   1/2" in printed
    assert same_weights(tmp_path / "run", trained[0], "model", "best")


def test_a_run_killed_before_its_first_save_can_be_resumed(
    call, train, trained, tmp_path, monkeypatch
):
    def killed(trainer):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "run_epoch", killed)
        status, _, error = train()
    assert status == 130 and error.startswith("nmtlib: interrupted") and error.count("\n") == 1
    assert call("train", "--resume", "--out", tmp_path / "run")[0] == 0
    assert same_weights(tmp_path / "run", trained[0])


@pytest.mark.slow
def test_resuming_a_finished_run_changes_no_weights(call, run):
    before = contents(run)
    status, printed, _ = call("train", "--resume", "--out", run)
    after = contents(run)
    assert status == 0 and after.keys() == before.keys()
    for name in RUN_FILES - {"log.txt", "model.safetensors", "curves.png"}:
        assert after[name] == before[name], name
    model, best = (weights(run / f"{name}.safetensors") for name in ("model", "best"))
    assert "average" in printed or all(torch.equal(model[name], best[name]) for name in best)
    assert "epoch 3" not in printed, "there are two epochs"


def test_a_resumed_run_translates_with_its_best_epoch_so_far(call, train, tmp_path, monkeypatch):
    # Epoch 1, a clean stop; resumed, epoch 2, better, killed: epoch 1's model must not be in use.
    run, run_epoch = tmp_path / "run", Trainer.run_epoch

    def stop_after(epochs, how):
        def patched(trainer):
            if trainer.progress.epoch == epochs:
                return how()
            return run_epoch(trainer)

        return patched

    def kill():
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "run_epoch", stop_after(1, lambda: False))
    assert train("--set", "epochs=3")[0] == 0
    monkeypatch.setattr(Trainer, "run_epoch", stop_after(2, kill))
    assert call("train", "--resume", "--out", run)[0] == 130
    history = read_history(run / "history.csv")
    assert len(history) == 2 and history[1].validation_nll < history[0].validation_nll
    used = dict(Translator.load(run, device="cpu").model.named_parameters())
    best = dict(load_model(run / "best.safetensors").named_parameters())
    assert all(torch.equal(used[name], best[name]) for name in best)


@pytest.mark.slow
def test_the_newest_run_is_resumed_whatever_its_folders_time_is(
    call, refused, preset, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("own", "own-2", "own-3"):
        assert str(Path("runs") / name) in call("train", "own.toml", "--minutes", 1e-9)[1]
    assert sorted(os.listdir("runs")) == ["own", "own-2", "own-3"]
    shutil.rmtree("runs/own-2")
    os.utime("runs/own", (2**32, 2**32))  # as after evaluating or copying it
    status, printed, told = call("train", "own.toml", "--resume", "--minutes", 1e-9)
    assert status == 0 and str(Path("runs/own-3")) in printed and "newest of 2" in told
    assert str(Path("runs/own-4")) in call("train", "own.toml", "--minutes", 1e-9)[1]
    assert str(Path("runs/own-4")) in call("train", "own.toml", "--resume")[1]
    line = refused("train", "toy-en-zh", "--resume", "--out", "runs/own")
    assert "not both" in line


def test_a_shipped_model_says_that_a_run_of_its_name_exists(call, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("translate", "toy-de-en", "der Hund schläft .")[2] == ""
    shutil.copytree(run, "runs/toy-de-en")
    told = call("translate", "toy-de-en", "der Hund schläft .")[2]
    assert "ships" in told and str(Path("runs/toy-de-en")) in told
    assert "ships" not in call("translate", "runs/toy-de-en", "der hund schläft .")[2]


# A start that fails leaves no folder that stands in the way of the next one


WRONG = """kind=words kind=given size=2 n_heads=3 norm=middle dropout=1.5 tied=all
training.max_tokens=3 training.max_length=1 device=nonsense decoding.beam=0"""


@pytest.mark.slow
def test_a_start_that_fails_leaves_nothing_behind(call, refused, preset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = contents(tmp_path)
    for assignment in WRONG.split():
        refused("train", preset, "--set", assignment)
        assert contents(tmp_path) == before, assignment
    status, printed, _ = call("train", preset, "--set", "epochs=1")
    assert status == 0 and os.listdir("runs") == ["own"], "the next try gets the first name"


@pytest.mark.parametrize("save_updates", [0, 1])
def test_a_diverged_training_says_so_and_gives_advice_that_can_be_followed(
    refused, preset, tmp_path, save_updates
):
    values = ["learning_rate=1e38", "grad_clip=1e38", "warmup=1", f"save_updates={save_updates}"]
    run = tmp_path / "run"
    line = refused("train", preset, "--out", run, *(f"--set={value}" for value in values))
    assert "learning_rate" in line and "loss" in line
    assert "resume" not in line, "only a new run can have another learning rate"
    for path in run.glob("*.safetensors"):
        assert all(tensor.isfinite().all() for tensor in weights(path).values()), path


def put_first(path: Path, words: int) -> None:
    """Put a pair of long sentences before the others of a file."""
    rest = path.read_text("utf-8")
    path.write_text(f"{'sehr ' * words}lang\t{'very ' * words}long\n{rest}", "utf-8")


def test_each_limit_is_named_with_what_it_left_out(train, trained, tmp_path):
    assert "training pairs" in trained[1] and "left out" not in trained[1]
    put_first(tmp_path / "train.tsv", 12)
    put_first(tmp_path / "validation.tsv", 30)
    status, printed, error = train("--set", "epochs=1", "--set", "training.max_length=10")
    assert (status, error) == (0, "") and (tmp_path / "run" / "samples.txt").is_file()
    assert re.search(r"10 tokens: 1 training|1 training[^,;]* 10 tokens", printed)
    assert re.search(r"validation.* 20\b|\b20 .*validation", printed), "the model's limit"


# Evaluating and translating


def test_evaluate_writes_what_it_prints(call, run, tmp_path):
    before = contents(run)
    status, printed, _ = call("evaluate", run, "--output", tmp_path / "result.json")
    assert status == 0 and "test: 10 sentences, beam 2" in printed
    result = json.loads((run / "test-beam2.json").read_text("utf-8"))
    assert result["scores"]["sentences"] == 10 and result["split"] == "test" and result["beam"] == 2
    assert f"BLEU {result['scores']['bleu']:.2f} ({result['scores']['signature']})" in printed
    assert (tmp_path / "result.json").read_bytes() == (run / "test-beam2.json").read_bytes()
    hypotheses = (run / "test-beam2.txt").read_text("utf-8").splitlines()
    sources = [source for source, _ in SPLITS["test"]]
    assert hypotheses == Translator.load(run, device="cpu").translate(sources)
    assert {name: data for name, data in contents(run).items() if name in before} == before


def test_a_result_tells_how_the_run_was_trained_even_while_it_trains(call, run):
    (run / "model.safetensors").unlink()  # a run that still trains can be evaluated
    assert call("evaluate", run)[::2] == (0, "")
    training = json.loads((run / "test-beam2.json").read_text("utf-8"))["training"]
    history = read_history(run / "history.csv")
    assert [training[k] for k in ("seed", "epochs", "updates")] == [1, 2, history[-1].updates]
    assert f"$ {training['command']}" == (run / "log.txt").read_text("utf-8").splitlines()[0]
    best = min(record.validation_perplexity for record in history)
    assert training["validation_perplexity"] <= best + 0.001
    (run / "log.txt").unlink()  # the weights know it too
    assert call("evaluate", run)[0] == 0
    assert json.loads((run / "test-beam2.json").read_text("utf-8"))["training"] == training


def typed(text):
    return io.TextIOWrapper(io.BytesIO(text.encode()))


def test_an_empty_sentence_is_not_taken_for_a_run(call):
    assert call("translate", "")[2] == "nmtlib: nothing to translate: the sentence is empty\n"


def test_one_file_of_a_run_translates_wherever_it_is(call, run, tmp_path):
    alone = tmp_path / "elsewhere" / "my model.safetensors"
    alone.parent.mkdir()
    shutil.copy(run / "model.safetensors", alone)
    expected = call("translate", run, "der hund")[1]
    shutil.rmtree(run)
    assert call("translate", alone, "der hund")[:2] == (0, expected)
    assert call("translate", "--model", alone, "der hund")[:2] == (0, expected)
    assert "needs the run folder" in call("evaluate", alone)[2]


def test_a_line_that_is_no_text_is_named_once(call, run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ein hund\n\xff\xff ein\n")))
    status, printed, error = call("translate", run)
    assert status == 1 and len(printed.splitlines()) == 2 and not printed.splitlines()[1]
    assert error.count("standard input, line 2: ") == 1


def test_translate_arguments_and_standard_input_alike(call, run, monkeypatch):
    sources = [source for source, _ in SPLITS["test"][:3]]
    sources.insert(1, "")
    expected = Translator.load(run, device="cpu").translate(sources)
    assert call("translate", run, *sources) == (0, "\n".join(expected) + "\n", "")
    monkeypatch.setattr(sys, "stdin", typed("\n".join(sources) + "\n"))
    assert call("translate", run) == (0, "\n".join(expected) + "\n", "")
    monkeypatch.setattr(sys, "stdin", typed(""))
    assert call("translate", run) == (0, "", "")
    greedy = Translator.load(run, device="cpu").translate(sources, beam=1)
    assert call("translate", run, *sources, "--beam", 1)[1] == "\n".join(greedy) + "\n"


def test_sentences_may_stand_behind_an_option(call, run, capsys):
    sentences = ["der hund läuft .", "die katze schläft .", "- das kind singt ."]
    expected = call("translate", run, *sentences[:2], "--beam", 1)[1]
    assert call("translate", run, "--beam", 1, *sentences[:2])[1] == expected
    assert call("translate")[0] == 1 and "nmtlib models" in call("translate")[2]
    assert call("translate", "--model", run, sentences[0], "--beam", 1, sentences[1])[1] == expected
    with_dash = call("translate", run, "--beam", 1, "--", *sentences)
    assert with_dash[0] == 0 and with_dash[1].startswith(expected)
    with pytest.raises(SystemExit):
        call("translate", run, "--beem", 1, *sentences)
    assert "unrecognized arguments: --beem" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        call("train", "toy-de-en", "--epochs", 3)
    assert "--set epochs=5" in capsys.readouterr().err


def test_a_line_that_cannot_be_translated_is_named_by_its_number(call, refused, run, monkeypatch):
    sentences = ["der hund läuft .", "die katze schläft .", "nie " * 30, "das kind singt ."]
    assert "sentence 3: " in refused("translate", run, *sentences)
    monkeypatch.setattr(sys, "stdin", typed("\n".join(sentences) + "\n"))
    status, printed, error = call("translate", run)
    assert status == 1 and "line 3: 30 tokens" in error and "line 1" not in error
    assert [bool(line) for line in printed.splitlines()] == [True, True, False, True]


def test_standard_input_in_utf16_is_named_once(call, run, monkeypatch):
    """What PowerShell 5 writes with `>`: no line of it is UTF-8, so no line is translated."""
    for encoding in ("utf-16-le", "utf-16-be"):
        data = "\ufeffder hund läuft .\r\n\r\ndie katze schläft .\r\n".encode(encoding)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        status, printed, error = call("translate", run)
        assert (status, printed) == (1, "")
        assert error.count("UTF-16, as its first two bytes say") == 1 and "iconv" in error


# Summary and data


def test_summary_alone_lists_the_presets_and_of_one_shows_its_settings(call):
    status, printed, _ = call("summary")
    head, *rows = printed.splitlines()
    assert status == 0 and head.split()[:3] == ["preset", "corpus", "parameters"]
    assert [row.split()[0] for row in rows] == presets()
    for name in presets():
        status, printed, told = call("summary", name)
        assert status == 0 and Settings().changed(json.loads(printed)) == load_settings(name)
        assert ("nmtlib summary" in told) == (SHIPPED / name).is_dir(), "the model may differ"


def test_summary_of_a_run_shows_settings_parameters_and_the_last_epoch(call, run):
    status, printed, _ = call("summary", run)
    data, end = json.JSONDecoder().raw_decode(printed)
    assert status == 0 and data == json.loads((run / "settings.json").read_text("utf-8"))
    table = {
        part: int(count.replace(",", ""))
        for part, count in re.findall(r"^(\S+) +([\d,]+)$", printed[end:], re.MULTILINE)
    }
    total, sizes = table.pop("total"), weights(run / "model.safetensors").values()
    assert total == sum(table.values()) == sum(t.numel() for t in sizes)
    assert printed.splitlines()[-1].startswith("epoch   2/2 ")
    set_anew(run / "model.safetensors", "training.epochs", 7)  # as of a run that has not finished
    assert call("summary", run)[1].splitlines()[-1].startswith("epoch   2/7 ")


def test_models_lists_what_ships_and_what_was_trained_here(call, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained[0], tmp_path / "runs" / "mine")
    shutil.copytree(trained[0], tmp_path / "runs" / "toy-de-en")  # the shipped one goes before it
    (tmp_path / "runs" / "begun").mkdir()
    shutil.copy(trained[0] / "settings.json", tmp_path / "runs" / "begun")
    rows = {line.split()[0]: line for line in call("models")[1].splitlines()[1:]}
    shipped = {"cmn-en-zh", "multi30k-de-en", "toy-de-en", "toy-en-zh"}
    hidden = str(Path("runs", "toy-de-en"))
    assert set(rows) == shipped | {"begun", "mine", hidden}
    assert "cannot be loaded" not in rows[hidden] and rows[hidden].endswith(hidden)
    assert rows["toy-en-zh"].split()[1:3] == ["en-zh", "toy-en-zh"]
    assert rows["toy-de-en"].endswith(" nmtlib") and "cannot be loaded" in rows["begun"]
    by_name, by_path = (
        call("translate", run, "der Hund schläft .") for run in ("mine", trained[0])
    )
    assert by_name == by_path and by_name[0] == 0
    assert call("translate", "nowhere", "x")[2].count("mine") == 1


def test_a_folder_of_a_models_name_does_not_hide_the_model(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("export", "toy-de-en", "--to", "safetensors")[0] == 0
    assert (tmp_path / "toy-de-en-safetensors" / "model.safetensors").is_file()
    (tmp_path / "toy-de-en").mkdir()
    assert call("translate", "--model", "toy-de-en", "der Hund schläft .")[0] == 0


def test_an_output_that_cannot_be_written_is_refused_before_the_work(call, run, tmp_path):
    (tmp_path / "file").write_text("mine", "utf-8")
    for place, said in ((tmp_path, "is a folder"), (tmp_path / "file" / "x.json", "is a file")):
        status, printed, complaint = call("evaluate", run, "--output", place)
        assert (status, printed) == (1, "") and str(place) in complaint and said in complaint
        assert "--resume" not in complaint, "a word on training"


def test_each_measurement_keeps_its_own_record(call, run):
    more = [[], ["--neighbours", 2], ["--neighbours", 2, "--neighbour-weight", 0.5]]
    more += [["--beam", 1, "--length-penalty", penalty] for penalty in (0.12345671, 0.12345674)]
    for options in (*more, ["--split", "validation"]):
        before = contents(run)
        assert call("evaluate", run, *options)[0] == 0
        after = contents(run)
        assert {name: after[name] for name in before} == before, f"{options} overwrote a result"
        assert len(after) > len(before)


def test_scores_do_not_take_the_place_of_something_else(call, refused, run, tmp_path):
    settings = (run / "settings.json").read_bytes()
    assert "no file of scores" in refused("evaluate", run, "--output", run / "settings.json")
    assert (run / "settings.json").read_bytes() == settings
    place, link = tmp_path / "scores.json", tmp_path / "link.json"
    link.symlink_to(place)
    for _ in range(2):
        assert call("evaluate", run, "--output", link)[0] == 0
    assert link.is_symlink() and "scores" in json.loads(place.read_text("utf-8"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_what_is_written_to_a_pipe_arrives(tmp_path):
    pipe, seen = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: seen.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, "all of it")
    reader.join(NO_PROGRESS)
    assert seen == [b"all of it"]


def test_the_models_of_real_languages_translate_right_after_the_installation(call):
    german = ["Zwei Hunde spielen im Schnee.", "Ein Mann fährt Fahrrad."]
    status, said, _ = call("translate", "--model", "multi30k-de-en", *german)
    dogs, bike = said.splitlines()
    assert status == 0 and "two dogs" in dogs and "snow" in dogs and "bike" in bike
    status, said, _ = call("translate", "--model", "cmn-en-zh", "he is reading a book .")
    assert status == 0 and "他" in said and "书" in said


def test_a_shipped_model_is_scored_and_left_as_it_is(call, tmp_path, monkeypatch):
    toy, scores = load_corpus("toy-de-en"), tmp_path / "scores.json"
    few = replace(toy, test=toy.test[:5], train=toy.train[:5])
    monkeypatch.setattr("nmtcourse.corpora.load_corpus", lambda settings: few)
    before = sorted(SHIPPED.rglob("*"))
    assert call("evaluate", "toy-de-en", "--beam", "1", "--output", scores)[0] == 0
    assert scores.is_file() and sorted(SHIPPED.rglob("*")) == before
    monkeypatch.chdir(SHIPPED)  # the same by a path that is not the package's own
    assert call("evaluate", "./toy-de-en", "--beam", "1")[0] == 0
    assert sorted(SHIPPED.rglob("*")) == before


@pytest.mark.slow
def test_data_lists_the_corpora_and_checks_one(call, tmp_path, monkeypatch):
    monkeypatch.setenv("NMTLIB_DATA", str(tmp_path / "cache"))
    status, printed, _ = call("data", "list")
    assert status == 0
    assert [line.split()[0] for line in printed.splitlines()[1:]][: len(names())] == names()
    status, printed, _ = call("data", "check", "toy-de-en")
    assert status == 0 and "train" in printed and not (tmp_path / "cache").exists()
    status, printed, _ = call("data", "check", "multi30k-de-en")
    assert status == 1 and "missing" in printed and "nmtlib data fetch multi30k-de-en" in printed


# Bad input


BAD = """
train | preset
train missing.toml | missing.toml
train own.toml --set epochs | key=value
train own.toml --set epochs=0 | greater than or equal to 1
train own.toml --set name=toy-de-em | also gives files
train own.toml --set train=[] | train
train own.toml --set source_language='' | source_language
train own.toml --set train=['missing.tsv'] | missing.tsv
train own.toml --set kind=spacy --set source_language=qq | qq
train own.toml --set test=[] --evaluate | test
train own.toml --minutes=-1 | minutes
train own.toml --minutes nan | minutes
train own.toml --resume | no run
train --resume --out nowhere | not a run folder
train --resume | --out
train --resume --out run --set epochs=5 | --set
evaluate missing | not a run folder
evaluate run --split challenge | challenge
evaluate run --beam 0 | beam
evaluate run --length-penalty nan | penalty
translate run a --beam 0 | beam
data check | name
data fetch | name
data check toy-de-em | toy-de-en
summary missing | missing
"""


def test_bad_input_is_answered_in_one_line(refused, run, preset, tmp_path, monkeypatch):
    """Of the more than a thousand in tests/reliability, those that each command checks itself."""
    monkeypatch.chdir(tmp_path)
    before = contents(tmp_path)
    for line in BAD.strip().splitlines():
        arguments, _, expected = line.rpartition(" | ")
        assert expected in refused(*arguments.split()), line
        assert contents(tmp_path) == before, line


def test_a_damaged_run_is_answered_in_one_line_with_the_file(refused, run):
    for name, content in (
        ("model.safetensors", b"weights"),
        ("history.csv", b"epoch,colour\n1,red\n"),
    ):
        kept = (run / name).read_bytes()
        (run / name).write_bytes(content)
        commands = ["summary"] if name == "history.csv" else ["evaluate", "translate", "summary"]
        for command in commands:
            more = ["der hund"] if command == "translate" else []
            assert name in refused(command, run, *more)
        (run / name).write_bytes(kept)
    for name in ("model", "best"):
        (run / f"{name}.safetensors").unlink()
    assert "no weights yet" in refused("evaluate", run)


def test_every_command_has_help(capsys):
    for command in COMMANDS:
        with pytest.raises(SystemExit) as left:
            cli.main([command, "--help"])
        assert left.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: nmtlib {command}")


def test_alone_it_welcomes_with_commands_that_it_knows(call):
    status, printed, _ = call()
    assert status == 0 and printed == f"{WELCOME}\n"
    lines = re.findall(r"^ +(nmtlib .*?)(?:  |$)", printed, re.MULTILINE)
    assert len(lines) == 3 and lines.pop() == "nmtlib --help"
    for line in [*lines, *(line for _, line in GROUPS.values())]:
        cli.build_parser().parse_args(shlex.split(line)[1:])  # exits where it knows no such thing


def test_help_has_each_command_once_in_a_group_and_the_version_is_that_of_the_project(capsys):
    shown = {}
    for flag in ("--help", "--version"):
        with pytest.raises(SystemExit):
            cli.main([flag])
        shown[flag] = capsys.readouterr().out
    listed = re.findall(r"^  ([a-z]+) ", shown["--help"], re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert shown["--version"] == f"nmtlib {project['version']}\n"


def test_a_command_that_does_not_exist_shows_the_usage(capsys):
    wrong = ("trian", "data", "data delete", "evaluate", "backtranslate x")
    for arguments in (*wrong, "train x --beam"):
        with pytest.raises(SystemExit) as left:
            cli.main(arguments.split())
        assert left.value.code == 2 and capsys.readouterr().err.startswith("usage: nmtlib")


@pytest.mark.parametrize(
    "typed, meant",
    [("trian toy-de-en", "train"), ("homework chek x", "check"), ("data fecth x", "fetch")],
)
def test_a_command_that_is_spelled_wrongly_is_told_the_closest_one(typed, meant, capsys):
    with pytest.raises(SystemExit):
        cli.main(typed.split())
    assert capsys.readouterr().err.endswith(f"(did you mean {meant}?)\n")


def test_the_explorer_without_a_run_names_the_models(refused):
    told = refused("explore")
    assert "nmtlib explore cmn-en-zh" in told and "toy-de-en" in told


def test_a_sentence_alone_is_translated_by_the_shipped_model_that_knows_its_words(call, refused):
    status, printed, told = call("translate", "I love you.")
    assert (status, printed) == (0, "我爱你。\n")
    assert "the model is cmn-en-zh (en-zh); name another one with --model" in told
    status, printed, told = call("translate", "Ein Mann liest ein Buch.", "Ein Hund spielt.")
    assert status == 0 and printed.count("\n") == 2 and "multi30k-de-en (de-en)" in told
    told = refused("translate", "Dobrý den, jak se máte?")
    assert "cmn-en-zh (en-zh), multi30k-de-en (de-en); name one with --model" in told
    word = refused("translate", "nowhere")
    assert "nmtlib train" in word, "one word is the name of a run"
    assert "nmtlib translate --model NAME nowhere" in word


def test_chinese_is_printed_without_spaces_and_other_languages_as_they_are(call):
    assert call("translate", "toy-en-zh", "is the meat fresh ?")[1] == "肉新鲜吗？\n"
    assert core.as_written("我 欠 她 10 美元 。", "zh") == "我欠她10美元。"
    assert core.as_written("IBM PC 机 , the end", "zh") == "IBM PC机, the end"
    assert core.as_written("the dog sleeps .", "en") == "the dog sleeps ."


def test_other_packages_add_commands_and_a_broken_one_is_told(call, monkeypatch):
    def add(commands):
        commands.add_parser("hello").set_defaults(run=lambda options: print("hello"))

    def broken():
        raise ImportError("no such thing")

    entries = [
        SimpleNamespace(value="broken:add", load=broken),
        SimpleNamespace(value="hello:add", load=lambda: add),
    ]
    monkeypatch.setattr(cli, "entry_points", lambda group: entries * (group == "nmtlib.plugins"))
    status, printed, told = call("hello")
    assert (status, printed) == (0, "hello\n")
    assert told == "nmtlib: broken:add adds no command: ImportError: no such thing\n"


def test_the_core_alone_has_its_own_commands(preset, run, tmp_path, capsys):
    assert core.main(["train", preset, "--out", str(tmp_path / "new")]) == 0
    with pytest.raises(SystemExit):
        core.main(["export", str(run), "--to", "safetensors"])
    told = capsys.readouterr().err.replace("'", "")
    assert "(choose from train, evaluate, translate)" in told
    with pytest.raises(SystemExit):
        core.main(["trian"])
    told = capsys.readouterr().err
    assert told.endswith("argument COMMAND: invalid choice: 'trian' (did you mean train?)\n")
    with pytest.raises(SystemExit):
        core.main(["evaluate"])
    told = capsys.readouterr().err
    assert "required: RUN\n  RUN: a run folder, or the name of a model" in told
    assert core.main(["evaluate", str(run)]) == 0
    assert core.main(["translate", str(run), "der hund läuft ."]) == 0
    with pytest.raises(SystemExit):
        core.main(["evaluate", str(run), "--moses"])


def test_the_debug_switch_shows_where_an_error_was_raised(call, monkeypatch):
    monkeypatch.setenv("NMTLIB_DEBUG", "1")
    status, _, error = call("train", "nonsense")
    assert status == 1 and "Traceback" in error and "load_settings" in error
    assert error.splitlines()[-1].startswith("nmtlib: unknown preset")


def test_scores_are_written_where_asked_also_if_the_run_cannot_hold_them(
    call, run, tmp_path, monkeypatch
):
    def refuse(path, data):
        if Path(path).parent == run:
            raise OSError(30, "read-only")
        Path(path).write_text(data, "utf-8")

    monkeypatch.setattr("nmtlib.cli.write_atomically", refuse)
    status, printed, error = call("evaluate", run, "--output", tmp_path / "scores.json")
    assert status == 0 and "BLEU" in printed and "only" in error
    assert json.loads((tmp_path / "scores.json").read_text("utf-8"))["scores"]["sentences"] == 10
    assert call("evaluate", run)[0] == 1, "nowhere to write is an error"


def test_lines_of_a_pipe_are_translated_together_and_in_order(call, run, monkeypatch):
    sentences = [german for german, _ in SPLITS["train"]] * 5
    together, real = [], Translator.search

    def search(self, given, **options):
        together.append(len(given))
        return real(self, given, **options)

    monkeypatch.setattr(Translator, "search", search)
    monkeypatch.setattr(sys, "stdin", typed("\n".join(sentences) + "\n"))
    status, printed, _ = call("translate", run)
    assert status == 0 and together == [len(sentences)]
    monkeypatch.undo()
    assert printed.splitlines() == Translator.load(run).translate(sentences)


def test_what_a_stranger_named_does_not_reach_the_terminal_raw(call, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "own\x1b]0;pwn\x07\u202e"
    shutil.copytree(run, tmp_path / "runs" / name)
    Path("a\x1b[2J.tsv").write_text("a\tb\nc\td\n")
    commands = (["models"], ["data", "check", "a\x1b[2J.tsv"], ["evaluate", f"no\x1b[2J{name}"])
    for command in commands:
        _, printed, told = call(*command)
        assert "\\x1b" in printed + told
        assert not {*"\x1b\x07\u202e"} & {*(printed + told)}, command


def test_each_line_of_an_open_pipe_is_answered_at_once(call, run, monkeypatch):
    lines, answered = [b"der hund singt .\n", b"die frau singt .\n", b""], []

    class Pipe(io.RawIOBase):
        readable = staticmethod(lambda: True)

        def readinto(self, buffer):
            assert len(answered) == 2 - (len(lines) - 1), "it waits for more before it answers"
            line = lines.pop(0)
            buffer[: len(line)] = line
            return len(line)

    real = Translator.search
    monkeypatch.setattr(Translator, "search", lambda *a, **k: answered.append(a) or real(*a, **k))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Pipe())))
    assert len(call("translate", run)[1].splitlines()) == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_history_that_is_a_pipe_is_not_waited_for(refused, run):
    (path := run / "history.csv").unlink()
    os.mkfifo(path)
    threading.Thread(target=lambda: open(path, "w").close(), daemon=True).start()  # ends a wait
    assert "no history" in refused("summary", run)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_the_rights_of_a_file_survive_that_it_is_written_again(tmp_path):
    path = tmp_path / "private"
    path.write_text("old")
    path.chmod(0o600)
    write_atomically(path, "new")
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o600


def test_a_current_folder_that_was_deleted_is_told(tmp_path):
    (tmp_path / "gone").mkdir()
    code = "import os; os.rmdir(os.getcwd()); from nmtcourse.main import main; main(['models'])"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    how = {"cwd": tmp_path / "gone", "capture_output": True, "text": True, "env": env}
    done = subprocess.run([sys.executable, "-c", code], **how)
    assert done.stderr == "nmtlib: the current folder has been deleted; change to another one\n"
