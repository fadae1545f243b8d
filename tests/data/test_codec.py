"""A codec is made from the training split alone, spells what it read, and survives its file."""

import json
from collections import Counter
from itertools import product
from typing import get_args

import pytest

from nmtlib.data.codec import Codec, Vocab, build_codecs
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.data.tokenizers import (
    BPETokenizer,
    SpacyTokenizer,
    SubwordMarkTokenizer,
    WhitespaceTokenizer,
)
from nmtlib.settings import Kind
from nmtlib.specials import BOS, EOS, PAD, SPECIALS, UNK

KINDS = get_args(Kind)

TRAIN = [
    Pair("Der Hund läuft .", "The dog runs ."),
    Pair("Der Hund schläft .", "The dog sleeps ."),
    Pair("Die Katze läuft .", "The cat runs ."),
    Pair("Die Katze schläft hier .", "The cat sleeps here ."),
]
GIVEN = (
    [*SPECIALS, "tom", "'s", "na@@", "ils", "are", "."],
    [*SPECIALS, "汤@@", "姆", "的", "指甲", "。"],
)
TURKISH = [Pair(f"It is {n}", f"İyi Işık IRMAK {n}") for n in range(40)]
HELD_OUT = {"validation": [Pair("Ein Zebra", "a zebra")], "test": [Pair("Das Gnu", "the gnu")]}
CORPUS = Corpus("tiny", "de", "en", TRAIN, **HELD_OUT)
NAILS = Pair("tom 's na@@ ils .", "汤@@ 姆 的 指甲 。")
PUBLISHED = Corpus("tom", "en", "zh", [NAILS], vocabularies=GIVEN)
MADE = ("whitespace", "spacy", "bpe")  # kinds whose vocabulary is made from the training split


def build(kind: str, **options) -> tuple[Codec, Codec]:
    return build_codecs(PUBLISHED if kind == "given" else CORPUS, kind, **options)


def sentences(kind: str) -> list[list[str]]:
    """The training sentences of both sides."""
    pairs = (PUBLISHED if kind == "given" else CORPUS).train
    return [[p.source for p in pairs], [p.target for p in pairs]]


@pytest.mark.parametrize("kind", KINDS)
def test_training_sentences_come_back_and_so_does_the_codec_from_its_file(kind, tmp_path):
    for joint, lowercase in product({False, kind != "given"}, (False, True)):
        codecs = build(kind, joint=joint, lowercase=lowercase)
        for codec, texts in zip(codecs, sentences(kind), strict=True):
            (path := tmp_path / "codec.json").write_text(codec.to_json(), "utf-8")
            assert Codec.load(path) == codec and Codec.load(str(path)).to_json() == codec.to_json()
            for text in texts:
                ids = codec.encode(text)
                assert ids and not {PAD, BOS, EOS, UNK} & set(ids)
                text = text.lower() if lowercase else text
                assert (
                    codec.decode(ids) == text.replace("@@ ", "") == codec.decode(codec.encode(text))
                )
                assert (codec.encode(text.upper()) == ids) == (lowercase or text == text.upper())


def test_each_side_has_a_kind_of_its_own():
    classes = dict(zip(MADE, (WhitespaceTokenizer, SpacyTokenizer, BPETokenizer), strict=True))
    for kind, target_kind in product(MADE, MADE):
        source, target = build(kind, target_kind=target_kind)
        assert (source, target) == (build(kind)[0], build(target_kind)[1])
        assert type(source.tokenizer) is classes[kind]
    source, target = build_codecs(PUBLISHED, "whitespace", target_kind="given")
    assert source.vocab != Vocab(GIVEN[0]) and target == build("given")[1]


def test_given_vocabularies_keep_their_numbers_and_marks_are_never_stripped():
    source, target = build("given")
    assert (source.vocab, target.vocab) == (Vocab(GIVEN[0]), Vocab(GIVEN[1]))
    assert isinstance(source.tokenizer, SubwordMarkTokenizer)
    assert target.encode("汤@@ 姆 的 指甲 。") == [4, 5, 6, 7, 8]
    assert source.decode([4, 5, 6, 7, 9]) == "tom 's nails ."
    assert source.encode("tom@@ ils") == [UNK, 7], "'tom@@' is no entry, and 'tom' is another one"
    assert source.encode("nails") == [6, 7], "text without marks is cut into the published pieces"
    words = [*SPECIALS, "a", "b"], [*SPECIALS, "c"]
    source, _ = build_codecs(Corpus("w", "en", "zh", [Pair("a", "c")], vocabularies=words), "given")
    assert type(source.tokenizer) is WhitespaceTokenizer and source.encode("b a ab") == [5, 4, UNK]


@pytest.mark.parametrize("joint", [False, True])
def test_codecs_are_made_from_the_training_split_alone(joint):
    bare = Corpus("tiny", "de", "en", TRAIN)
    for kind in MADE:
        codecs = build(kind, joint=joint)
        assert codecs == build_codecs(bare, kind, joint=joint)
        assert UNK in codecs[0].encode("Zebra") and codecs[0].tokens([UNK]) == ["<UNK>"]
        if kind == "bpe":
            continue
        words = [
            {t for text in texts for t in codec.tokenizer.encode(text)}
            for codec, texts in zip(codecs, sentences(kind), strict=True)
        ]
        words = [words[0] | words[1]] * 2 if joint else words
        assert [set(c.vocab.tokens) for c in codecs] == [{*SPECIALS, *w} for w in words]


