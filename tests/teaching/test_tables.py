"""Cosines, neighbours and maps of word vectors are what they say."""

import pytest
import torch

from nmtcourse.teaching import load_toy, tables
from nmtlib.specials import SPECIALS

WORDS = ["two", "three", "dog", "dogs", "cat"]


@pytest.fixture(scope="module")
def translator():
    return load_toy("de-en")


def test_cosines_are_those_of_the_rows(translator):
    found = tables.cosines(translator, "target", WORDS)
    weight, ids = translator.model.target_embedding.weight, translator.target.vocab.ids
    rows = torch.stack([weight[ids[word]] for word in WORDS]).float()
    wanted = torch.cosine_similarity(rows[:, None], rows[None], dim=-1).detach()
    assert torch.allclose(found, wanted, atol=1e-5)


def test_neighbours_are_the_largest_cosines_without_the_word_and_the_specials(translator):
    tokens, vectors = tables.directions(translator, "source")
    assert not set(tokens) & set(SPECIALS)
    for word in ("Hund", "rote"):
        near = tables.neighbours(translator, "source", word, 5)
        cosines = sorted(zip((vectors @ vectors[tokens.index(word)]).tolist(), tokens, strict=True))
        assert [other for other, _ in near] == [token for _, token in cosines[-6:-1]][::-1]
