"""What a training and an evaluation say about their corpus, and other answers to a text."""

import json
import sys
from importlib import import_module

import pytest
from broken_corpora import Own, run, toy

from nmtcourse.corpora import load_corpus as load
from nmtcourse.doctor.remarks import after_evaluation, before_training
from nmtcourse.recipes.backtranslation import Search, backtranslate
from nmtlib.data.codec import build_codecs
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.inference.translator import Translator
from nmtlib.run import Run
from nmtlib.settings import Settings
from nmtlib.training.history import read_history

TINY = ("d_model=16", "n_heads=2", "n_encoder_layers=1", "n_decoder_layers=1", "d_ff=32")
TINY_RUN = [word for value in (*TINY, "epochs=1") for word in ("--set", value)]


@pytest.fixture(scope="module")
def translator():
    return Translator.load("toy-de-en")


def corpus(**splits):
    given = {name: [Pair(*sides) for sides in rows] for name, rows in splits.items()}
    return Corpus("own", "de", "en", **given)


def test_a_named_corpus_needs_no_diagnosis(monkeypatch):
    """Training on a published corpus imports only the remarks, not the doctor behind them."""
    for name in [name for name in sys.modules if name.startswith("nmtcourse.doctor")]:
        monkeypatch.delitem(sys.modules, name)
    remarks = import_module("nmtcourse.doctor.remarks")
    settings = Settings().changed({"corpus": {"name": "toy-de-en"}})
    assert remarks.before_training(settings, corpus(), ()) == []
    assert "nmtcourse.doctor.diagnosis" not in sys.modules


def test_a_training_says_in_two_lines_what_is_wrong():
    rows = toy()
    rows["validation"] = rows["train"][:100]
    rows["test"] = [(b, a) for a, b in rows["test"]]
    broken = corpus(**rows)
    first, second = before_training(Settings(), broken, build_codecs(broken, "whitespace"))
    assert first.startswith("the corpus has problems: ") and "data check" in second
    assert "validation: 100 the source is also in train" in first
    assert "source and target look exchanged" in first


@pytest.mark.slow
def test_a_run_is_told_of_its_corpus_and_at_its_end_how_to_train_on(tmp_path):
    own = Own(tmp_path, toy(train=200, validation=20, test=20))
    own.splits["validation"] = own.splits["train"][:20]
    own.splits["train"] += [(a.upper(), b) for a, b in own.splits["test"][:15]]
    status, text = run("train", own.write(), "--out", tmp_path / "run", *TINY_RUN)
    assert status == 0 and text.count("the corpus has problems: ") == 1
    assert text.index("the corpus has problems") < text.index("  loss ")
    assert "the corpus has problems" in (tmp_path / "run" / "log.txt").read_text("utf-8")
    status, text = run("evaluate", tmp_path / "run", "--beam", 1)
    assert status == 0 and "without the 15 pairs whose source is in the training data" in text
    status, text = run("train", "--resume", "--out", tmp_path / "run")
    assert status == 0 and "all epochs are trained" in text
    assert f"training.init_from={tmp_path / 'run'}" in text


def test_an_evaluation_scores_without_sources_that_were_trained_on(translator):
    rows = toy()
    rows["train"] += [(a.upper(), b) for a, b in rows["test"][:40]]
    leaking = corpus(**rows)
    hypotheses = ["wrong"] * 40 + [pair.target for pair in leaking.test[40:]]
    (line,) = after_evaluation(translator, leaking, "test", hypotheses)
    assert "without the 40 pairs" in line and "BLEU 100.00" in line


def test_a_back_translation_goes_on_from_no_impossible_place(translator, tmp_path):
    out, notes = tmp_path / "pairs.tsv", tmp_path / "pairs.tsv.json"
    sentences = ["der Hund schläft .", "die Katze schläft ."]
    backtranslate(translator, sentences, out, Search(), report=str)
    before, data = out.read_bytes(), json.loads(notes.read_text("utf-8"))
    impossible = {"sentences": (-5, 99, True), "bytes": (1, 1.5, float("inf")), "lines": (99,)}
    for key, value in ((key, value) for key, values in impossible.items() for value in values):
        notes.write_text(json.dumps(data | {"done": data["done"] | {key: value}}), "utf-8")
        with pytest.raises(ValueError, match="damaged; remove it|holds others; remove both"):
            backtranslate(translator, sentences, out, Search(), report=str)
        assert out.read_bytes() == before


