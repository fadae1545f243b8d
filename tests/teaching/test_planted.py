"""Each fault is what its name says, changes no more than that, and is repeatable."""

from dataclasses import replace
from random import Random

import pytest

from nmtcourse.teaching import planted
from nmtcourse.teaching.course import ENGLISH, MEANING
from nmtcourse.toy.lexicon import NOUNS
from nmtlib.data import Pair, corpora

CORPUS = corpora.load("toy-de-en")
PAIRS = [*CORPUS.test[:200], *CORPUS.challenge[:50]]
MEANINGS = planted.meanings_of(PAIRS)
RNG = Random(0)
PLANTED = [planted.plant_all(meaning, RNG) for meaning in MEANINGS]
NOUN_FORMS = {form for n in NOUNS.values() for form in (n.english, n.english_plural)}


def cases(name):
    """(right words, wrong words) of all sentences that have the fault."""
    found = [
        (pair.target.split(), faults[name].split())
        for pair, faults in zip(PAIRS, PLANTED, strict=True)
        if name in faults
    ]
    assert found, f"no sentence has a place for {name}"
    return found


def changed(right, wrong):
    """The words that stand at the same place and differ."""
    assert len(right) == len(wrong)
    return [(a, b) for a, b in zip(right, wrong, strict=True) if a != b]


def test_the_meaning_of_a_pair_is_the_one_that_it_was_written_from():
    assert [planted.text(meaning) for meaning in MEANINGS] == [pair.target for pair in PAIRS]
    assert planted.text(MEANING) == ENGLISH


def test_what_the_grammar_did_not_write_has_no_meaning():
    with pytest.raises(ValueError, match="seed 0: 'colourless ideas sleep .'"):
        planted.meanings_of([Pair("x", "colourless ideas sleep .")])


def test_no_fault_is_the_right_sentence_and_all_are_planted_alike_again():
    assert all(
        wrong != pair.target
        for pair, faults in zip(PAIRS, PLANTED, strict=True)
        for wrong in faults.values()
    )
    rng = Random(0)
    assert PLANTED == [planted.plant_all(meaning, rng) for meaning in MEANINGS]


def test_weights_are_graded_and_each_fault_has_one():
    assert list(planted.WEIGHTS.values()) == sorted(planted.WEIGHTS.values())
    assert set(planted.WEIGHTS) == {name for faults in PLANTED for name in faults}


def test_a_synonym_is_one_that_was_declared():
    for right, wrong in cases("synonym"):
        replaced = [w for w in right if w in planted.SYNONYMS]
        options = [" ".join(right).replace(w, planted.SYNONYMS[w], 1) for w in replaced]
        assert len(wrong) >= len(right) and options
    assert not set(planted.SYNONYMS) & set(planted.SYNONYMS.values())


def test_moved_and_swapped_words_are_the_same_words():
    for name in ("time moved", "neighbours swapped"):
        for right, wrong in cases(name):
            assert sorted(right) == sorted(wrong)
    for right, wrong in cases("neighbours swapped"):
        (one, other) = changed(right, wrong)
        assert one == other[::-1] and wrong[-1] == right[-1]


@pytest.mark.parametrize("name", ["article dropped", "word dropped"])
def test_one_word_is_dropped(name):
    for right, wrong in cases(name):
        assert len(wrong) == len(right) - 1
        (gone,) = [i for i in range(len(right)) if right[:i] + right[i + 1 :] == wrong and i + 1][
            :1
        ]
        assert (right[gone] in ("the", "a", "an")) == (name == "article dropped")


def test_a_wrong_noun_is_one_other_noun():
    for right, wrong in cases("wrong noun"):
        ((one, other),) = changed(right, wrong)
        assert {one, other} <= NOUN_FORMS


def test_a_wrong_ending_is_one_other_form():
    for right, wrong in cases("wrong ending"):
        ((one, other),) = changed(right, wrong)
        assert one[:1] == other[:1] or {one, other} <= {"is", "are", "was", "were"}


def test_a_negation_comes_or_goes():
    words = {"not", "no", "cannot"}
    for right, wrong in cases("yes for no"):
        assert bool(words & set(wrong)) != bool(words & set(right)) or len(right) != len(wrong)


def test_the_tense_is_another_and_the_roles_are_exchanged():
    for right, wrong in cases("wrong tense"):
        assert right[-1] == wrong[-1] and right != wrong
    exchanged = replace(MEANING.clause.subject, noun="dog")
    sentence = replace(MEANING, clause=replace(MEANING.clause, verb="see", object=exchanged))
    fault = next(fault for fault in planted.FAULTS if fault.name == "roles exchanged")
    assert planted.text(sentence) == "the woman saw the dog yesterday ."
    assert fault.plant(sentence, Random(0)) == "the dog saw the woman yesterday ."
    assert fault.plant(MEANING, Random(0)) is None  # books buy no women
