"""The core alone runs all that it offers, and names the import that brings the rest."""

import pytest

from nmtlib import Corpus, Translator, evaluate, registry, train
from nmtlib.data.codec import build_codecs
from nmtlib.data.corpora import find, load_corpus
from nmtlib.data.corpus import read_pairs
from nmtlib.presets import load_settings, presets


@pytest.fixture(autouse=True)
def core_alone(monkeypatch):
    monkeypatch.setattr(registry, "ADDED", {kind: {} for kind in registry.ADDED})


def test_the_core_alone_names_the_import_that_it_needs(tmp_path):
    (path := tmp_path / "pairs.csv").write_text("ein Hund,a dog\n", "utf-8")
    for use, what in [
        (load_corpus, "iwslt14-de-en"),
        (load_settings, "multi30k-de-en"),
        (read_pairs, [path]),
    ]:
        with pytest.raises(ValueError, match="import nmtcourse"):
            use(what)


def test_each_preset_of_the_core_trains_and_is_scored_by_the_core_alone(tmp_path):
    languages, pairs = ("de", "en"), load_corpus("toy-de-en").train[:40]
    bare = Corpus.from_pairs(pairs, pairs[:4], languages=languages)
    tables = tuple(codec.vocab.tokens for codec in build_codecs(bare, "whitespace"))
    corpus = Corpus("few", *languages, pairs, pairs[:4], pairs[:4], vocabularies=tables)
    assert {"toy-de-en", "cmn-en-zh"} < {*presets()}
    for name in presets():
        settings = load_settings(name).with_assignments(["epochs=1", "beam=1"])
        assert find(settings.corpus.name)
        train(tmp_path / name, settings, corpus=corpus, report=lambda line: None)
        assert evaluate(Translator.load(tmp_path / name), corpus)[0].scores.sentences == 4
