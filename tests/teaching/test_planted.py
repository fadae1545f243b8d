"""Each fault is what its name says, changes no more than that, and is repeatable."""

from dataclasses import replace
from random import Random

from nmtcourse.teaching import planted
from nmtcourse.teaching.course import MEANING
from nmtlib.data import corpora

CORPUS = corpora.load_corpus("toy-de-en")
PAIRS = [*CORPUS.test[:200], *CORPUS.challenge[:50]]
MEANINGS = planted.meanings_of(PAIRS)
RNG = Random(0)
PLANTED = [planted.plant_all(meaning, RNG) for meaning in MEANINGS]


def cases(name):
    """(right words, wrong words) of all sentences that have the fault."""
    pairs = zip(PAIRS, PLANTED, strict=True)
    both = [(p.target.split(), faults[name].split()) for p, faults in pairs if name in faults]
    assert both, f"no sentence has a place for {name}"
    return both


def changed(right, wrong):
    """The words that stand at the same place and differ."""
    assert len(right) == len(wrong)
    return [(a, b) for a, b in zip(right, wrong, strict=True) if a != b]


def test_no_fault_is_the_right_sentence_and_all_are_planted_alike_again():
    for pair, faults in zip(PAIRS, PLANTED, strict=True):
        assert pair.target not in faults.values()
    rng = Random(0)
    assert PLANTED == [planted.plant_all(meaning, rng) for meaning in MEANINGS]


def test_moved_and_swapped_words_are_the_same_words():
    for name in ("time moved", "neighbours swapped"):
        for right, wrong in cases(name):
            assert sorted(right) == sorted(wrong)
    for right, wrong in cases("neighbours swapped"):
        (one, other) = changed(right, wrong)
        assert one == other[::-1] and wrong[-1] == right[-1]


def test_the_tense_is_another_and_the_roles_are_exchanged():
    for right, wrong in cases("wrong tense"):
        assert right[-1] == wrong[-1] and right != wrong
    exchanged = replace(MEANING.clause.subject, noun="dog")
    sentence = replace(MEANING, clause=replace(MEANING.clause, verb="see", object=exchanged))
    fault = next(fault for fault in planted.FAULTS if fault.name == "roles exchanged")
    assert planted.text(sentence) == "the woman saw the dog yesterday ."
    assert fault.plant(sentence, Random(0)) == "the dog saw the woman yesterday ."
    assert fault.plant(MEANING, Random(0)) is None  # books buy no women
