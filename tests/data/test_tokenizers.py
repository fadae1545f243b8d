"""Tokenizers give back the text they were given, cut where they promise; so does their JSON."""

import json
import re
import socket
import unicodedata
from itertools import product

import pytest
import tokenizers as library
from hypothesis import given
from hypothesis import strategies as st

from nmtcourse.doctor.known import check
from nmtlib.data import tokenizers
from nmtlib.data.codec import TOKENIZERS, Vocab, from_dict
from nmtlib.data.corpora import cache_folder
from nmtlib.data.tokenizers import (
    BPETokenizer,
    SpacyTokenizer,
    SubwordMarkTokenizer,
    WhitespaceTokenizer,
)
from nmtlib.specials import BOS, EOS, PAD, SPECIALS, UNK

SENTENCES = {
    "de": ["Ein Hund läuft, z.B. im Park (schnell)!", "Weil's regnet, bleibt Dr. Groß zu Hause."],
    "en": ["It's a dog; it doesn't bark.", 'Mr. Smith said "no" at 7:30 p.m. - twice...'],
    "zh": ["我在2017年喜欢 Transformer 模型。", "她有3只猫，don't you know？"],
}
TRAINING = [sentence for sentences in SENTENCES.values() for sentence in sentences] * 3
BPE = BPETokenizer.train(TRAINING, 160)

any_text = st.text().filter(lambda text: "▁" not in text)
sentence_like = st.lists(
    st.sampled_from([*"aB7é我。,.'- \t\n　", "n't", "<EOS>", "dog"]), max_size=12
).map("".join)
texts = any_text | sentence_like | st.sampled_from(TRAINING)
known_texts = st.text(alphabet=sorted(set("".join(TRAINING))), max_size=40)


