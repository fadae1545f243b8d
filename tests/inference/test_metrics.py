"""Metrics equal the libraries they stand on, and refuse the input that those would silently score
wrongly.
"""

import logging
import warnings

import pytest
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


# --- properties that every metric shares ---------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_identical_is_100_and_different_is_less(metric):
    assert metric(GERMAN, GERMAN) == pytest.approx(100)
    assert 0 < metric(OTHER, GERMAN) < 100


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
@settings(deadline=None)
@given(data=st.data(), corpus=pairs)
def test_the_order_of_the_pairs_does_not_matter(metric, data, corpus):
    shuffled = data.draw(st.permutations(corpus))
    scores = [metric(*map(list, zip(*rows, strict=True))) for rows in (corpus, shuffled)]
    assert scores[0] == pytest.approx(scores[1])
    assert 0 <= scores[0] <= 100 + 1e-9


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_swapping_two_references_costs_points(metric):
    assert metric(GERMAN, GERMAN[::-1]) < 50


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
@pytest.mark.parametrize(
    "hypotheses, references", [([], []), (GERMAN, GERMAN[:1]), (GERMAN[:1], GERMAN)]
)
def test_unequal_or_empty_lists_are_refused(metric, hypotheses, references):
    with pytest.raises(
        ValueError, match=f"{len(hypotheses)} hypotheses and {len(references)} references"
    ):
        metric(hypotheses, references)


# --- BLEU by NLTK --------------------------------------------------------------------------------


@settings(deadline=None)
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
    hypotheses, references = (
        [["the", "dog", "runs", "home", "now"]],
        [["the", "dog", "runs", "away", "now"]],
    )
    assert bleu_nltk(hypotheses, references) == 0.0
    assert bleu_nltk([[]], references) == 0.0
    assert not recwarn and capfd.readouterr().err == ""


@pytest.mark.parametrize("wrong", ["a dog", [["a", "dog"]], [1, 2], None, ["a", None]], ids=str)
@pytest.mark.parametrize("role", ["hypothesis", "reference"])
def test_bleu_nltk_wants_token_lists(wrong, role):
    right = ["a", "dog"]
    sides = (
        ([right, wrong], [right, right])
        if role == "hypothesis"
        else ([right, right], [right, wrong])
    )
    with pytest.raises(ValueError, match=f"{role} 1 .*letter by letter"):
        bleu_nltk(*sides)


def test_letters_would_have_scored_higher_than_words():
    from nltk.translate.bleu_score import corpus_bleu

    letters = corpus_bleu([[reference] for reference in GERMAN], OTHER)
    assert letters > METRICS["nltk"](OTHER, GERMAN) / 100 + 0.1


def test_nltk_equals_sacrebleu_where_every_hypothesis_has_four_tokens():
    assert METRICS["nltk"](OTHER, GERMAN) == pytest.approx(METRICS["none"](OTHER, GERMAN))


# --- BLEU and chrF by sacreBLEU ------------------------------------------------------------------


@pytest.mark.parametrize("tokenize", ["13a", "zh", "none", "char"])
@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize(
    "hypotheses, references", [(OTHER, GERMAN), (ALMOST, CHINESE)], ids=["de", "zh"]
)
def test_bleu_sacre_equals_sacrebleu_with_its_signature(
    tokenize, lowercase, hypotheses, references
):
    import sacrebleu

    score, signature = bleu_sacre(hypotheses, references, tokenize=tokenize, lowercase=lowercase)
    expected = sacrebleu.corpus_bleu(
        hypotheses, [references], tokenize=tokenize, lowercase=lowercase
    )
    assert score == expected.score
    assert f"tok:{tokenize}|" in signature and f"version:{sacrebleu.__version__}" in signature
    assert f"case:{'lc' if lowercase else 'mixed'}|" in signature and "nrefs:1|" in signature


@pytest.mark.parametrize("lowercase", [False, True])
def test_chrf_equals_sacrebleu_with_its_signature(lowercase):
    import sacrebleu

    shouted = [sentence.upper() for sentence in OTHER]
    score, signature = chrf(shouted, GERMAN, lowercase=lowercase)
    sides = ([s.lower() for s in side] if lowercase else side for side in (shouted, GERMAN))
    hypotheses, references = sides
    assert score == sacrebleu.corpus_chrf(hypotheses, [references]).score
    assert "nc:6|nw:0|" in signature and "nrefs:1|" in signature
    assert f"case:{'lc' if lowercase else 'mixed'}|" in signature


def test_chinese_needs_its_own_tokenizer():
    assert bleu_sacre(ALMOST, CHINESE, tokenize="zh").score > 50
    assert bleu_sacre(ALMOST, CHINESE, tokenize="13a").score < 1
    assert bleu_sacre(CHINESE, CHINESE, tokenize="zh").score == pytest.approx(100)
    assert (
        bleu_sacre(CHINESE, CHINESE).score == 0
    )  # one "word" a sentence: not even equal text has a 4-gram


def test_case_counts_unless_told_otherwise():
    shouted = [sentence.upper() for sentence in GERMAN]
    assert bleu_sacre(shouted, GERMAN, lowercase=True).score == pytest.approx(100)
    assert bleu_sacre(shouted, GERMAN).score < 50


def test_tokenized_text_is_complained_of_unless_asked_for(caplog):
    spaced = ["ein hund läuft ."] * 100
    with caplog.at_level(logging.WARNING, logger="sacrebleu"):
        bleu_sacre(spaced, spaced, tokenize="none")
        assert not caplog.records
        bleu_sacre(spaced, spaced)
        assert "tokenized" in caplog.text


@pytest.mark.parametrize("metric", [bleu_sacre, chrf])
@pytest.mark.parametrize("wrong", [["a", "dog"], None, 7], ids=str)
@pytest.mark.parametrize("role", ["hypothesis", "reference"])
def test_text_metrics_want_strings(metric, wrong, role):
    sides = (["a", wrong], ["a", "b"]) if role == "hypothesis" else (["a", "b"], ["a", wrong])
    with pytest.raises(ValueError, match=f"{role} 1 .*plain text"):
        metric(*sides)


@pytest.mark.parametrize("metric", [bleu_nltk, bleu_sacre, chrf])
@pytest.mark.parametrize("sides", [("one", ["one"]), (["one"], "one"), ("one", "two")], ids=str)
def test_one_string_is_no_list_of_sentences(metric, sides):
    with pytest.raises(ValueError, match="is one string"):
        metric(*sides)


def test_unknown_tokenize_is_refused():
    with pytest.raises(ValueError, match="13a, zh, none"):
        bleu_sacre(GERMAN, GERMAN, tokenize="words")
