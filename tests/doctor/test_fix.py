"""The cleaned copy: both sides together, the originals untouched, and the score that is right."""

import json
import shutil
import unicodedata

import pytest
from broken_corpora import Own, check, levels, nothing, row, run, toy

from nmtcourse.corpora import load_corpus
from nmtlib.inference.evaluate import evaluate
from nmtlib.inference.translator import Translator
from nmtlib.presets import load_settings

RIGHT = 99.0  # BLEU of the shipped model on the sound corpus


@pytest.fixture(scope="module")
def model():
    return Translator.load("toy-de-en")


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own").mkdir()
    return Own(tmp_path / "own", toy(train=400))


def score(model, settings):
    corpus = load_corpus(load_settings(settings).corpus)
    return evaluate(model, corpus, "test", beam=1)[0].scores.bleu


def fixed(own, *options):
    """Check with --fix; the settings of the copy, and what was printed."""
    path, copy = own.write(), own.folder.parent / "clean"
    before = {file.name: file.read_bytes() for file in own.folder.iterdir()}
    _, text = check(path, "--fix", copy, *options)
    assert {file.name: file.read_bytes() for file in own.folder.iterdir()} == before
    return copy / "own.toml", text


def log(settings):
    lines = (settings.parent / "log.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def pairs(settings, split="train"):
    corpus = load_corpus(load_settings(settings).corpus)
    return [(pair.source, pair.target) for pair in corpus.split(split)]


def cut(text):
    """The words of a text in two pieces each, where they are long enough."""
    return [[w[:3], w[3:]] if len(w) > 4 else [w] for w in text.split()]


BROKEN = {  # how a sentence is broken, what it is called, and a word of the log
    "Unicode that is not in form NFC": (lambda t: unicodedata.normalize("NFD", t), "decomposed"),
    "invisible characters": (lambda t: t.replace(" ", " \u200b", 1), "invisible"),
    "HTML entities": (lambda t: t.replace("e", "&#101;", 1), "entities"),
    "once read as another encoding": (lambda t: t.encode().decode("latin-1"), "mojibake"),
    "markup": (lambda t: f"<b>{t}</b>", "tags"),
    "line breaks or control characters": (lambda t: t.replace(" ", "\r", 1), "return"),
    "subword marks": (lambda t: " ".join("@@ ".join(w) for w in cut(t)), "marks"),
    "subword marks of": (lambda t: " ".join("▁" + " ".join(w) for w in cut(t)), "marks"),
    "subword marks of another": (lambda t: " ".join(" ##".join(w) for w in cut(t)), "marks"),
}


def test_a_score_that_broken_texts_spoil_is_named_and_right_after_the_repair(own, model):
    ways = [how for how, _ in BROKEN.values()]
    for number in range(1, len(own.splits["test"]) + 1):
        own.change_both("test", ways[number % len(ways)], number)
    assert score(model, own.write()) < 90
    settings, text = fixed(own)
    for words in BROKEN:
        found = row(text, words)
        assert found.startswith("warning") and found.count("line ") >= 3 and "--fix" in found
    assert score(model, settings) > RIGHT and nothing(check(settings)[1])
    logged = {word for entry in log(settings) for word in entry["why"]}
    assert logged == {why for _, why in BROKEN.values()}


@pytest.mark.slow
def test_another_encoding_is_decoded_only_when_the_reader_says_so(own, model):
    for own.encoding in ("cp1252", "utf-16"):
        settings, text = fixed(own)
        assert "nothing was written" in text and not settings.exists()
        settings, text = fixed(own, "--encoding", own.encoding)
        assert score(model, settings) > RIGHT
        assert "decoded" in {entry["action"] for entry in log(settings)}
        shutil.rmtree(settings.parent)


def test_pairs_are_dropped_together_with_their_text_in_the_log(own):
    own.change("train", 1, lambda text: "", 3, 7)
    own.change("train", 0, lambda text: f"{text} <EOS>", 9)
    sound = [p for n, p in enumerate(own.splits["train"], 1) if n not in (3, 7, 9)]
    settings, text = fixed(own)
    assert pairs(settings) == sound and "train: 397 of 400 pairs kept" in text
    assert [entry["line"] for entry in log(settings)] == [3, 7, 9]
    assert [entry["why"] for entry in log(settings)] == [["empty"], ["empty"], ["reserved"]]
    assert log(settings)[0]["before"][1] == "" and log(settings)[0]["action"] == "dropped"


def test_a_sound_corpus_is_copied_as_it_is(own):
    settings, _ = fixed(own)
    for split, expected in own.splits.items():
        assert pairs(settings, split) == expected
    texts = {f"{split}.{end}" for split in own.splits for end in ("de", "en")}
    assert {path.name for path in settings.parent.iterdir()} == {"log.jsonl", "own.toml", *texts}
    assert log(settings) == []


def test_a_copy_of_a_copy_changes_nothing(own):
    own.change_both("test", lambda text: f" <b>{text}</b>&nbsp;")
    settings, _ = fixed(own)
    again = own.folder.parent / "again"
    check(settings, "--fix", again)
    assert (again / "test.de").read_bytes() == (settings.parent / "test.de").read_bytes()
    assert (again / "log.jsonl").read_bytes() == b""


def test_nothing_is_overwritten(own):
    copy = own.folder.parent / "clean"
    for mine in (copy, copy / "train.de"):  # a file of that name, and a folder that holds one
        mine.parent.mkdir(exist_ok=True)
        mine.write_text("mine")
        status, text = check(own.write(), "--fix", copy)
        assert status == 1 and "nothing is overwritten" in text and mine.read_text() == "mine"
        mine.unlink()


def two_files(own, count=400):
    """Two text files alone, without validation and test."""
    own.splits = {"train": toy(train=count)["train"]}
    own.write()
    names = [own.folder / "all.de", own.folder / "all.en"]
    for end, name in zip("ab", names, strict=True):
        (own.folder / f"train.{end}").rename(name)
    return names


def test_two_files_become_three_splits_that_share_no_source(own):
    names = two_files(own)
    copy = own.folder.parent / "clean"
    status, text = run("data", "check", *names, "--fix", copy, "--split", 50)
    assert status == 0 and "100 of them held out" in text
    found = {split: pairs(copy / "own.toml", split) for split in ("train", "validation", "test")}
    assert len(found["validation"]) == len(found["test"]) == 50
    sources = {split: {source for source, _ in rows} for split, rows in found.items()}
    assert not sources["test"] & (sources["train"] | sources["validation"])
    assert sorted(sum(found.values(), [])) == sorted(own.splits["train"])
    assert levels(check(copy / "own.toml")[1]) == []


def test_no_empty_split_is_written(own, tmp_path):
    """One text for training and validation, in two Unicode forms: nothing would be left."""
    own.splits["train"] = own.splits["train"][:40]
    own.splits["validation"] = list(own.splits["train"])
    own.change_both("train", lambda text: unicodedata.normalize("NFD", f"schön {text}"))
    own.change_both("validation", lambda text: f"schön {text}")
    status, text = check(own.write(), "--fix", tmp_path / "clean")
    assert status == 1 and not (tmp_path / "clean").exists()
    assert "no pair would be left of train: all 40 are also in validation" in text
    assert "give another validation" in text and "train on it with" not in text