def one_space(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("language", SENTENCES)
@given(text=texts)
def test_spacy_decodes_to_the_same_text_and_without_marks_has_the_same_words(language, text):
    marked, plain = SpacyTokenizer(language), SpacyTokenizer(language, mark_spaces=False)
    tokens, words = marked.encode(text), plain.encode(text)
    assert marked.decode(tokens) == one_space(text)
    assert words == [token.removeprefix("▁") for token in tokens]
    assert plain.decode(words) == " ".join(words)
    if language == "zh":  # characters, and runs of letters and digits of the Latin blocks
        run = r"[^\W_\u0250-\U0010ffff]+"
        assert words == re.findall(rf"{run}|\S", one_space(text))


@given(text=known_texts)
def test_bpe_decodes_to_the_same_text(text):
    assert BPE.decode(BPE.encode(text)) == unicodedata.normalize("NFC", one_space(text))


@given(text=known_texts)
def test_a_mark_stands_before_each_word_and_nowhere_else(text):
    for tokenizer in (*map(SpacyTokenizer, SENTENCES), BPE):
        tokens = tokenizer.encode(text)
        assert "".join(tokens) == "".join(f"▁{word}" for word in text.split())
        assert all("▁" not in token[1:] for token in tokens)


def test_a_word_of_more_than_a_thousand_letters_and_the_mark_itself_are_refused():
    spacy, words = (SpacyTokenizer("zh"), SpacyTokenizer("en", mark_spaces=False)), ["a"]
    for tokenizer in (WhitespaceTokenizer(), SubwordMarkTokenizer(words), *spacy, BPE):
        assert tokenizer.encode("b " * 2_000)
        with pytest.raises(ValueError, match="1,001 characters"):
            tokenizer.encode("a " + "b" * 1_001)
    calls = [tokenizer.encode for tokenizer in (*spacy, BPE)]
    calls += [lambda text: BPE.encode_all(["a", text]), lambda text: BPETokenizer.train([text], 99)]
    for call in calls:
        with pytest.raises(ValueError, match="U\\+2581"):
            call("low ▁ bar")


@given(text=texts.filter(lambda text: not set(SPECIALS) & set(text.split())))
def test_whitespace_decodes_to_the_same_words(text):
    tokenizer = WhitespaceTokenizer()
    assert tokenizer.decode(tokenizer.encode(text)) == one_space(text)
    assert WhitespaceTokenizer(lowercase=True).encode(text) == text.lower().split()


def test_a_typed_special_symbol_is_refused():
    for special in (SPECIALS[i] for i in (PAD, BOS, EOS)):
        for tokenizer in (WhitespaceTokenizer(), SubwordMarkTokenizer(["a"])):
            with pytest.raises(ValueError, match=special):
                tokenizer.encode(f"a {special} a@@ b")


piece_sets = st.sets(
    st.text("ab", min_size=1, max_size=3).flatmap(lambda p: st.sampled_from([p, p + "@@"]))
)


def all_cuts(word: str, pieces: set[str]) -> list[list[str]]:
    """Every way to write the word in known pieces, the longest first piece in front."""
    cuts = [[word]] if word in pieces else []
    for end in range(len(word) - 1, 0, -1):
        if (head := word[:end] + "@@") in pieces:
            cuts += [[head, *rest] for rest in all_cuts(word[end:], pieces)]
    return cuts


@given(word=st.text("ab", min_size=1, max_size=8), pieces=piece_sets)
def test_a_word_is_cut_longest_piece_first_or_left_whole(word, pieces):
    tokenizer = SubwordMarkTokenizer(pieces)
    expected = next(iter(all_cuts(word, pieces)), [word])
    assert tokenizer.encode(word) == expected
    assert tokenizer.decode(expected) == word


@given(words=st.lists(st.text("ab.", min_size=1, max_size=4)), pieces=piece_sets)
def test_text_with_marks_stays_as_it_is(words, pieces):
    text = " ".join([*words, "bi@@", "ting"])
    assert SubwordMarkTokenizer(pieces).encode(text) == text.split()


def test_raw_english_becomes_the_words_of_the_corpus():
    words = "i do n't it 's o'clock mr. bi@@ ting tom , . \" it@@ 7:00".split()
    tokenizer = SubwordMarkTokenizer(words, lowercase=True)
    raw = "I don't, Mr. \"Tom\": it's biting Tom's o'clock 7:00."
    cut = "i do n't , mr. \" tom \" : it 's bi@@ ting tom 's o'clock 7:00 ."
    assert tokenizer.encode(raw) == cut.split()
    assert tokenizer.decode(["bi@@", "ting", "na@@"]) == "biting na"


def test_specials_are_no_pieces_and_a_string_is_no_collection():
    assert SubwordMarkTokenizer([*SPECIALS, "a"]).pieces == {"a"}
    assert "<UNK>" not in SubwordMarkTokenizer(SPECIALS).encode("<UNK>")
    with pytest.raises(ValueError, match="one string"):
        SubwordMarkTokenizer("abc")


@pytest.mark.parametrize("language", SENTENCES)
def test_lowercase_cuts_at_the_same_places(language):
    for sentence, marks in product([*SENTENCES[language], "U.S.A. Dr. Groß"], (True, False)):
        cased, lower = (
            SpacyTokenizer(language, mark_spaces=marks, lowercase=flag).encode(sentence)
            for flag in (False, True)
        )
        assert lower == [token.lower() for token in cased]


def test_german_and_english_rules_set_punctuation_and_clitics_apart():
    assert SpacyTokenizer("en").encode("He didn't go.") == ["▁He", "▁did", "n't", "▁go", "."]
    german = SpacyTokenizer("de").encode("Er kam z.B. (spät).")
    assert german == ["▁Er", "▁kam", "▁z.B.", "▁(", "spät", ")", "."]


def test_spacy_needs_no_network_and_refuses_unknown_languages(monkeypatch):
    def no_network(*args, **kwargs):
        raise AssertionError("a blank pipeline must not open a connection")

    monkeypatch.setattr(socket, "socket", no_network)
    tokenizers._spacy_rules.cache_clear()
    for language in SENTENCES:
        SpacyTokenizer(language)
    with pytest.raises(ValueError, match="'qq'"):
        SpacyTokenizer("qq")


def test_bpe_tokens_are_a_vocabulary_in_the_order_of_the_library():
    vocab = Vocab(BPE.tokens)
    assert vocab.ids == library.Tokenizer.from_str(BPE.model).get_vocab()
    assert len(vocab) <= 160


@given(st.lists(st.sampled_from(["☃", "☂", " ", "a"]), max_size=9).map("".join))
def test_each_unseen_character_becomes_unk(text):
    tokens = BPE.encode(text)
    assert {*tokens} <= {*BPE.tokens}
    assert tokens.count(SPECIALS[UNK]) == text.count("☃") + text.count("☂")
    assert BPE.decode(tokens) == one_space(re.sub("[☃☂]", "<UNK>", text))


def test_bpe_learns_frequent_words_but_never_across_punctuation_or_spaces():
    bpe = BPETokenizer.train(["the dog.", "the dog, the dog.", "(the dog)"] * 20, 100)
    assert bpe.encode("the dog.") == ["▁the", "▁dog", "."]
    assert bpe.encode("(the dog)") == ["▁(", "the", "▁dog", ")"]
    inside = [token for token in bpe.tokens if token not in SPECIALS and len(token.lstrip("▁")) > 1]
    assert all(re.fullmatch(r"▁?\w+", token) for token in inside)


def test_bpe_does_not_learn_what_occurs_once():
    tokens = BPETokenizer.train(["dog dog", "xylophone"], 100).tokens
    assert "▁dog" in tokens
    assert not [token for token in tokens if len(token) > 1 and token.lstrip("▁") in "xylophone"]


def test_bpe_depends_on_the_texts_alone():
    again = BPETokenizer.train(iter(TRAINING), 160)
    assert again == BPE == BPETokenizer.train(reversed(TRAINING), 160)
    assert BPETokenizer.train(TRAINING, 150) != BPE


def test_bpe_reads_typed_special_symbols_as_text():
    bpe = BPETokenizer.train([*TRAINING, "<PAD> <BOS> <EOS> <UNK>"] * 9, 400)
    for tokenizer in (bpe, from_dict(bpe.to_dict())):
        tokens = tokenizer.encode("a <EOS><PAD> <UNK>")
        assert not set(tokens) & set(SPECIALS)
        assert tokenizer.decode(tokens) == "a <EOS><PAD> <UNK>"


def test_bpe_composes_accents_and_lowers_case_on_request():
    decomposed = unicodedata.normalize("NFD", "Ein Hund läuft")
    assert decomposed != "Ein Hund läuft" and BPE.encode(decomposed) == BPE.encode("Ein Hund läuft")
    lower = BPETokenizer.train(TRAINING, 160, lowercase=True)
    assert lower.decode(lower.encode("EIN Hund")) == "ein hund"
    assert not any(token != token.lower() for token in lower.tokens if token not in SPECIALS)


def test_bpe_vocabulary_must_hold_every_character():
    texts = ["abc cab", "b."]
    needed = len(SPECIALS) + len(set("abc.▁"))
    assert len(BPETokenizer.train(texts, needed).tokens) == needed
    for size in (needed - 1, 4, 0, -3):
        with pytest.raises(ValueError, match=f"{needed}"):
            BPETokenizer.train(texts, size)
    for empty in ([], [" \n", ""], "one sentence"):
        with pytest.raises(ValueError, match="sentence"):
            BPETokenizer.train(empty, 100)


EXAMPLES = [
    WhitespaceTokenizer(),
    WhitespaceTokenizer(lowercase=True),
    SubwordMarkTokenizer({"dog", "do@@", "gs", "."}, lowercase=True),
    SpacyTokenizer("de", mark_spaces=False, lowercase=True),
    SpacyTokenizer("zh"),
    BPE,
    BPETokenizer.train(TRAINING, 150, lowercase=True),
]


def test_from_dict_rebuilds_each_kind():
    assert {tokenizer.kind for tokenizer in EXAMPLES} == TOKENIZERS.keys()
    for tokenizer in EXAMPLES:
        again = from_dict(json.loads(json.dumps(tokenizer.to_dict())))
        assert type(again) is type(tokenizer) and again == tokenizer
        for text in [*TRAINING, "Dogs. ☃"]:
            assert again.encode(text) == tokenizer.encode(text)


@pytest.mark.parametrize("at_once", [4, 10_000])
def test_many_at_once_are_cut_as_one_by_one(at_once, monkeypatch):
    monkeypatch.setattr(tokenizers, "ENCODED_AT_ONCE", at_once)
    given = [*TRAINING, "", "Dogs. ☃"]
    for tokenizer in EXAMPLES:
        assert tokenizer.encode_all(given) == [tokenizer.encode(text) for text in given]
        assert tokenizer.encode_all([]) == []


def test_from_dict_refuses_what_it_cannot_build():
    wrong = [{"kind": "whitespace", "size": 3}, {"kind": "bpe", "model": "{}"}]
    for description in [{}, {"kind": "wordpiece"}, {"kind": "spacy"}, *wrong]:
        with pytest.raises((TypeError, ValueError)):
            from_dict(description)


@pytest.mark.slow
def test_the_marked_corpus_stays_token_for_token():
    if not check("cmn-en-zh").ok:
        pytest.skip("cmn-en-zh is not in the cache; fetch it with: nmtlib data fetch cmn-en-zh")
    folder = cache_folder() / "cmn-eng-simple"
    vocabulary = json.loads((folder / "word2int_en.json").read_text(encoding="utf-8"))
    english, chinese = SubwordMarkTokenizer(vocabulary), WhitespaceTokenizer()
    for split in ("training", "validation", "testing"):
        for line in (folder / f"{split}.txt").read_text(encoding="utf-8").splitlines():
            source, target = line.split("\t")
            assert chinese.encode(target) == target.split()
            if "@@" in source or set(source.split()) <= set(vocabulary):
                assert english.encode(source) == source.split()
            assert english.decode(english.encode(source)) == source.strip().replace("@@ ", "")


# Rules that a stranger may write into source.json; given to the library they hang or panic.
HOSTILE = {
    "a split that backtracks": {
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": "(x+x+)+y"},
            "behavior": "Isolated",
            "invert": False,
        }
    },
    "a replacement that backtracks": {
        "normalizer": {"type": "Replace", "pattern": {"Regex": "(x+x+)+y"}, "content": "x"}
    },
    "a table that is none": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    "a text that grows": {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 1000}
                for _ in range(3)
            ],
        }
    },
    "no normalizer": {"normalizer": None},
    "added tokens": {"added_tokens": [{"id": 4, "content": "dog", "special": True}]},
    "a decoder": {"decoder": {"type": "Fuse"}},
    "a part of the future": {"rules": ["any"]},
    "no model": {"model": None},
    "a model of another kind": {"model": {"type": "Unigram", "vocab": [["a", 0.0]]}},
}
OPTIONS = {
    "dropout": 0.5,
    "end_of_word_suffix": "</w>",
    "unk_token": "a",
    "ignore_merges": True,
    "byte_fallback": True,
    "vocab": {"a": 0},
    "merges": [["a", "nowhere"]],
}


@pytest.mark.parametrize("name", [*HOSTILE, *OPTIONS])
def test_a_strangers_bpe_is_rebuilt_or_refused_and_never_interpreted(name):
    trained = BPETokenizer.train(["a dog . a dog ?", "dogs , dogs"], 60)
    description = json.loads(trained.model)
    assert BPETokenizer(trained.model).encode("a dog !") == trained.encode("a dog !")
    if name in HOSTILE:
        description |= HOSTILE[name]
    else:
        description["model"][name] = OPTIONS[name]
    with pytest.raises(ValueError, match="BPE tokenizer"):
        BPETokenizer(json.dumps(description))


def test_a_rebuilt_bpe_is_the_one_that_was_trained():
    for lowercase in (False, True):
        trained = BPETokenizer.train(["Ein Hund läuft . (Ja!)", "ein Hund , e\u0301"] * 2, 90)
        text = "Ein (Hund) läuft, e\u0301 \U0001f415!"
        interpreted = library.Tokenizer.from_str(trained.model)
        assert interpreted.encode(text).tokens == trained.encode(text), lowercase
