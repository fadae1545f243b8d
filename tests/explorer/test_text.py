"""The page cuts text as the package does, and joins it again as the package does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmtcourse.explorer.packing import pack_codec
from nmtlib.data.codec import Codec, Vocab
from nmtlib.data.tokenizers import (
    BPETokenizer,
    SpacyTokenizer,
    SubwordMarkTokenizer,
    Tokenizer,
    WhitespaceTokenizer,
)
from nmtlib.specials import SPECIALS, UNK

TRAINING = [
    "Ein Hund läuft, z.B. im Park (schnell)!",
    "It's a dog; it doesn't bark at 7:30 p.m. - twice...",
    "我在2017年喜欢 Transformer 模型。 她有3只猫，don't you know？",
    "Łódź café naïve E=mc² €5 + 3 < 4 ½ Ⅷ",
] * 3
PIECES = [*SPECIALS, "tom", "'s", "na@@", "ils", "ä@@", "ß", ".", "do", "n't", "s@@", "a", "é"]
CODECS = {
    "whitespace": WhitespaceTokenizer(),
    "whitespace, lower case": WhitespaceTokenizer(lowercase=True),
    "bpe": BPETokenizer.train(TRAINING, 130),
    "bpe, lower case": BPETokenizer.train(TRAINING, 120, lowercase=True),
    "pieces": SubwordMarkTokenizer(PIECES),
    "pieces, lower case": SubwordMarkTokenizer(PIECES, lowercase=True),
}
ODD = [
    "",
    " ",
    "  der \t Hund\u3000schläft\x1c.\x85",
    "Tom's nails. don't s'a äß été e\u0301te\u0301 İI ΣΑΣ",
    "na@@ ils",
    "<EOS> und <UNK>",
    "x▁y",
    "\ufeffa 𝒜😀 (a) ((b)) --- 猫。",
    "w" * 1001,
]


def codec(tokenizer: Tokenizer) -> Codec:
    """With a vocabulary that lacks some of the tokens."""
    if isinstance(tokenizer, BPETokenizer):
        return Codec(tokenizer, Vocab(tokenizer.tokens))
    return Codec(tokenizer, Vocab.build(map(tokenizer.encode, TRAINING[:3]), max_size=40))


def sentences() -> list[str]:
    """Odd ones, usual ones, and some that hypothesis makes up; the same ones each time."""
    found = [*ODD, *TRAINING]

    @settings(max_examples=60, derandomize=True, database=None, deadline=None)
    @given(
        st.text()
        | st.lists(st.sampled_from([*"aBéß. ,'-_我½\u0301", "n't", "@@", "tom"])).map("".join)
    )
    def collect(text: str) -> None:
        found.append(text)

    collect()
    return [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in found]


@pytest.mark.slow
def test_a_text_has_the_same_tokens_ids_and_unknown_words(engine_of):
    for name in CODECS:
        package, texts = codec(CODECS[name]), sentences()
        told = {"codec": pack_codec(package, []), "texts": texts}
        (given,) = engine_of().run({"do": "encode", **told})
        refused = 0
        for text, found in zip(texts, given, strict=True):
            try:
                tokens = package.tokenizer.encode(text)
            except ValueError:
                assert "error" in found, f"the package refuses {text!r}"
                refused += 1
                continue
            ids = package.vocab.encode(tokens)
            assert found.get("ids") == ids, f"{text!r}: {found} in place of {tokens}"
            assert found["unknown"] == [number == UNK for number in ids]
        assert refused >= 1 and any(UNK in found.get("ids", []) for found in given)


def test_ids_are_joined_to_the_same_text(engine_of):
    for name in [*CODECS, "spacy", "spacy without marks"]:
        spacy = SpacyTokenizer("en", mark_spaces=name == "spacy")
        package = codec(CODECS.get(name, spacy))
        rows = [[5, 6, 7, 8], [0, 1, 9, 3, 2, 5], [], [*range(4, len(package.vocab))]]
        (given,) = engine_of().run({"do": "decode", "codec": pack_codec(package, []), "ids": rows})
        assert given == [package.decode(ids) for ids in rows]
