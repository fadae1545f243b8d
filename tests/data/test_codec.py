"""A codec is made from the training split alone, spells what it read, and survives its file."""

import json
from collections import Counter
from typing import get_args

import pytest

from nmtlib.data.codec import Codec, Vocab, _tokenizer, build_codecs
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


def test_all_kinds_are_tested_here():
    assert set(KINDS) == {*MADE, "given"}


def test_a_kind_without_a_tokenizer_is_an_error_and_not_whitespace():
    for kind in KINDS:
        assert _tokenizer(PUBLISHED, 0, kind, ["a b a b"], size=50, lowercase=False)
    with pytest.raises(ValueError, match="no tokenizer is known for the kind 'syllables'"):
        _tokenizer(PUBLISHED, 0, "syllables", [], size=50, lowercase=False)


@pytest.mark.parametrize(
    ("kind", "tokenizer"),
    [("whitespace", WhitespaceTokenizer), ("spacy", SpacyTokenizer), ("bpe", BPETokenizer)],
)
def test_a_kind_is_a_tokenizer(kind, tokenizer):
    assert all(type(codec.tokenizer) is tokenizer for codec in build(kind))


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("kind", MADE)
def test_training_sentences_come_back(kind, joint):
    for codec, texts in zip(build(kind, joint=joint), sentences(kind), strict=True):
        for text in texts:
            ids = codec.encode(text)
            assert ids and not {PAD, BOS, EOS, UNK} & set(ids)
            assert codec.decode(ids) == text


def test_given_vocabularies_keep_their_numbers():
    for codec, tokens in zip(build("given"), GIVEN, strict=True):
        assert codec.vocab == Vocab(tokens)
    source, target = build("given")
    assert source.encode("tom 's na@@ ils .") == [4, 5, 6, 7, 9]
    assert target.encode("汤@@ 姆 的 指甲 。") == [4, 5, 6, 7, 8]
    assert source.decode([4, 5, 6, 7, 9]) == "tom 's nails ."


def test_marked_pieces_are_looked_up_and_never_stripped():
    source, _ = build("given")
    assert isinstance(source.tokenizer, SubwordMarkTokenizer)
    assert source.encode("na@@ ils") == [6, 7]
    assert source.encode("tom@@ ils") == [UNK, 7], "'tom@@' is no entry, and 'tom' is another one"
    assert source.encode("na ils@@") == [UNK, UNK]
    assert source.encode("nails") == [6, 7], "text without marks is cut into the published pieces"


def test_given_vocabularies_without_marks_are_words():
    corpus = Corpus(
        "w", "en", "zh", [Pair("a b", "c")], vocabularies=([*SPECIALS, "a", "b"], [*SPECIALS, "c"])
    )
    source, target = build_codecs(corpus, "given")
    assert type(source.tokenizer) is type(target.tokenizer) is WhitespaceTokenizer
    assert source.encode("b a ab") == [5, 4, UNK]


@pytest.mark.parametrize("kind", ["whitespace", "spacy"])
@pytest.mark.parametrize("joint", [False, True])
def test_the_vocabulary_holds_the_training_words_alone(kind, joint):
    source, target = build(kind, joint=joint)
    words = [
        {t for text in texts for t in codec.tokenizer.encode(text)}
        for codec, texts in zip((source, target), sentences(kind), strict=True)
    ]
    if joint:
        words = [words[0] | words[1]] * 2
    assert [set(c.vocab.tokens) for c in (source, target)] == [{*SPECIALS, *w} for w in words]
    for codec, text in ((source, "Zebra"), (source, "Gnu"), (target, "zebra"), (target, "gnu")):
        assert codec.encode(text) == [UNK], f"{text} stands only in validation or test"
    assert source.tokens([UNK]) == ["<UNK>"], "an unknown word shows"


