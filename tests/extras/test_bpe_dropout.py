"""BPE dropout cuts words otherwise each time, repeats with its seed, and never changes the text."""

import unicodedata
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmtlib.data.batching import token_batches
from nmtlib.data.codec import Codec, build_codecs
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.data.tokenizers import BPETokenizer
from nmtlib.data.vocab import UNK, Vocab
from nmtlib.examples import encode_pairs
from nmtlib.experiment import start_run, train
from nmtlib.extras.bpe_dropout import SAMPLES, Resegmenter, cut, examples_by_epoch
from nmtlib.settings import Settings

TEXTS = [
    "der alte hund läuft langsam über die lange straße .",
    "die alten hunde laufen , weil es regnet !",
    "läufer laufen schneller als langsame hunde ...",
    "the old dogs were running slowly along the longest road .",
    "long-distance runners run ; slower dogs don't .",
] * 3
BPE = BPETokenizer.train(TEXTS, 120)
CODEC = Codec(BPE, Vocab(BPE.tokens))
RANKS = BPE.merges()
known_texts = st.text(alphabet=sorted(set("".join(TEXTS))), max_size=40)


@pytest.mark.parametrize(
    "tokenizer", [BPE, BPETokenizer.train(TEXTS, 120, lowercase=True)], ids=["as is", "lowercase"]
)
@settings(deadline=None)
@given(text=known_texts | st.sampled_from([*TEXTS, "Der ALTE  Hund", "lau\u0308ft"]))
def test_without_dropout_the_words_are_cut_as_byte_pair_encoding_cuts_them(tokenizer, text):
    pieces = [
        piece
        for word in tokenizer.words(text)
        for piece in cut(word, tokenizer.merges(), 0.0, Random(0))
    ]
    vocab = Vocab(tokenizer.tokens)
    assert vocab.encode(pieces) == vocab.encode(
        tokenizer.encode(text)
    )  # a character never seen is <UNK> in both


@settings(deadline=None)
@given(text=known_texts, dropout=st.floats(0, 1), seed=st.integers(0, 99))
def test_whatever_is_left_out_decoding_restores_the_text_and_every_piece_is_known(
    text, dropout, seed
):
    (ids,) = Resegmenter(CODEC, [text], dropout)(seed)
    assert UNK not in ids
    assert CODEC.decode(ids) == unicodedata.normalize("NFC", " ".join(text.split()))


def test_with_every_merge_left_out_only_characters_remain():
    assert cut("läuft", RANKS, 1.0, Random(0)) == list("läuft")


def test_each_merge_is_left_out_with_the_probability_asked_for():
    random, ranks, draws = Random(0), {("a", "b"): 0}, 4000
    whole = sum(cut("ab", ranks, 0.3, random) == ["ab"] for _ in range(draws))
    assert abs(whole / draws - 0.7) < 0.03


def test_a_seed_repeats_and_another_cuts_otherwise():
    first, again = (Resegmenter(CODEC, TEXTS, 0.2) for _ in range(2))
    assert first(1) == again(1) and first(1) != first(2)
    assert first(2) == again(2), "what was drawn before must not matter"


def test_more_dropout_makes_more_pieces_and_none_makes_the_usual_ones():
    lengths = [
        sum(map(len, Resegmenter(CODEC, TEXTS, dropout)(0))) for dropout in (0.0, 0.1, 0.5, 1.0)
    ]
    assert lengths == sorted(set(lengths))
    assert Resegmenter(CODEC, TEXTS, 0.0)(0) == [CODEC.encode(text) for text in TEXTS]


def test_the_occurrences_of_a_word_are_cut_in_several_ways():
    ways = {tuple(ids) for ids in Resegmenter(CODEC, ["langsame"] * 50, 0.4)(0)}
    assert 3 <= len(ways) <= SAMPLES


def test_other_tokenizers_have_one_way_only():
    codec, _ = build_codecs(
        Corpus("c", "de", "en", [Pair(text, text) for text in TEXTS]), "whitespace"
    )
    assert (
        Resegmenter(codec, TEXTS, 0.5)(0)
        == Resegmenter(codec, TEXTS, 0.5)(1)
        == [codec.encode(t) for t in TEXTS]
    )


@pytest.mark.parametrize("dropout", [-0.1, 1.1, float("nan")])
def test_an_impossible_dropout_is_refused(dropout):
    with pytest.raises(ValueError, match="a probability"):
        Resegmenter(CODEC, TEXTS, dropout)


# --- in a training
# ----------------------------------------------------------------------------------

PAIRS = [Pair(source, target) for source, target in zip(TEXTS, TEXTS[1:] + TEXTS[:1], strict=True)]
SETTINGS = Settings.from_dict(
    {
        "tokenizer": {"kind": "bpe", "size": 120, "bpe_dropout": 0.3},
        "model": {
            "d_model": 16,
            "n_heads": 2,
            "n_encoder_layers": 1,
            "n_decoder_layers": 1,
            "d_ff": 16,
        },
        "training": {
            "epochs": 3,
            "max_tokens": 300,
            "warmup": 2,
            "precision": "fp32",
            "device": "cpu",
        },
    }
)


