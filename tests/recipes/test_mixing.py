"""Real and synthetic examples in one epoch."""

from collections import Counter
from dataclasses import replace

import pytest

from nmtcourse.recipes.mixing import in_both_directions, mixed_by_epoch, with_synthetic
from nmtcourse.recipes.recipe import CourseRecipe, train
from nmtlib.data.batching import make_example
from nmtlib.data.codec import build_codecs, encode_pairs
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.experiment import Material
from nmtlib.settings import Settings
from nmtlib.specials import SPECIALS

REAL = [make_example([10 + i], [1]) for i in range(6)]
SYNTHETIC = [make_example([100 + i], [2]) for i in range(10)]


@pytest.mark.parametrize("ratio", [0.5, 1.5, 4.0])
def test_an_epoch_has_all_real_pairs_and_takes_none_again_before_all(ratio):
    examples, taken = mixed_by_epoch(REAL, SYNTHETIC, ratio, seed=1), []
    for epoch in range(9):
        found = examples(epoch)
        assert found[: len(REAL)] == REAL
        assert len(found) == len(REAL) + round(ratio * len(REAL))
        taken += found[len(REAL) :]
    for last in range(1, len(taken) + 1):
        counts = Counter(example.source[0] for example in taken[:last])
        counts.update({100 + i: 0 for i in range(10)})
        assert max(counts.values()) - min(counts.values()) <= 1


def test_an_epoch_depends_on_seed_and_epoch_alone():
    first, again, other = (mixed_by_epoch(REAL, SYNTHETIC, 1, seed=s) for s in (1, 1, 2))
    assert first(3) == again(3) != other(3)
    below = mixed_by_epoch(REAL, SYNTHETIC, 1, seed=-2)(3)
    assert len(below) == len(first(3)) and below not in (first(3), other(3))
    assert first(0)[len(REAL) :] != first(1)[len(REAL) :]


def test_synthetic_pairs_that_tell_of_an_evaluation_split_are_left_out():
    held_out = {"validation": [Pair("ein Hund", "a dog")], "test": [Pair("eine Katze", "a cat")]}
    corpus = Corpus("own-de-en", "de", "en", train=[Pair("a", "b")], **held_out)
    leaks = [("Ein Hund!", "some dog"), ("die Katze", "a cat ."), ("<BT> eine Katze", "one cat")]
    given = [Pair(*sides) for sides in (*leaks, ("a", "B"), ("ein Pferd", "a horse"))]
    found = with_synthetic(corpus, iter(given))
    assert found.synthetic == given[3:] and found.notes[-1].startswith("2 synthetic pairs; 3 left")
    assert found.reversed().synthetic == [pair.reversed() for pair in given[3:]]
    assert found.train == corpus.train and not corpus.synthetic


def test_a_held_out_pair_without_a_word_leaves_no_other_out():
    corpus = Corpus("own-de-en", "de", "en", validation=[Pair("...", "!"), Pair("ja", "yes")])
    given = [Pair("nein", "no"), Pair("?", "what"), Pair("ja", "yeah")]
    assert with_synthetic(corpus, given).synthetic == given[:2]


def test_both_directions_double_what_is_trained_and_validated_on_alone():
    one, two = Pair("ein Hund", "a dog"), Pair("eine Katze", "a cat")
    corpus = Corpus("own-de-en", "de", "en", train=[one], validation=[two], test=[two])
    found = in_both_directions(corpus)
    assert found.train == [one, one.reversed()] and found.validation == [two, two.reversed()]
    assert found.test == [two] and not found.synthetic
    made = Pair("<bt> eine Katze", "a cat")  # what a machine wrote is not turned round
    assert in_both_directions(replace(corpus, synthetic=[made])).synthetic == [made]


CORPUS = Corpus("own", "de", "en", train=[Pair("a b", "b a")] * 9, validation=[Pair("b", "a")])


def test_synthetic_pairs_of_which_none_would_be_read_are_refused():
    for pairs, ratio in (([Pair("b", "c")], 1.0), ([Pair("c", "d")], 0.05)):  # a leak; too few
        recipe = CourseRecipe(synthetic=["pairs.tsv"], synthetic_ratio=ratio)
        corpus, codecs = with_synthetic(CORPUS, pairs), build_codecs(CORPUS, "whitespace")
        training, _ = encode_pairs(corpus.train, *codecs)
        with pytest.raises(ValueError, match="would take none of"):
            recipe.mix(Settings(), Material(corpus, codecs, training, (), print))


def test_published_vocabularies_cannot_be_read_both_ways(tmp_path):
    published = replace(CORPUS, vocabularies=([*SPECIALS, "a"], [*SPECIALS, "b"]))
    recipe = {"name": "course", "both_directions": True}
    settings = Settings().changed({"tokenizer": {"kind": "given"}, "recipe": recipe})
    with pytest.raises(ValueError, match="both_directions: the vocabularies"):
        train(tmp_path / "run", settings, corpus=published)
    assert not (tmp_path / "run").exists()
