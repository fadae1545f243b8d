"""Tokenizers give back the text they were given, cut where they promise, and survive a round trip
to JSON.
"""

import json
import re
import socket
import unicodedata

import pytest
import tokenizers as library
from hypothesis import given, settings
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


# --- one convention for spaces -------------------------------------------------------------------


@pytest.mark.parametrize("language", SENTENCES)
@settings(deadline=None)
@given(text=texts)
def test_spacy_decodes_to_the_same_text(language, text):
    tokenizer = SpacyTokenizer(language)
    assert tokenizer.decode(tokenizer.encode(text)) == one_space(text)


@settings(deadline=None)
@given(text=known_texts)
def test_bpe_decodes_to_the_same_text(text):
    assert BPE.decode(BPE.encode(text)) == unicodedata.normalize("NFC", one_space(text))


@pytest.mark.parametrize("tokenizer", [*map(SpacyTokenizer, SENTENCES), BPE], ids=str)
@settings(deadline=None)
@given(text=known_texts)
def test_a_mark_stands_before_each_word_and_nowhere_else(tokenizer, text):
    tokens = tokenizer.encode(text)
    assert "".join(tokens) == "".join(
        "▁" + word for word in unicodedata.normalize("NFC", text).split()
    )
    assert all("▁" not in token[1:] for token in tokens)


@pytest.mark.parametrize(
    "tokenizer",
    [WhitespaceTokenizer(), SubwordMarkTokenizer(["a"]), SpacyTokenizer("zh"), BPE],
    ids=str,
)
def test_a_word_of_more_than_a_thousand_letters_is_refused(tokenizer):
    assert tokenizer.encode("b " * 2_000)
    with pytest.raises(ValueError, match="1,001 characters"):
        tokenizer.encode("a " + "b" * 1_001)


@pytest.mark.parametrize(
    "tokenizer", [SpacyTokenizer("en"), SpacyTokenizer("en", mark_spaces=False), BPE], ids=str
)
def test_a_text_with_the_mark_itself_is_refused(tokenizer):
    with pytest.raises(ValueError, match="U\\+2581"):
        tokenizer.encode("low ▁ bar")
    with pytest.raises(ValueError, match="U\\+2581"):
        BPETokenizer.train(["low ▁ bar"], 100)


# --- white space ---------------------------------------------------------------------------------


@settings(deadline=None)
@given(text=texts.filter(lambda text: not set(SPECIALS) & set(text.split())))
def test_whitespace_decodes_to_the_same_words(text):
    tokenizer = WhitespaceTokenizer()
    assert tokenizer.decode(tokenizer.encode(text)) == one_space(text)
    assert WhitespaceTokenizer(lowercase=True).encode(text) == text.lower().split()


@pytest.mark.parametrize("tokenizer", [WhitespaceTokenizer(), SubwordMarkTokenizer(["a"])], ids=str)
@pytest.mark.parametrize("special", [SPECIALS[i] for i in (PAD, BOS, EOS)])
def test_a_typed_special_symbol_is_refused(tokenizer, special):
    with pytest.raises(ValueError, match=special):
        tokenizer.encode(f"a {special} a@@ b")


# --- pieces with @@ marks ------------------------------------------------------------------------

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


@settings(deadline=None)
@given(word=st.text("ab", min_size=1, max_size=8), pieces=piece_sets)
def test_a_word_is_cut_longest_piece_first_or_left_whole(word, pieces):
    tokenizer = SubwordMarkTokenizer(pieces)
    expected = next(iter(all_cuts(word, pieces)), [word])
    assert tokenizer.encode(word) == expected
    assert tokenizer.decode(expected) == word


@settings(deadline=None)
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


# --- spaCy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", SENTENCES)
@settings(deadline=None)
@given(text=texts)
def test_spacy_without_marks_gives_the_same_words(language, text):
    marked, plain = SpacyTokenizer(language), SpacyTokenizer(language, mark_spaces=False)
    words = plain.encode(text)
    assert words == [token.removeprefix("▁") for token in marked.encode(text)]
    assert plain.decode(words) == " ".join(words)


