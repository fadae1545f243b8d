"""What a training and an evaluation say about their corpus, and other answers to a text."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from broken_corpora import Own, run, toy

from nmtcourse.doctor.remarks import after_evaluation, before_training, unreadable
from nmtcourse.recipes.backtranslation import Search, backtranslate
from nmtlib.data.codec import build_codecs
from nmtlib.data.corpora import load
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.inference.translator import Translator
from nmtlib.presets import load_settings
from nmtlib.settings import Settings

TINY = ("d_model=16", "n_heads=2", "n_encoder_layers=1", "n_decoder_layers=1", "d_ff=32")
TINY_RUN = [word for value in (*TINY, "epochs=1") for word in ("--set", value)]


@pytest.fixture(scope="module")
def translator():
    return Translator.load("toy-de-en")


def corpus(**splits):
    given = {name: [Pair(*sides) for sides in rows] for name, rows in splits.items()}
    return Corpus("own", "de", "en", **given)


def remark(found, **training):
    settings = Settings()
    settings = replace(settings, training=replace(settings.training, **training))
    return before_training(settings, found, build_codecs(found, "whitespace"))


def test_a_training_says_nothing_about_a_sound_corpus():
    assert remark(corpus(**toy())) == []


def test_a_training_says_in_two_lines_what_is_wrong():
    rows = toy()
    rows["validation"] = rows["train"][:100]
    rows["test"] = [(b, a) for a, b in rows["test"]]
    first, second = remark(corpus(**rows))
    assert first.startswith("the corpus has problems: ") and "data check" in second
    assert "validation: 100 the source is also in train" in first
    assert "source and target look exchanged" in first


def test_a_corpus_of_the_course_is_not_looked_at_again():
    settings = load_settings("toy-de-en")
    broken = corpus(**(toy() | {"test": [("", "")] * 9}))
    assert before_training(settings, broken, build_codecs(broken, "whitespace")) == []


def test_a_training_prints_the_remarks_and_writes_them_into_its_log(tmp_path):
    own = Own(tmp_path, toy(train=200, validation=20, test=20))
    own.splits["validation"] = own.splits["train"][:20]
    status, text = run("train", own.write(), "--out", tmp_path / "run", *TINY_RUN)
    assert status == 0 and text.count("the corpus has problems: ") == 1
    assert text.index("the corpus has problems") < text.index("  loss ")
    assert "the corpus has problems" in (tmp_path / "run" / "log.txt").read_text("utf-8")


def test_fine_tuning_counts_what_the_vocabularies_lack(translator):
    rows = toy(train=50)
    rows["train"][0] = ("der Drache schläft .", "the dragon sleeps .")
    codecs = translator.source, translator.target
    settings = Settings()
    settings = replace(settings, training=replace(settings.training, init_from="toy-de-en"))
    said = before_training(settings, corpus(**rows), codecs)
    assert "1 of 50 source sentences" in said[0] and "cannot read: Drache" in said[0]
    assert "1 of 50 target sentences" in said[1] and "cannot write: dragon" in said[1]


def test_characters_that_a_subword_model_lacks_are_listed():
    rows = corpus(train=[("我 喜欢 猫", "I like cats")] * 20, test=[("我 喜歡 貓", "I like cats")])
    codecs = build_codecs(rows, "bpe", size=40)
    (said,) = unreadable(codecs, rows, "test", 0)
    assert "1 of 1 source sentences" in said and "歡" in said and "貓" in said and "我" not in said


def test_an_evaluation_of_a_sound_corpus_has_nothing_to_add(translator):
    found = load("toy-de-en")
    assert after_evaluation(translator, found, "test", [p.target for p in found.test]) == []


def test_an_evaluation_scores_without_sources_that_were_trained_on(translator):
    rows = toy()
    rows["train"] += [(a.upper(), b) for a, b in rows["test"][:40]]
    found = corpus(**rows)
    hypotheses = ["wrong"] * 40 + [pair.target for pair in found.test[40:]]
    (said,) = after_evaluation(translator, found, "test", hypotheses)
    assert "without the 40 pairs" in said and "BLEU 100.00" in said


def test_an_evaluation_says_when_bleu_tells_nothing(translator):
    rows = toy() | {"test": [("die Katze", "the cat"), ("der Hund", "the dog")]}
    assert (
        "BLEU is 0 by definition"
        in after_evaluation(translator, corpus(**rows), "test", ["the cat", "the dog"])[-1]
    )
    unspaced = corpus(**(toy() | {"test": [("die Katze schläft .", "那只猫正在睡觉。")] * 9}))
    said = after_evaluation(translator, unspaced, "test", ["那只猫"] * 9)
    assert any("references hardly have spaces" in line for line in said)
    assert any("cannot write" in line for line in said)


def test_evaluate_prints_the_remarks(tmp_path):
    own = Own(tmp_path, toy(train=200, validation=20, test=20))
    own.splits["train"] += [(a.upper(), b) for a, b in own.splits["test"][:15]]
    run("train", own.write(), "--out", tmp_path / "run", *TINY_RUN)
    status, text = run("evaluate", tmp_path / "run", "--beam", 1)
    assert status == 0 and "without the 15 pairs whose source is in the training data" in text


def test_marks_of_other_tools_are_joined_before_printing_and_scoring(tmp_path):
    rows = [(a, " ".join("@@ ".join(word) for word in b.split())) for a, b in toy()["train"][:200]]
    found = corpus(train=rows, validation=rows[:5])
    target = build_codecs(found, "whitespace")[1]
    assert target.decode(target.encode("d@@ o@@ g s@@ l@@ e@@ e@@ p@@ s .")) == "dog sleeps ."


def test_a_file_in_place_of_a_sentence_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.de").write_text("der Hund schläft .\n", "utf-8")
    status, text = run("translate", "toy-de-en", "test.de")
    assert status == 0 and "nmtlib translate toy-de-en < test.de" in text
    assert "is also a file" not in run("translate", "toy-de-en", "der Hund schläft .")[1]


def test_a_finished_run_says_how_to_train_on(tmp_path):
    own = Own(tmp_path, toy(train=200, validation=20, test=20))
    run("train", own.write(), "--out", tmp_path / "run", *TINY_RUN)
    status, text = run("train", "--resume", "--out", tmp_path / "run")
    assert status == 0 and "all epochs are trained" in text
    assert f"training.init_from={tmp_path / 'run'}" in text


@pytest.mark.parametrize(
    "done",
    [
        {"sentences": -5},
        {"bytes": 1},
        {"lines": 99},
        {"sentences": 99},
        {"bytes": float("inf")},
        {"bytes": 1.5},
        {"sentences": True},
    ],
)
def test_a_back_translation_goes_on_from_no_impossible_place(translator, tmp_path, done):
    out, notes = tmp_path / "pairs.tsv", tmp_path / "pairs.tsv.json"
    sentences = ["der Hund schläft .", "die Katze schläft ."]
    backtranslate(translator, sentences, out, Search(), report=str)
    before = out.read_bytes()
    data = json.loads(notes.read_text("utf-8"))
    notes.write_text(json.dumps(data | {"done": data["done"] | done}), "utf-8")
    with pytest.raises(ValueError, match="damaged; remove it|holds others; remove both"):
        backtranslate(translator, sentences, out, Search(), report=str)
    assert out.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize(("closed", "status"), [(1, 1), (2, 0)])
def test_a_closed_stream_is_no_traceback(closed, status, tmp_path):
    stream = (tmp_path / "out").open("w")
    done = subprocess.run(
        [sys.executable, "-m", "nmtlib", "data", "list"],
        **{"stdout": stream, "stderr": stream},
        preexec_fn=lambda: os.close(closed),
    )
    text = (tmp_path / "out").read_text("utf-8")
    assert done.returncode == status and "Traceback" not in text
    assert ("standard output is closed" if closed == 1 else "toy-de-en") in text