@pytest.mark.slow
def test_a_moved_corpus_resumes_where_it_is_now_and_nothing_else(tmp_path):
    own = Own(tmp_path / "before", toy(train=200, validation=20, test=20))
    own.folder.mkdir()
    run("train", own.write(), "--out", tmp_path / "run", *TINY_RUN[:-1], "epochs=2")
    own.folder.rename(tmp_path / "now")
    resume = ("train", "--resume", "--out", tmp_path / "run")
    status, text = run(*resume)
    assert status == 1 and "if it was moved, say where it is: --resume --set 'corpus.train" in text
    places = {s: [str(tmp_path / "now" / f"{s}.{e}") for e in "ab"] for s in own.splits}
    moved = [x for split, files in places.items() for x in ("--set", f"corpus.{split}={files}")]
    status, text = run(*resume, *moved, "--set", "training.learning_rate=1e-5")
    assert status == 1 and f"training.init_from={tmp_path / 'run'}" in text
    status, text = run(*resume, *moved)
    assert status == 0 and "all epochs are trained" in text
    assert run("evaluate", tmp_path / "run", "--beam", 1)[0] == 0, "the run knows the new place"
    (tmp_path / "now" / "train.a").write_text("andere Hunde .\n" * 200)
    status, text = run(*resume, *moved)
    assert status == 1 and "corpus" in text


@pytest.mark.slow
def test_a_moved_run_with_epochs_left_trains_to_its_end(tmp_path):
    own = Own(tmp_path / "before", toy(train=200, validation=20, test=20))
    own.folder.mkdir()
    settings = own.write()
    arguments = [*TINY_RUN[:-1], "epochs=3"]
    run("train", settings, "--out", tmp_path / "whole", *arguments)
    run("train", settings, "--out", tmp_path / "run", *arguments, "--minutes", "1e-9")
    assert not Run(tmp_path / "run").history_file.is_file(), "it was stopped in its first epoch"
    own.folder.rename(tmp_path / "now")
    places = {s: [str(tmp_path / "now" / f"{s}.{e}") for e in "ab"] for s in own.splits}
    moved = [x for split, files in places.items() for x in ("--set", f"corpus.{split}={files}")]
    status, text = run("train", "--resume", "--out", tmp_path / "run", *moved)
    assert status == 0 and "no such text file" not in text
    histories = [read_history(Run(tmp_path / name).history_file) for name in ("whole", "run")]
    losses = [[record.validation_nll for record in history] for history in histories]
    assert len(losses[1]) == 3 and losses[0] == losses[1]
    assert run("evaluate", tmp_path / "run", "--beam", 1)[0] == 0


def test_few_different_translations_are_counted(translator):
    found = load("toy-de-en")
    pairs = found.test[:40]
    short = Corpus("own", "de", "en", train=found.train[:50], validation=pairs, test=pairs)
    (told,) = after_evaluation(translator, short, "test", ["the cat sleeps ."] * 40)
    assert "only 1 of 40 translations are different" in told


def test_a_path_with_backslashes_gets_its_cure(tmp_path):
    for path in (r"C:\Users\me\train.de", r"..\tsv\train.tsv"):  # no TOML, and no such file
        rows = 'source_language = "de"\ntarget_language = "en"\nvalidation = ["x.tsv"]'
        (tmp_path / "own.toml").write_text(f'[corpus]\n{rows}\ntrain = ["{path}"]\n')
        status, text = run("train", tmp_path / "own.toml", "--out", tmp_path / "run")
        assert status == 1 and ("with / or" in text or "write / or" in text)
