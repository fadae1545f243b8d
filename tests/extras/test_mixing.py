"""Real and synthetic examples in one epoch."""

from collections import Counter
from dataclasses import replace
from itertools import chain

import pytest

from nmtlib.data.batching import make_example
from nmtlib.data.codec import build_codecs
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.examples import load_corpus, load_corpus_to_score, read_examples
from nmtlib.experiment import start_run
from nmtlib.extras.mixing import in_both_directions, mixed_by_epoch, with_synthetic
from nmtlib.sections import CorpusSettings
from nmtlib.settings import Settings
from nmtlib.specials import SPECIALS

REAL = [make_example([10 + i], [1]) for i in range(6)]
SYNTHETIC = [make_example([100 + i], [2]) for i in range(10)]


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.5, 4.0])
def test_an_epoch_has_all_real_pairs_and_its_share_of_the_others(ratio):
    examples = mixed_by_epoch(REAL, SYNTHETIC, ratio, seed=1)
    for epoch in range(7):
        found = examples(epoch)
        assert found[: len(REAL)] == REAL
        assert len(found) == len(REAL) + round(ratio * len(REAL))


@pytest.mark.parametrize("ratio", [0.5, 1.5, 4.0])
def test_none_is_taken_again_before_all_have_been_taken(ratio):
    examples = mixed_by_epoch(REAL, SYNTHETIC, ratio, seed=1)
    taken = list(chain.from_iterable(examples(epoch)[len(REAL) :] for epoch in range(9)))
    for last in range(1, len(taken) + 1):
        counts = Counter(example.source[0] for example in taken[:last])
        counts.update({100 + i: 0 for i in range(10)})
        assert max(counts.values()) - min(counts.values()) <= 1


def test_an_epoch_depends_on_seed_and_epoch_alone():
    first, again, other = (mixed_by_epoch(REAL, SYNTHETIC, 1, seed=s) for s in (1, 1, 2))
    assert first(3) == again(3) != other(3)
    assert first(0)[len(REAL) :] != first(1)[len(REAL) :]


def test_synthetic_pairs_that_tell_of_an_evaluation_split_are_left_out():
    corpus = Corpus(
        "own-de-en",
        "de",
        "en",
        train=[Pair("a", "b")],
        validation=[Pair("ein Hund", "a dog")],
        test=[Pair("eine Katze", "a cat")],
    )
    given = [
        Pair("Ein Hund!", "some dog"),
        Pair("die Katze", "a cat ."),
        Pair("<BT> eine Katze", "one cat"),
        Pair("a", "B"),
        Pair("ein Pferd", "a horse"),
    ]
    found = with_synthetic(corpus, iter(given))
    assert found.synthetic == given[3:] and found.notes[-1].startswith("2 synthetic pairs; 3 left")
    assert found.reversed().synthetic == [pair.reversed() for pair in given[3:]]
    assert found.train == corpus.train and not corpus.synthetic


def test_a_held_out_pair_without_a_word_leaves_no_other_out():
    corpus = Corpus("own-de-en", "de", "en", validation=[Pair("...", "!"), Pair("ja", "yes")])
    given = [Pair("nein", "no"), Pair("?", "what"), Pair("ja", "yeah")]
    assert with_synthetic(corpus, given).synthetic == given[:2]


def test_a_run_is_scored_on_its_own_direction_and_on_no_synthetic_pair(tmp_path):
    for name in ("train", "validation", "test"):
        (tmp_path / f"{name}.tsv").write_text("ein Hund\ta dog\n", "utf-8")
    given = {name: [str(tmp_path / f"{name}.tsv")] for name in ("train", "validation", "test")}
    given |= {"source_language": "de", "target_language": "en", "synthetic": ["gone.tsv"]}
    settings = CorpusSettings(both_directions=True, **given)
    assert load_corpus_to_score(settings).validation == [Pair("ein Hund", "a dog")]
    doubled = load_corpus(replace(settings, synthetic=[]))
    assert doubled.validation == [Pair("ein Hund", "a dog"), Pair("a dog", "ein Hund")]


def test_both_directions_double_what_is_trained_and_validated_on_alone():
    one, two = Pair("ein Hund", "a dog"), Pair("eine Katze", "a cat")
    corpus = Corpus("own-de-en", "de", "en", train=[one], validation=[two], test=[two])
    found = in_both_directions(corpus)
    assert found.train == [one, one.reversed()] and found.validation == [two, two.reversed()]
    assert found.test == [two] and not found.synthetic


CORPUS = Corpus("own", "de", "en", train=[Pair("a b", "b a")] * 9, validation=[Pair("b", "a")])
WORDS = {"tokenizer": {"kind": "whitespace"}, "corpus": {"synthetic": ["pairs.tsv"]}}


@pytest.mark.parametrize(
    ("pairs", "ratio"), [([Pair("b", "c")], 1.0), ([Pair("c", "d")], 0.05)], ids=["leak", "ratio"]
)
def test_synthetic_pairs_of_which_none_would_be_read_are_refused(pairs, ratio):
    settings = Settings.from_dict({**WORDS, "training": {"synthetic_ratio": ratio}})
    corpus, said = with_synthetic(CORPUS, pairs), []
    codecs = build_codecs(CORPUS, "whitespace")
    with pytest.raises(ValueError, match="would take none of"):
        read_examples(settings, corpus, *codecs, said.append)
    assert corpus.notes[-1] in said, "how many are left out is said"


def test_a_ratio_that_no_memory_holds_is_refused():
    with pytest.raises(ValueError, match="synthetic_ratio must be greater than 0, at most 1000"):
        Settings.from_dict({"training": {"synthetic_ratio": 1e308}})


def test_published_vocabularies_cannot_be_read_both_ways(tmp_path):
    published = replace(CORPUS, vocabularies=([*SPECIALS, "a"], [*SPECIALS, "b"]))
    settings = Settings.from_dict(
        {"tokenizer": {"kind": "given"}, "corpus": {"both_directions": True}}
    )
    with pytest.raises(ValueError, match="both_directions: the vocabularies"):
        start_run(tmp_path / "run", settings, published)
    assert not (tmp_path / "run").exists()


def test_a_negative_seed_is_a_seed():
    orders = [mixed_by_epoch(REAL, SYNTHETIC, 1.0, seed=seed)(0) for seed in (-1, -2, 1)]
    assert all(len(order) == 2 * len(REAL) for order in orders)
    assert orders[0] != orders[1] != orders[2]


def test_what_a_machine_wrote_is_not_said_in_the_other_direction():
    one, made = Pair("ein Hund", "a dog"), Pair("<bt> eine Katze", "a cat")
    corpus = Corpus("own-de-en", "de", "en", train=[one], synthetic=[made])
    assert in_both_directions(corpus).synthetic == [made]