@pytest.mark.parametrize("joint", [False, True])
def test_bpe_learns_from_the_training_split_alone(joint):
    learned = build("bpe", joint=joint)
    alone = build_codecs(Corpus("tiny", "de", "en", TRAIN), "bpe", joint=joint)
    assert [c.to_json() for c in learned] == [c.to_json() for c in alone]
    assert UNK in learned[0].encode("Zebra"), "no training sentence has a Z"
    full = build_codecs(
        Corpus("tiny", "de", "en", TRAIN + list(CORPUS.validation)), "bpe", joint=joint
    )
    assert UNK not in full[0].encode("Zebra")


@pytest.mark.parametrize("kind", MADE)
def test_joint_means_one_vocabulary(kind):
    source, target = build(kind, joint=True)
    assert source.vocab == target.vocab
    apart = build(kind, joint=False)
    assert apart[0].vocab != apart[1].vocab
    if kind == "bpe":
        assert source.tokenizer == target.tokenizer
        assert source.encode("The dog runs .") == target.encode("The dog runs .")


@pytest.mark.parametrize("target_kind", MADE)
@pytest.mark.parametrize("kind", MADE)
def test_each_side_can_have_a_kind_of_its_own(kind, target_kind):
    source, target = build(kind, target_kind=target_kind)
    assert (source, target) == (build(kind)[0], build(target_kind)[1])


def test_one_side_alone_can_have_the_given_vocabulary():
    source, target = build_codecs(PUBLISHED, "whitespace", target_kind="given")
    assert type(source.tokenizer) is WhitespaceTokenizer and source.vocab != Vocab(GIVEN[0])
    assert target == build("given")[1]


def test_each_side_has_the_rules_of_its_language():
    corpus = Corpus("zh", "en", "zh", [Pair("It's a dog.", "我在2017年")])
    source, target = build_codecs(corpus, "spacy")
    assert source.tokens(source.encode("It's a dog.")) == ["▁It", "'s", "▁a", "▁dog", "."]
    assert target.tokens(target.encode("我在2017年")) == ["▁我", "在", "2017", "年"]