@pytest.mark.parametrize("language", SENTENCES)
@pytest.mark.parametrize("mark_spaces", [True, False])
def test_lowercase_cuts_at_the_same_places(language, mark_spaces):
    for sentence in [*SENTENCES[language], "U.S.A. Dr. Groß"]:
        cased, lower = (
            SpacyTokenizer(language, mark_spaces=mark_spaces, lowercase=flag).encode(sentence)
            for flag in (False, True)
        )
        assert lower == [token.lower() for token in cased] != cased or sentence == sentence.lower()


@settings(deadline=None)
@given(text=texts)
def test_chinese_is_cut_into_characters_and_latin_runs(text):
    words = SpacyTokenizer("zh", mark_spaces=False).encode(text)
    run = r"[^\W_\u0250-\U0010ffff]+"  # letters and digits of the Latin blocks
    assert words == re.findall(rf"{run}|\S", one_space(text))


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


# --- byte-pair encoding --------------------------------------------------------------------------


def test_bpe_tokens_are_a_vocabulary_in_the_order_of_the_library():
    vocab = Vocab(BPE.tokens)
    assert vocab.ids == library.Tokenizer.from_str(BPE.model).get_vocab()
    assert len(vocab) <= 160


@settings(deadline=None)
@given(text=any_text)
def test_bpe_gives_only_known_tokens(text):
    assert set(BPE.encode(text)) <= set(BPE.tokens)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["☃", "☂", " ", "a"]), max_size=9).map("".join))
def test_each_unseen_character_becomes_unk(text):
    tokens = BPE.encode(text)
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


@pytest.mark.parametrize("texts", [[], [""], [" \n", ""], "one sentence"])
def test_bpe_needs_a_list_of_texts(texts):
    with pytest.raises(ValueError, match="sentence"):
        BPETokenizer.train(texts, 100)


# --- to_dict and from_dict -----------------------------------------------------------------------

EXAMPLES = [
    WhitespaceTokenizer(),
    WhitespaceTokenizer(lowercase=True),
    SubwordMarkTokenizer({"dog", "do@@", "gs", "."}, lowercase=True),
    SpacyTokenizer("de", mark_spaces=False, lowercase=True),
    SpacyTokenizer("zh"),
    BPE,
    BPETokenizer.train(TRAINING, 150, lowercase=True),
]


@pytest.mark.parametrize("tokenizer", EXAMPLES, ids=str)
def test_from_dict_rebuilds_the_tokenizer(tokenizer):
    again = from_dict(json.loads(json.dumps(tokenizer.to_dict())))
    assert type(again) is type(tokenizer) and again == tokenizer
    for text in [*TRAINING, "Dogs. ☃"]:
        assert again.encode(text) == tokenizer.encode(text)
        assert again.decode(tokenizer.encode(text)) == tokenizer.decode(tokenizer.encode(text))


@pytest.mark.parametrize("tokenizer", EXAMPLES, ids=str)
@pytest.mark.parametrize("at_once", [4, 10_000])
def test_many_at_once_are_cut_as_one_by_one(tokenizer, at_once, monkeypatch):
    monkeypatch.setattr(tokenizers, "ENCODED_AT_ONCE", at_once)
    given = [*TRAINING, "", "Dogs. ☃"]
    assert tokenizer.encode_all(given) == [tokenizer.encode(text) for text in given]
    assert tokenizer.encode_all([]) == []


def test_of_many_texts_none_may_hold_the_mark():
    with pytest.raises(ValueError, match="2581"):
        BPE.encode_all([*TRAINING, "a▁b"])


def test_examples_cover_every_kind_and_differ():
    written = [json.dumps(tokenizer.to_dict()) for tokenizer in EXAMPLES]
    assert len(set(written)) == len(EXAMPLES)
    assert {tokenizer.to_dict()["kind"] for tokenizer in EXAMPLES} == TOKENIZERS.keys()


def test_from_dict_refuses_what_it_cannot_build():
    wrong = [{"kind": "whitespace", "size": 3}, {"kind": "bpe", "model": "{}"}]
    for description in [{}, {"kind": "wordpiece"}, {"kind": "spacy"}, *wrong]:
        with pytest.raises((TypeError, ValueError)):
            from_dict(description)


# --- the published English-Chinese corpus --------------------------------------------------------


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
