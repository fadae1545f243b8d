"""BLEU on Moses' tokens, and that these are the publishers'."""

import os
import sys
from pathlib import Path

import pytest

from nmtcourse.main import main
from nmtcourse.recipes.moses import bleu_moses, moses_scorer, moses_tokens
from nmtlib.data.corpora import load_corpus
from nmtlib.inference.evaluate import evaluate
from nmtlib.inference.translator import Translator

pytestmark = pytest.mark.extras("sacremoses")
PUBLISHED = Path(os.environ.get("NMTLIB_DATA", "nowhere")) / "multi30k" / "tok"


def test_punctuation_stands_apart_and_a_hyphen_does_not():
    (found,) = moses_tokens(["Eine Frau im T-Shirt sagt: „Los!“"], "de")
    assert found == "eine frau im t-shirt sagt : &quot; los ! &quot;"


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published tokens are not in NMTLIB_DATA")
@pytest.mark.parametrize("language", ["de", "en"])
def test_these_are_the_tokens_of_the_publishers(language):
    name = f"multi30k-{'en-de' if language == 'de' else 'de-en'}"
    references = [pair.target for pair in load_corpus(name).test]
    file = PUBLISHED / f"test_2016_flickr.lc.norm.tok.{language}"
    assert moses_tokens(references, language) == file.read_text("utf-8").splitlines()


def test_the_case_does_not_count_and_every_error_does():
    reference = ["ein Mann in einem T-Shirt läuft schnell ."]
    assert bleu_moses(["Ein mann in einem T-shirt läuft schnell."], reference, "de").score == (
        pytest.approx(100)
    )
    wrong = bleu_moses(["Ein Mann in einem T-Shirt läuft langsam."], reference, "de")
    assert 50 < wrong.score < 90 and "tok:moses" in wrong.signature and "case:lc" in wrong.signature


def test_an_evaluation_has_it_where_it_is_asked_for():
    translator, corpus = Translator.load("toy-de-en"), load_corpus("toy-de-en")
    few = {"test": corpus.test[:20], "challenge": ()}
    corpus = type(corpus)(corpus.name, "de", "en", **few)
    plain, _ = evaluate(translator, corpus, beam=1)
    asked, _ = evaluate(translator, corpus, beam=1, scorers=[moses_scorer("en")])
    assert plain.more == {} and "moses" not in "".join(plain.lines())
    assert asked.more["bleu_moses"] > 50 and "tok:moses" in asked.to_dict()["moses_signature"]
    assert f"bleu_moses {asked.more['bleu_moses']:.4g}" in "".join(asked.lines())
    assert plain.scores == asked.scores


def test_a_missing_package_is_told_of_before_the_work(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    monkeypatch.setattr(Translator, "translate", lambda *_, **__: pytest.fail("too late"))
    assert main(["evaluate", "toy-de-en", "--moses"]) == 1
    assert "pip install sacremoses" in capsys.readouterr().err


def test_moses_is_refused_where_no_spaces_are_written(monkeypatch, capsys):
    monkeypatch.setattr(Translator, "translate", lambda *_, **__: pytest.fail("too late"))
    assert main(["evaluate", "toy-en-zh", "--moses"]) == 1
    assert "'zh' does not write" in capsys.readouterr().err
