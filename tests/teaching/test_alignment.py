"""Error rates equal NLTK's, and links are read from the row that they are said to be read from."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate import Alignment
from nltk.translate import alignment_error_rate as by_nltk

from nmtcourse.teaching import alignment, load_toy, running_pair

positions = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8)


@given(found=positions, sure=positions, more=positions)
def test_one_sentence_is_scored_as_by_nltk(found, sure, more):
    rate = alignment.alignment_error_rate([found], [sure], [sure | more])
    assert rate == pytest.approx(by_nltk(Alignment(sure), Alignment(found), Alignment(sure | more)))
    assert alignment.alignment_error_rate([found], [sure]) == pytest.approx(
        by_nltk(Alignment(sure), Alignment(found))
    )


def test_a_corpus_is_one_set_of_links_not_a_mean_of_sentences():
    found, sure = [{(0, 0)}, {(0, 0), (1, 1), (2, 2)}], [{(1, 1)}, {(0, 0), (1, 1), (2, 2)}]
    assert alignment.alignment_error_rate(found, sure) == pytest.approx(1 - 6 / 8)


def test_the_attention_of_the_shipped_model_finds_the_origin_of_what_is_said():
    translator, pair = load_toy("de-en"), running_pair("de-en")
    (weights,) = alignment.cross_attention(translator, [pair])
    words = (len(pair.target.split()) + 1, len(pair.source.split()) + 1)
    assert weights.shape == (2, 4, *words)
    assert weights.sum(dim=-1).allclose(torch.ones(2, 4, words[0]), atol=1e-5)
    links = [alignment.links(weights[1].mean(0), read) for read in ("output", "input")]
    rates = [alignment.alignment_error_rate([each], [set(pair.alignment)]) for each in links]
    assert rates[0] < 0.2 < 0.7 < rates[1]
