"""Properties of the token-id table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtlib.data.codec import Vocab
from nmtlib.specials import BOS, EOS, PAD, SPECIALS, UNK

tokens = st.text(alphabet="abcdefghij", min_size=1, max_size=3)
texts = st.lists(st.lists(tokens, max_size=8), max_size=8)


@given(texts)
def test_known_tokens_survive_a_round_trip(sentences):
    vocab = Vocab.build(sentences)
    for sentence in sentences:
        assert vocab.decode(vocab.encode(sentence)) == sentence
    assert sorted(vocab.ids.values()) == list(range(len(vocab)))


@given(texts)
def test_specials_have_their_fixed_ids_whatever_the_text(sentences):
    vocab = Vocab.build([*sentences, [*SPECIALS, *SPECIALS]])
    assert vocab.encode(SPECIALS) == [PAD, BOS, EOS, UNK] == [0, 1, 2, 3]
    assert len(set(vocab.tokens)) == len(vocab)


@given(texts)
def test_frequent_tokens_come_first_and_ties_by_alphabet(sentences):
    flat = [token for sentence in sentences for token in sentence]
    order = Vocab.build(sentences[::-1]).tokens[4:]
    keys = [(-flat.count(token), token) for token in order]
    assert keys == sorted(keys) and set(order) == set(flat)


@given(texts, st.integers(1, 4), st.integers(4, 12))
def test_limits_keep_the_front_of_the_unlimited_table(sentences, min_count, max_size):
    flat = [token for sentence in sentences for token in sentence]
    limited = Vocab.build(sentences, min_count=min_count, max_size=max_size)
    frequent = [
        t for t in Vocab.build(sentences).tokens if t in SPECIALS or flat.count(t) >= min_count
    ]
    assert limited.tokens == frequent[:max_size]


def test_a_token_outside_the_table_is_unk():
    vocab = Vocab.build([["hund"]])
    assert vocab.encode(["hund", "katze"]) == [4, UNK]
    assert "hund" in vocab and "katze" not in vocab


def test_an_id_outside_the_table_is_refused():
    for outside in (-1, 5):
        with pytest.raises(ValueError, match=f"{outside} is outside .* 5 entries"):
            Vocab.build([["hund"]]).decode([4, outside])


def test_a_table_without_the_specials_or_with_a_token_twice_is_refused():
    for table in ([], ["hund"], [*SPECIALS[::-1], "hund"], SPECIALS[:3]):
        with pytest.raises(ValueError, match="starts with"):
            Vocab(table)
    with pytest.raises(ValueError, match="hund"):
        Vocab([*SPECIALS, "hund", "katze", "hund"])
    with pytest.raises(ValueError, match="max_size=3.*specials"):
        Vocab.build([["hund"]], max_size=3)


def test_the_table_does_not_share_the_callers_list():
    given_list = [*SPECIALS, "hund"]
    vocab = Vocab(given_list)
    given_list.append("katze")
    assert len(vocab) == 5


def test_equality_is_by_tokens_and_tables_cannot_be_dictionary_keys():
    assert Vocab([*SPECIALS, "a"]) == Vocab([*SPECIALS, "a"]) != Vocab([*SPECIALS, "b"])
    assert Vocab([*SPECIALS, "a"]) != [*SPECIALS, "a"]
    with pytest.raises(TypeError):
        hash(Vocab(SPECIALS))


def test_a_vocabulary_has_no_token_that_a_terminal_would_obey():
    for token in ("a\x1b[2J", "a\nb", "\u202e", "\ud800"):
        with pytest.raises(ValueError, match="control characters"):
            Vocab([*SPECIALS, token])
        assert len(Vocab.build([["a", token]])) == len(SPECIALS) + 1
