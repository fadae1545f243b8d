"""Metrics equal their libraries, and refuse the input that those would score wrongly."""

import logging
import warnings
from itertools import product

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from nmtlib.inference.metrics import bleu_nltk, bleu_sacre, chrf

GERMAN = ["Ein Hund läuft schnell durch den Park.", "Zwei Männer spielen mit einem roten Ball!"]
OTHER = ["Ein Hund läuft durch den Park.", "Zwei Männer spielen mit dem blauen Ball!"]
CHINESE = ["我在公园里看见一只狗。", "他喜欢喝很热的绿茶。"]
ALMOST = ["我在公园里看见一只猫。", "他喜欢喝很热的红茶。"]
METRICS = {
    "nltk": lambda h, r: 100 * bleu_nltk([s.split() for s in h], [s.split() for s in r]),
    "13a": lambda h, r: bleu_sacre(h, r).score,
    "none": lambda h, r: bleu_sacre(h, r, tokenize="none").score,
    "chrf": lambda h, r: chrf(h, r).score,
}

sentences = st.lists(st.sampled_from("ein hund läuft . Park".split()), min_size=1, max_size=8).map(
    " ".join
)
pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6)


def test_identical_is_100_and_different_or_swapped_is_less():
    for metric in METRICS.values():
        assert metric(GERMAN, GERMAN) == pytest.approx(100)
        assert 0 < metric(OTHER, GERMAN) < 100
        assert metric(GERMAN, GERMAN[::-1]) < 50


@settings(max_examples=30)
@given(data=st.data(), corpus=pairs)
def test_the_order_of_the_pairs_does_not_matter(data, corpus):
    shuffled = data.draw(st.permutations(corpus))
    for metric in METRICS.values():
        scores = [metric(*map(list, zip(*rows, strict=True))) for rows in (corpus, shuffled)]
        assert scores[0] == pytest.approx(scores[1])
        assert 0 <= scores[0] <= 100 + 1e-9


@given(corpus=pairs)
def test_bleu_nltk_equals_nltk_up_to_its_zero(corpus):
    from nltk.translate.bleu_score import corpus_bleu

    hypotheses, references = ([s.split() for s in side] for side in zip(*corpus, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = float(corpus_bleu([[r] for r in references], hypotheses))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score = bleu_nltk(hypotheses, references)
    assert score == (expected if expected > 1e-70 else 0.0)
    assert isinstance(score, float)


def test_bleu_nltk_is_exactly_zero_and_silent_without_a_common_4_gram(recwarn, capfd):
    references = [["the", "dog", "runs", "away", "now"]]
    assert bleu_nltk([["the", "dog", "runs", "home", "now"]], references) == 0.0
    assert bleu_nltk([[]], references) == 0.0
    assert not recwarn and capfd.readouterr().err == ""


def test_nltk_equals_sacrebleu_where_every_hypothesis_has_four_tokens():
    assert METRICS["nltk"](OTHER, GERMAN) == pytest.approx(METRICS["none"](OTHER, GERMAN))


@pytest.mark.parametrize("lowercase", [False, True])
def test_scores_equal_those_of_sacrebleu_with_their_signatures(lowercase):
    shouted, case = [sentence.upper() for sentence in OTHER], "lc" if lowercase else "mixed"
    end = f"case:{case}|"
    for (hypotheses, references), tokenize in product(
        ((shouted, GERMAN), (ALMOST, CHINESE)), ("13a", "zh", "none", "char")
    ):
        how = {"tokenize": tokenize, "lowercase": lowercase}
        score, signature = bleu_sacre(hypotheses, references, **how)
        assert score == sacrebleu.corpus_bleu(hypotheses, [references], **how).score
        assert f"tok:{tokenize}|" in signature and f"version:{sacrebleu.__version__}" in signature
        assert end in signature and "nrefs:1|" in signature
    score, signature = chrf(shouted, GERMAN, lowercase=lowercase)
    sides = ([s.lower() for s in side] if lowercase else side for side in (shouted, GERMAN))
    hypotheses, references = sides
    assert score == sacrebleu.corpus_chrf(hypotheses, [references]).score
    assert "nc:6|nw:0|" in signature and end in signature


def test_tokenized_text_is_complained_of_unless_asked_for(caplog):
    spaced = ["ein hund läuft ."] * 100
    with caplog.at_level(logging.WARNING, logger="sacrebleu"):
        bleu_sacre(spaced, spaced, tokenize="none")
        assert not caplog.records
        bleu_sacre(spaced, spaced)
        assert "tokenized" in caplog.text


@pytest.mark.parametrize("role", ["hypothesis", "reference"])
def test_what_a_library_would_score_wrongly_is_refused_by_its_number(role):
    right = ["a", "dog"]
    for metric, good, wrongs in (
        (bleu_nltk, right, ("a dog", [["a", "dog"]], None, ["a", None])),
        (bleu_sacre, "a", (right, None)),
        (chrf, "a", (right, None)),
    ):
        for wrong in wrongs:
            sides = [good, wrong], [good, good]
            with pytest.raises(ValueError, match=f"{role} 1"):
                metric(*(sides if role == "hypothesis" else sides[::-1]))


@pytest.mark.parametrize("metric", [bleu_nltk, bleu_sacre, chrf])
def test_lists_of_no_or_other_length_and_strings_are_refused(metric):
    for sides in (([], []), (["a"], ["a", "b"]), ("one", ["one"]), (["one"], "one")):
        with pytest.raises(ValueError, match="expected"):
            metric(*sides)


def test_unknown_tokenize_is_refused():
    with pytest.raises(ValueError, match="13a, zh, none"):
        bleu_sacre(GERMAN, GERMAN, tokenize="words")
