"""Settings that follow the text: they fit any size and leave alone what a reader has set."""

import re
import tomllib

import pytest
from broken_corpora import Own, run, toy
from nightly import some

from nmtcourse.corpora import load_corpus
from nmtcourse.recipes import own_text
from nmtcourse.recipes.own_text import (
    choose,
    expected_bleu,
    keys_of,
    measured,
    plan_for,
    power_of_two,
    what_to_expect,
)
from nmtcourse.recipes.poor import kind_of, repeats
from nmtlib.data.corpus import Pair
from nmtlib.presets import load_settings
from nmtlib.settings import Settings
from nmtlib.training.history import read_history

TINY = ("d_model=16", "n_heads=2", "n_encoder_layers=1", "n_decoder_layers=1", "d_ff=32")
TINY_RUN = [word for value in TINY for word in ("--set", value)]


@pytest.mark.parametrize("count", some([40, 500, 2_000, 8_000], 2))
@pytest.mark.parametrize("name", ["toy-de-en", "toy-en-zh"])
def test_a_plan_has_enough_updates_and_a_short_warm_up(name, count):
    pairs = load_corpus(name).train[:count]
    plan = plan_for(pairs)
    settings = Settings().changed(plan.sections())
    training = settings.training
    updates = plan.tokens * training.epochs / training.max_tokens
    if count >= 500:
        assert 1_000 < updates < 5_000
    assert training.warmup <= max(1, 0.13 * updates)
    assert training.max_tokens > training.max_length == settings.model.max_length
    assert settings.tokenizer.joint and settings.model.tied == "all"


@pytest.mark.slow
def test_more_text_is_read_less_often_and_dropped_less():
    pairs = load_corpus("toy-de-en").train
    plans = [plan_for(pairs[:2_000], count).sections() for count in (500, 5_000, 50_000, 500_000)]
    epochs = [plan["training"]["epochs"] for plan in plans]
    dropout = [plan["model"]["dropout"] for plan in plans]
    assert epochs == sorted(epochs, reverse=True) and dropout == sorted(dropout, reverse=True)


def test_a_text_of_many_characters_and_one_of_long_sentences_have_a_plan():
    many = [Pair(f"{chr(0x4E00 + n)} {n}", f"x {n}") for n in range(6_000)]
    assert plan_for(many).sections()["tokenizer"]["size"] > 6_000
    long = [Pair("ein Hund läuft . " * 60, "a dog runs . " * 60)] * 100
    sections = plan_for(long).sections()
    assert sections["training"]["max_tokens"] > sections["model"]["max_length"] > 240


def test_the_copy_has_its_settings_with_a_reason_each(tmp_path):
    own = Own(tmp_path, toy(train=600))
    run("data", "check", own.write(), "--fix", tmp_path / "clean")
    text = (tmp_path / "clean" / "own.toml").read_text("utf-8")
    values = [line for line in text.splitlines() if " = " in line and "[" not in line]
    assert all("#" in line for line in values if "language" not in line)
    plan = plan_for(load_corpus(load_settings(tmp_path / "clean" / "own.toml").corpus).train)
    written = tomllib.loads(text)
    assert {name: written[name] for name in plan.sections()} == plan.sections()


@pytest.mark.slow
def test_what_is_set_stays_and_the_rest_follows_the_text(tmp_path):
    own = Own(tmp_path, toy(train=300, validation=40, test=40), tokenizer="lowercase = false")
    path = own.write()
    path.write_text(path.read_text() + "[training]\nepochs = 1\nwarmup = 7\n", "utf-8")
    assert keys_of(path, ["d_ff=32"]) >= {"training.epochs", "tokenizer.lowercase", "model.d_ff"}
    status, text = run("train", path, "--out", tmp_path / "run", *TINY_RUN)
    assert status == 0 and "settings that follow your text" in text
    settings = load_settings_of(tmp_path / "run")
    assert (settings.training.epochs, settings.training.warmup) == (1, 7)
    assert settings.model.d_model == 16 and not settings.tokenizer.lowercase
    assert settings.training.max_tokens == 256, "as a small text needs"
    said = re.search(r"300 pairs: ([\d,]+) updates in 1 epoch, warm-up 7, about 1 min", text)
    history = read_history(tmp_path / "run" / "history.csv")
    assert said and int(said[1]) == history[-1].updates
    assert f"nmtlib translate {tmp_path / 'run'}" in text
    assert f"nmtlib evaluate {tmp_path / 'run'}" in text


def load_settings_of(folder):
    return Settings.load(folder / "settings.json")