@pytest.mark.parametrize("min_count", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", ["whitespace", "spacy"])
def test_rare_words_become_unknown(kind, min_count):
    for codec, texts in zip(build(kind, min_count=min_count), sentences(kind), strict=True):
        counts = Counter(token for text in texts for token in codec.tokenizer.encode(text))
        frequent = {token for token, count in counts.items() if count >= min_count}
        assert set(codec.vocab.tokens) == {*SPECIALS, *frequent}


def test_joint_counts_both_sides_together():
    corpus = Corpus("c", "de", "en", [Pair("Anna rennt", "Anna runs")])
    assert build_codecs(corpus, "whitespace", min_count=2, joint=True)[0].vocab.tokens == [
        *SPECIALS,
        "Anna",
    ]
    assert build_codecs(corpus, "whitespace", min_count=2, joint=False)[0].vocab.tokens == [
        *SPECIALS
    ]


@pytest.mark.parametrize("size", [5, 7])
def test_size_bounds_the_table_and_keeps_the_frequent_words(size):
    for codec, texts in zip(build("whitespace", size=size), sentences("whitespace"), strict=True):
        assert len(codec.vocab) == size
        words = [word for text in texts for word in text.split()]
        rarest_kept = min(words.count(word) for word in codec.vocab.tokens[len(SPECIALS) :])
        assert all(
            words.count(word) <= rarest_kept for word in set(words) - set(codec.vocab.tokens)
        )


def test_size_bounds_bpe():
    small, large = (build("bpe", size=size)[0] for size in (28, 40))
    assert len(small.vocab) <= 28 < len(large.vocab) <= 40
    assert len(small.encode("Der Hund")) > len(large.encode("Der Hund")), (
        "fewer merges, more pieces"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_lowercase_forgets_capitals(kind):
    text = sentences(kind)[0][0]
    same, different = (build(kind, lowercase=lower)[0] for lower in (True, False))
    assert same.encode(text) == same.encode(text.upper()) == same.encode(text.lower())
    assert UNK not in same.encode(text)
    assert different.encode(text) != different.encode(text.upper())
    assert same.decode(same.encode(text)) == same.decode(same.encode(text)).lower()


def test_tokens_end_at_the_first_end_and_hide_padding():
    source, _ = build("whitespace")
    der, hund = source.encode("Der Hund")
    assert source.decode([BOS, der, hund, EOS, der, PAD]) == "Der Hund"
    assert source.decode([PAD, BOS, EOS, der]) == source.decode([]) == ""
    assert source.tokens([der, UNK, hund]) == ["Der", "<UNK>", "Hund"]
    with pytest.raises(ValueError, match="outside this vocabulary"):
        source.decode([len(source.vocab)])


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_codec_comes_back_from_its_file(kind, lowercase, tmp_path):
    corpus = PUBLISHED if kind == "given" else CORPUS
    texts = [text for p in (*corpus.train, *corpus.test) for text in (p.source, p.target)]
    for number, codec in enumerate(build(kind, lowercase=lowercase)):
        path = tmp_path / f"{number}.json"
        path.write_text(codec.to_json(), "utf-8")
        again = Codec.load(path)
        assert again == codec
        assert again.to_json() == codec.to_json()
        for text in texts:
            assert again.encode(text) == codec.encode(text)
            assert again.decode(again.encode(text)) == codec.decode(codec.encode(text))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.json"):
        Codec.load(tmp_path / "none.json")
    with pytest.raises(FileNotFoundError, match="run"):
        Codec.load(str(tmp_path))


SOUND = {"tokenizer": {"kind": "whitespace"}, "tokens": [*SPECIALS, "a"]}


def test_the_sound_file_of_the_next_test_is_sound(tmp_path):
    path = tmp_path / "source.json"
    path.write_text(json.dumps(SOUND), "utf-8")
    assert Codec.load(path).encode("a b") == [4, UNK]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"tokenizer": {"kind": "whi',
        b"\xff\xfe\x00",
        b"[]",
        b"3",
        b"null",
        b"{}",
        json.dumps(SOUND | {"tokenizer": None}).encode(),
        json.dumps(SOUND | {"tokenizer": "whitespace"}).encode(),
        json.dumps(SOUND | {"tokenizer": {"kind": "words"}}).encode(),
        json.dumps(SOUND | {"tokenizer": {"kind": "whitespace", "size": 3}}).encode(),
        json.dumps(SOUND | {"tokenizer": {"kind": "bpe", "model": "{}"}}).encode(),
        json.dumps(SOUND | {"tokens": None}).encode(),
        json.dumps(SOUND | {"tokens": ["a", "b"]}).encode(),
        json.dumps(SOUND | {"tokens": [*SPECIALS, "a", "a"]}).encode(),
        json.dumps(SOUND | {"tokens": [*SPECIALS, ["a"]]}).encode(),
    ],
)
def test_a_damaged_file_is_named(content, tmp_path):
    path = tmp_path / "source.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="source.json"):
        Codec.load(path)


def test_an_unknown_kind_is_refused_with_the_known_ones():
    for kinds in (("words", ""), ("bpe", "words")):
        with pytest.raises(ValueError, match="'words'") as caught:
            build_codecs(CORPUS, kinds[0], target_kind=kinds[1])
        assert all(kind in str(caught.value) for kind in KINDS)


def test_given_asks_for_a_corpus_with_vocabularies():
    with pytest.raises(ValueError, match="'tiny'.*vocabularies"):
        build_codecs(CORPUS, "given")
    with pytest.raises(ValueError, match="'tiny'.*vocabularies"):
        build_codecs(CORPUS, "bpe", target_kind="given")


@pytest.mark.parametrize("target_kind", ["given", "whitespace", ""])
def test_given_vocabularies_and_two_kinds_cannot_be_made_joint(target_kind):
    for kind in ("given", "bpe" if target_kind else "given"):
        with pytest.raises(ValueError, match="joint"):
            build_codecs(PUBLISHED, kind, target_kind=target_kind, joint=True)


@pytest.mark.parametrize("kind", MADE)
def test_a_size_without_room_for_the_specials_is_refused(kind):
    with pytest.raises(ValueError, match="size"):
        build_codecs(CORPUS, kind, size=3)
