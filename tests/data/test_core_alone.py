"""The core alone runs all that it offers, and names what brings the rest."""

import pytest

from nmtlib import Corpus, Translator, evaluate, train
from nmtlib.data.codec import build_codecs
from nmtlib.data.corpora import load_corpus, names
from nmtlib.data.corpus import read_pairs
from nmtlib.presets import load_settings, presets


def test_the_core_alone_names_what_it_needs(tmp_path):
    (path := tmp_path / "pairs.csv").write_text("ein Hund,a dog\n", "utf-8")
    with pytest.raises(ValueError, match="nmtcourse.corpora.load_corpus"):
        read_pairs([path])
    with pytest.raises(ValueError, match=r"section \[recipe\].* nmtcourse.recipes.recipe.train"):
        train(tmp_path / "run", "multi30k-de-en")
    with pytest.raises(ValueError, match="unknown corpus 'iwslt14-de-en'.* nmtcourse.corpora"):
        train(tmp_path / "run", "iwslt14-de-en")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_each_preset_without_a_recipe_trains_and_is_scored_by_the_core_alone(tmp_path):
    languages, pairs = ("de", "en"), load_corpus("toy-de-en").train[:40]
    bare = Corpus.from_pairs(pairs, pairs[:4], languages=languages)
    tables = tuple(codec.vocab.tokens for codec in build_codecs(bare, "whitespace"))
    corpus = Corpus("few", *languages, pairs, pairs[:4], pairs[:4], vocabularies=tables)
    trained = set()
    for name in presets():
        settings = load_settings(name).with_assignments(["epochs=1", "beam=1", "device=auto"])
        if settings.recipe or settings.corpus.name not in names() or settings.model.d_model > 256:
            continue
        train(tmp_path / name, settings, corpus=corpus, report=lambda line: None)
        assert evaluate(Translator.load(tmp_path / name), corpus)[0].scores.sentences == 4
        trained.add(name)
    assert {"toy-de-en", "toy-en-zh", "cmn-en-zh", "cmn-en-zh-original"} <= trained
