"""Sentences without translations: nothing that is tested on may be among them."""

import gzip
import hashlib
import os
from dataclasses import replace

import pytest

from nmtcourse import corpora, listing
from nmtcourse.doctor.known import check
from nmtcourse.recipes import monolingual
from nmtcourse.recipes.monolingual import CAPTIONS, Sentences, comparable, kept_apart
from nmtlib.data.corpora import MULTI30K
from nmtlib.data.corpus import Corpus, Pair

DOG, MAN = Pair("Ein Hund.", "A dog."), Pair("Ein Mann läuft", "A man runs")
CATS = Pair("Zwei Katzen, im Schnee.", "Two cats in the snow.")
CORPUS = Corpus("own-de-en", "de", "en", train=[DOG], validation=[MAN], test=[CATS])


def test_only_case_spaces_and_punctuation_are_overlooked():
    assert comparable(" Zwei  Katzen im Schnee") == comparable("zwei katzen, im Schnee!")
    assert comparable("Zwei Katzen") != comparable("Zwei Katze")
    assert comparable("两只猫。") == comparable("两只猫") != comparable("两只狗")
    assert comparable("两 只@@ 猫 。") == comparable("两只猫")
    assert comparable("第 12 只") != comparable("第 1 2 只")
    assert comparable("वह कीड़ा।") == comparable("वह  कीड़ा") != comparable("वह काड़ा")
    hearts = ("ein Herz \u2764\ufe0f", "Ein Herz", "ein Herz \u2764")
    assert len({comparable(text) for text in hearts}) == 1
    assert comparable("\u0301 a") == comparable("a")


def test_what_the_corpus_holds_is_left_out_and_counted():
    reasons = {"ein hund": "in train", "Ein Mann läuft.": "in validation", " . ": "without a word"}
    reasons |= {"zwei katzen im schnee": "in test", "EIN Kind  spielt !": "twice"}
    for line, reason in reasons.items():
        lines = ["Ein Kind spielt.", line, "Eine Frau liest."]
        expected = Sentences(["Ein Kind spielt.", "Eine Frau liest."], {reason: 1})
        assert kept_apart(lines, CORPUS, "de") == expected


def test_each_language_is_compared_with_its_own_side():
    assert kept_apart(["A man runs!"], CORPUS, "en").left_out == {"in validation": 1}
    assert kept_apart(["A man runs!"], CORPUS, "de").new == ["A man runs!"]
    with pytest.raises(ValueError, match="language must be one of de, en, not 'fr'"):
        kept_apart([], CORPUS, "fr")


SPLITS = {split: getattr(CORPUS, split) for split in ("train", "validation", "test")}
READY = replace(MULTI30K, files={}, reader=lambda folder: SPLITS)


@pytest.fixture
def captions(tmp_path, monkeypatch):
    """Tiny captions in a cache, beside a tiny corpus."""
    text = {"de": "Ein Hund.\nEin Kind spielt.\n", "en": "A child plays.\nTwo cats in the snow\n"}
    sums = {}
    folder = tmp_path / "multi30k" / "captions"
    folder.mkdir(parents=True)
    for language, lines in text.items():
        data = gzip.compress(lines.encode(), mtime=0)
        (folder / f"train.1.{language}.gz").write_bytes(data)
        sums[f"train.1.{language}.gz"] = hashlib.sha256(data).hexdigest()
    files = {language: [f"train.1.{language}.gz"] for language in text}

    def put(corpus):
        tiny = replace(CAPTIONS, texts=files, files=sums, apart_from=corpus)
        monkeypatch.setattr(corpora, "SOURCES", [tiny])
        monkeypatch.setattr(monolingual, "TEXTS", [tiny])
        return tmp_path

    return put


def test_captions_are_read_by_name(captions):
    root = captions(READY)
    assert monolingual.sentences(CAPTIONS.name, "en", root=root).new == ["A child plays."]
    report = check(CAPTIONS.name, root=root)
    reasons = {"de": "train", "en": "test"}
    expected = [f"{side}: 1 sentences; left out: 1 in {split}" for side, split in reasons.items()]
    assert report.ok and report.lines[-2:] == expected


def test_the_course_knows_the_captions():
    assert CAPTIONS in corpora.SOURCES
    assert CAPTIONS.name not in corpora.names()
    assert [row[1] for row in listing.table() if row[0] == CAPTIONS.name] == ["no pairs"]


def test_a_check_without_multi30k_fetches_nothing_and_says_what_it_needs(captions):
    *files, note = check(CAPTIONS.name, root=captions(MULTI30K)).lines
    assert len(files) == 2 and "nmtlib data fetch multi30k-de-en" in note


def test_a_damaged_file_is_no_text(captions):
    root = captions(READY)
    (root / "multi30k" / "captions" / "train.1.en.gz").write_bytes(b"other")
    assert not check(CAPTIONS.name, root=root).ok
    with pytest.raises(ValueError, match="SHA-256"):
        monolingual.sentences(CAPTIONS.name, "en", root=root)


def test_a_text_is_no_corpus_and_a_corpus_no_text(captions):
    root = captions(READY)
    with pytest.raises(ValueError, match="no pairs.*backtranslate"):
        corpora.load_corpus(CAPTIONS.name, root=root)
    with pytest.raises(ValueError, match="did you mean multi30k-captions"):
        monolingual.sentences("multi30k-caption", "en", root=root)
    with pytest.raises(ValueError, match="one of de, en, not 'fr'"):
        monolingual.sentences(CAPTIONS.name, "fr", root=root)


def test_the_captions_of_the_test_pictures_are_never_fetched():
    assert len(CAPTIONS.files) == 10 and all(file.startswith("train.") for file in CAPTIONS.files)
    assert sorted(CAPTIONS.files) == sorted(f for files in CAPTIONS.texts.values() for f in files)


@pytest.mark.nightly  # minutes; the rules are tested above
@pytest.mark.slow
@pytest.mark.skipif(
    not (os.environ.get("NMTLIB_DATA") and CAPTIONS.complete()),
    reason="NMTLIB_DATA does not hold multi30k-captions",
)
def test_the_real_captions_hold_what_the_leak_audit_says():
    found = {language: monolingual.sentences(CAPTIONS.name, language) for language in ("de", "en")}
    assert [len(found[language].new) for language in ("de", "en")] == [140_476, 115_484]
    for language, side in (("de", "source"), ("en", "target")):
        corpus = corpora.load_corpus("multi30k-de-en")
        held_out = {comparable(getattr(p, side)) for p in [*corpus.validation, *corpus.test]}
        assert not held_out & set(map(comparable, found[language].new))
        assert found[language].left_out["in test"] and found[language].left_out["in validation"]
