"""Error rates equal NLTK's, and links are read from the row that they are said to be read from."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate import Alignment
from nltk.translate import alignment_error_rate as by_nltk

from nmtcourse.teaching import alignment, load_toy, running_pair
from nmtlib.data import Pair

positions = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8)


@given(found=positions, sure=positions, more=positions)
def test_one_sentence_is_scored_as_by_nltk(found, sure, more):
    rate = alignment.alignment_error_rate([found], [sure], [sure | more])
    assert rate == pytest.approx(by_nltk(Alignment(sure), Alignment(found), Alignment(sure | more)))
    assert alignment.alignment_error_rate([found], [sure]) == pytest.approx(
        by_nltk(Alignment(sure), Alignment(found))
    )


def test_sure_links_are_possible_even_if_not_given_as_such():
    assert alignment.alignment_error_rate([{(0, 0)}], [{(0, 0)}], [set()]) == 0


def test_a_corpus_is_one_set_of_links_not_a_mean_of_sentences():
    found, sure = [{(0, 0)}, {(0, 0), (1, 1), (2, 2)}], [{(1, 1)}, {(0, 0), (1, 1), (2, 2)}]
    assert alignment.alignment_error_rate(found, sure) == pytest.approx(1 - 6 / 8)


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(ValueError, match="2 sentences found, 1 sure"):
        alignment.alignment_error_rate([set(), set()], [{(0, 0)}])
    with pytest.raises(ValueError, match="no links at all"):
        alignment.alignment_error_rate([set()], [set()])


def test_links_of_both_readings():
    weights = torch.eye(4)[[2, 0, 3, 1]]  # row 0 looks at word 2, row 2 at EOS
    assert alignment.links(weights) == {(2, 0), (0, 1)}
    assert alignment.links(weights, "input") == {(0, 0), (1, 2)}


def test_the_attention_of_the_shipped_model_finds_the_origin_of_what_is_said():
    translator, pair = load_toy("de-en"), running_pair("de-en")
    (weights,) = alignment.cross_attention(translator, [pair])
    words = (len(pair.target.split()) + 1, len(pair.source.split()) + 1)
    assert weights.shape == (2, 4, *words)
    assert weights.sum(dim=-1).allclose(torch.ones(2, 4, words[0]), atol=1e-5)
    rates = [
        alignment.alignment_error_rate(
            [alignment.links(weights[1].mean(0), read)], [set(pair.alignment)]
        )
        for read in ("output", "input")
    ]
    assert rates[0] < 0.2 < 0.7 < rates[1]


def test_tokens_that_are_no_words_are_refused(monkeypatch):
    translator, pair = load_toy("de-en"), running_pair("de-en")
    monkeypatch.setattr(translator.source, "encode", lambda sentence: [5] * 3)
    with pytest.raises(ValueError, match="here tokens are not"):
        alignment.cross_attention(translator, [pair])


@pytest.mark.parametrize("source, target", [("a", "x"), ("a b c", "x"), ("a b", "x y z")])
def test_the_diagonal_goes_from_corner_to_corner(source, target):
    links = alignment.diagonal(Pair(source, target))
    assert {j for _, j in links} == set(range(len(target.split())))
    assert (0, 0) in links
    if len(target.split()) > 1:
        assert (len(source.split()) - 1, len(target.split()) - 1) in links