def test_joint_means_one_vocabulary_that_counts_both_sides():
    for kind in MADE:
        source, target = build(kind, joint=True)
        assert source.vocab == target.vocab
        assert build(kind)[0].vocab != build(kind)[1].vocab
        assert kind != "bpe" or source.tokenizer == target.tokenizer
    corpus = Corpus("c", "de", "en", [Pair("Anna rennt", "Anna runs")])
    for joint in (True, False):
        source, _ = build_codecs(corpus, "whitespace", min_count=2, joint=joint)
        assert source.vocab.tokens == [*SPECIALS, *["Anna"] * joint]


def test_each_side_has_the_rules_of_its_language():
    corpus = Corpus("zh", "en", "zh", [Pair("It's a dog.", "我在2017年")])
    source, target = build_codecs(corpus, "spacy")
    assert source.tokens(source.encode("It's a dog.")) == ["▁It", "'s", "▁a", "▁dog", "."]
    assert target.tokens(target.encode("我在2017年")) == ["▁我", "在", "2017", "年"]


@pytest.mark.parametrize("kind", ["whitespace", "spacy"])
def test_rare_words_become_unknown_and_size_keeps_the_frequent_ones(kind):
    for number, texts in enumerate(sentences(kind)):
        tokenizer = build(kind)[number].tokenizer
        counts = Counter(token for text in texts for token in tokenizer.encode(text))
        for least in (1, 2, 5):
            frequent = {token for token, count in counts.items() if count >= least}
            assert {*build(kind, min_count=least)[number].vocab.tokens} == {*SPECIALS, *frequent}
        kept = build(kind, size=7)[number].vocab.tokens[len(SPECIALS) :]
        assert len(kept) == 3 and min(counts[t] for t in kept) >= max(
            counts[t] for t in counts.keys() - {*kept}
        )


def test_size_bounds_bpe():
    small, large = (build("bpe", size=size)[0] for size in (28, 40))
    assert len(small.vocab) <= 28 < len(large.vocab) <= 40
    assert len(small.encode("Der Hund")) > len(large.encode("Der Hund"))


def test_tokens_end_at_the_first_end_and_hide_padding():
    source, _ = build("whitespace")
    der, hund = source.encode("Der Hund")
    assert source.decode([BOS, der, hund, EOS, der, PAD]) == "Der Hund"
    assert source.decode([PAD, BOS, EOS, der]) == source.decode([]) == ""
    assert source.tokens([der, UNK, hund]) == ["Der", "<UNK>", "Hund"]
    with pytest.raises(ValueError, match="outside this vocabulary"):
        source.decode([len(source.vocab)])


def test_a_missing_file_and_a_damaged_one_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.json"):
        Codec.load(tmp_path / "none.json")
    sound = {"tokenizer": {"kind": "whitespace"}, "tokens": [*SPECIALS, "a"]}
    (path := tmp_path / "source.json").write_text(json.dumps(sound), "utf-8")
    assert Codec.load(path).encode("a b") == [4, UNK]
    wrong = [{"tokenizer": "whitespace"}, {"tokens": None}, {"tokens": [*SPECIALS, ["a"]]}]
    wrong += [{"tokenizer": {"kind": "whitespace", "size": 3}}, {"tokenizer": {"kind": "words"}}]
    damaged = [json.dumps(sound | change).encode() for change in wrong]
    for content in (b"", b"[]", b"{}", b"\xff\xfe\x00", *damaged):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="source.json"):
            Codec.load(path)


@pytest.mark.parametrize(
    ("corpus", "options", "message"),
    [
        (CORPUS, {"kind": "words"}, "given, not 'words'"),
        (CORPUS, {"kind": "bpe", "target_kind": "words"}, "given, not 'words'"),
        (CORPUS, {"kind": "given"}, "'tiny'.*vocabularies"),
        (CORPUS, {"kind": "bpe", "target_kind": "given"}, "'tiny'.*vocabularies"),
        (PUBLISHED, {"kind": "given", "joint": True}, "joint"),
        (CORPUS, {"kind": "bpe", "target_kind": "spacy", "joint": True}, "joint"),
        (CORPUS, {"kind": "bpe", "size": 3}, "size"),
        (CORPUS, {"kind": "spacy", "size": 3}, "size"),
    ],
)
def test_choices_that_do_not_fit_together_are_refused(corpus, options, message):
    with pytest.raises(ValueError, match=message):
        build_codecs(corpus, **options)


def test_pieces_of_a_dotted_language_survive_their_file():
    corpus = Corpus("own", "en", "tr", TURKISH, TURKISH[:2], TURKISH[:2])
    codec = build_codecs(corpus, "bpe", size=100, lowercase=True)[1]
    again = Codec.from_dict(json.loads(codec.to_json()), "here")
    for one in (codec, again):
        assert one.decode(one.encode("Işık İyi")) == "ışık iyi"


def test_a_dotted_language_has_the_pieces_of_its_small_letters():
    """They are learned from the letters that they will be: I is the capital of ı, not of i."""
    small = [Pair("light", "ışık ısınır")] * 3
    capital = [Pair("light", "IŞIK ISINIR")] * 3
    learned = [
        build_codecs(Corpus("own", "en", "tr", pairs, pairs, pairs), "bpe", size=60, lowercase=True)
        for pairs in (small, capital)
    ]
    assert learned[0][1].vocab.tokens == learned[1][1].vocab.tokens