@pytest.mark.slow
def test_a_warm_up_of_half_the_training_is_told(tmp_path):
    own = Own(tmp_path, toy(train=200, validation=20, test=20))
    path = own.write()
    path.write_text(path.read_text() + "[training]\nepochs = 1\nwarmup = 400\n", "utf-8")
    assert (
        "half of the training or more" in run("train", path, "--out", tmp_path / "r", *TINY_RUN)[1]
    )
    status, text = run("translate", tmp_path / "r", "der Hund schläft .", "")
    assert status == 0 and "updates, and some thousand are usual" in text


def test_a_poor_translation_is_told_from_a_good_one():
    for translation, kind in [
        ("", "is empty"),
        ("the the the the", "repeats itself"),
        ("a dog and a dog and a dog and a dog and", "repeats itself"),
        ("我我我我", "repeats itself"),
        ("Der Hund schläft", "is a copy of it"),
        ("the dog sleeps .", ""),
        ("no , no , no !", ""),
    ]:
        assert kind_of("der Hund schläft .", translation) == kind, translation
    assert kind_of("", "") == kind_of("Bill Gates", "Bill Gates") == ""
    assert not repeats("ha ha ha") and repeats("ha ha ha ha")


@pytest.fixture
def record(monkeypatch):
    """A record of two texts: BLEU 10 and 20 of 500 and 2,000 captions, 50 of 1,000 others."""
    captions, grammar = "multi30k-de-en", "toy-de-en"
    sizes = ((captions, 500, 10.0), (captions, 2_000, 20.0), (grammar, 1_000, 50.0))
    keys = ("corpus", "pairs", "bleu")
    rows = [dict(zip(keys, size, strict=True)) | {"tokens": 15.0} for size in sizes]
    monkeypatch.setattr(own_text, "measured", lambda: rows)


def test_what_to_expect_is_said_of_what_texts_and_between_measured_sizes_only(record):
    assert expected_bleu(1_000) == {"multi30k-de-en": pytest.approx(15.0), "toy-de-en": 50.0}
    assert what_to_expect(1_000, 14.0) == (
        "BLEU of other texts with so many pairs (docs/own_text.md): image captions "
        "(German-English) 15, a small grammar (German-English) 50"
    )
    assert set(expected_bleu(460)) == {"multi30k-de-en"}, "a tenth less than 500 is nearly 500"
    for pairs in (400, 2_300, 1_000_000):
        assert expected_bleu(pairs) == {}
        line = what_to_expect(pairs, 14.0)
        assert "unknown" in line and "500 to 2,000 were" in line


def test_sentences_of_another_length_than_the_measured_are_told(record):
    assert "and yours 40" in what_to_expect(1_000, 40.0)
    assert "and yours 5" in what_to_expect(1_000, 5.0)
    assert "yours" not in what_to_expect(1_000, 20.0)


def test_nothing_is_expected_where_nothing_was_measured(monkeypatch):
    monkeypatch.setattr(own_text, "measured", list)
    assert what_to_expect(1_000, 14.0).endswith("so many pairs were not measured")


def test_the_record_is_of_the_settings_that_the_text_asks_for_today():
    """A rule that changed leaves rows behind that no reader would get: measure them again."""
    assert measured()
    for row in measured():
        pairs, settings = row["pairs"], row["settings"]
        tokens, size = round(pairs * row["tokens"]), settings["tokenizer"]["size"]
        today = {choice.key: choice.value for choice in choose(pairs, tokens, size, 20)}
        for section in ("tokenizer", "model", "training"):
            for name, value in settings[section].items():
                expected = today.get(f"{section}.{name}", value)
                # The record rounds the tokens, so the warm-up may be one or two updates off.
                near = name == "warmup" and abs(value - expected) < 4
                assert value == expected or near, (row["corpus"], pairs, name)


def test_powers_of_two():
    assert [power_of_two(x) for x in (1, 3, 100, 350, 380)] == [1, 4, 128, 256, 512]


def test_a_copy_without_validation_says_how_many_pairs_to_hold_out(tmp_path):
    pairs = toy(train=300)["train"]
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs), "utf-8")
    arguments = ("data", "check", tmp_path / "pairs.tsv", "--languages", "de", "en", "--fix")
    assert "repeat with --split 30" in run(*arguments, tmp_path / "clean")[1]
    text = run(*arguments, tmp_path / "held", "--split", 30)[1]
    assert f"nmtlib train {tmp_path / 'held' / 'own.toml'} --out runs/held" in text