def by_epoch(longest=200, max_tokens=300, pairs=PAIRS):
    return examples_by_epoch(
        pairs, CODEC, CODEC, 0.3, seed=1, max_length=longest, max_tokens=max_tokens
    )


def test_epochs_differ_sides_differ_and_each_pair_keeps_its_place():
    examples = by_epoch()
    assert examples(0) != examples(1) and by_epoch()(1) == examples(1)
    for example, pair in zip(examples(1), PAIRS, strict=True):
        assert (CODEC.decode(example.source), CODEC.decode(example.target)) == (
            pair.source,
            pair.target,
        )
    same = by_epoch(pairs=[Pair(text, text) for text in TEXTS])(0)
    assert any(example.source[:-1] != example.target[1:-1] for example in same)


def length(example):
    return max(len(example.source), len(example.target) - 1)


def test_pairs_that_grow_too_long_are_cut_as_usual():
    plain, _ = encode_pairs(PAIRS, CODEC, CODEC)
    fresh = by_epoch()(0)
    longest = sorted(map(length, fresh))[len(PAIRS) // 2]
    assert max(map(length, plain)) <= longest < max(map(length, fresh))
    for examples in (by_epoch(longest)(0), by_epoch(max_tokens=longest + 1)(0)):
        for example, new, old in zip(examples, fresh, plain, strict=True):
            assert example == (new if length(new) <= longest else old)


def test_whatever_the_batch_holds_every_example_fits_into_it():
    plain, _ = encode_pairs(PAIRS, CODEC, CODEC)
    shortest = max(max(len(e.source), len(e.target)) for e in plain)
    for max_tokens in range(shortest, 2 * shortest):
        assert token_batches(by_epoch(max_tokens=max_tokens)(0), max_tokens)


def test_pairs_that_are_too_long_anyhow_are_left_out():
    plain, _ = encode_pairs(PAIRS, CODEC, CODEC)
    longest = max(map(length, plain)) - 1
    kept, left_out = encode_pairs(PAIRS, CODEC, CODEC, longest)
    examples = by_epoch(longest)(0)
    assert left_out and len(examples) == len(kept) and max(map(length, examples)) <= longest
    assert [CODEC.decode(e.source) for e in examples] == [CODEC.decode(e.source) for e in kept]


def write_settings(folder):
    text = "\n".join(f"{pair.source}\t{pair.target}" for pair in PAIRS)
    (folder / "pairs.tsv").write_text(text, "utf-8")
    files = [str(folder / "pairs.tsv")]
    own = replace(
        SETTINGS.corpus, source_language="de", target_language="en", train=files, validation=files
    )
    return replace(SETTINGS, corpus=own)


def test_a_run_trains_with_other_pieces_each_epoch_and_a_stopped_one_resumes_exactly(
    tmp_path, monkeypatch
):
    chosen, seen = write_settings(tmp_path), []
    monkeypatch.setattr("nmtlib.experiment.draw_curves", lambda *_, **__: None)
    whole = train(
        tmp_path / "whole",
        chosen,
        report=lambda line: None,
        after_epoch=lambda trainer: seen.append([e.source for e in trainer.feed.examples]),
    )
    assert len(seen) == 3 and seen[0] != seen[1] != seen[2]
    with monkeypatch.context() as patch:
        patch.setattr(
            "nmtlib.training.trainer.Trainer.must_stop", lambda self: self.progress.epoch == 1
        )
        train(tmp_path / "run", chosen, report=lambda line: None)
    resumed = train(tmp_path / "run", report=lambda line: None)
    assert [r.validation_nll for r in resumed] == [r.validation_nll for r in whole]
    assert whole[0].train_loss != whole[1].train_loss


def test_translation_is_cut_as_usual_and_dropout_without_bpe_is_refused(tmp_path):
    chosen = write_settings(tmp_path)
    corpus = Corpus("c", "de", "en", PAIRS, PAIRS)
    start_run(tmp_path / "run", chosen, corpus)
    source = Codec.load(tmp_path / "run" / "source.json")
    assert (
        source.encode(TEXTS[0])
        == source.encode(TEXTS[0])
        == build_codecs(corpus, "bpe", size=120)[0].encode(TEXTS[0])
    )
    spaces = replace(chosen, tokenizer=replace(chosen.tokenizer, kind="whitespace"))
    with pytest.raises(
        ValueError, match="bpe_dropout needs tokenizer.kind or tokenizer.target_kind bpe"
    ):
        start_run(tmp_path / "other", spaces, corpus)
    assert not (tmp_path / "other").exists()
