"""Tokenizers cut a sentence into token strings and join them again; a `Vocab` numbers the strings.

One convention keeps the spaces (SentencePiece; Kudo and Richardson 2018): a token that begins the
text or follows a space starts with "▁" (U+2581).  Joining the tokens and turning each "▁" into a
space restores the sentence, so `decode(encode(text))` is the text itself for `SpacyTokenizer` and
`BPETokenizer`, except that

- any run of white space becomes one space, and none is left at the ends;
- `lowercase=True` forgets capitals, and `SpacyTokenizer(mark_spaces=False)` the spaces;
- BPE writes the text in Unicode form NFC, and a character that training never showed as <UNK>.

A text that itself holds a "▁" could not be restored: it is refused with a ValueError.  So is, by
every tokenizer, a word of more than 1,000 characters: see `nmtlib.data.corpus.split_words`.
"""

from __future__ import annotations

import functools
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from nmtlib.data.corpus import split_words
from nmtlib.data.vocab import SPECIALS, UNK

SPACE_MARK = "▁"  # U+2581
ENCODED_AT_ONCE = 10_000  # sentences: what the library makes of one is far larger than its pieces


class Tokenizer(ABC):
    """What the package asks of a tokenizer, a dataclass whose fields are its options."""

    kind: ClassVar[str]  # the name of the class in files

    @abstractmethod
    def encode(self, text: str) -> list[str]:
        """The tokens of one sentence."""

    def encode_all(self, texts: Sequence[str]) -> list[list[str]]:
        """The tokens of each of some sentences."""
        return [self.encode(text) for text in texts]

    @abstractmethod
    def decode(self, tokens: Sequence[str]) -> str:
        """The sentence that the tokens stand for; PAD, BOS and EOS are to be taken out before."""

    def to_dict(self) -> dict:
        """All that is needed to build the same tokenizer, in values that JSON knows."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]


@dataclass(frozen=True)
class WhitespaceTokenizer(Tokenizer):
    """Split at white space: for a corpus whose tokens are already set apart.

    >>> WhitespaceTokenizer().encode("ein hund läuft .")
    ['ein', 'hund', 'läuft', '.']
    """

    kind = "whitespace"
    lowercase: bool = field(default=False, kw_only=True)

    def encode(self, text: str) -> list[str]:
        """The words of the text.  Raises ValueError for a literal <PAD>, <BOS> or <EOS>."""
        found = split_words(text.lower() if self.lowercase else text)
        if reserved := set(SPECIALS[:UNK]).intersection(found):
            raise ValueError(
                f"the text holds {sorted(reserved)}, symbols of the model; remove or rewrite them"
            )
        return found

    def decode(self, tokens: Sequence[str]) -> str:
        """The tokens with one space between them."""
        return " ".join(tokens)


@dataclass(frozen=True)
class SpacyTokenizer(Tokenizer):
    """Words and punctuation by the rules of a blank spaCy pipeline; nothing to download.

    `language` is "de", "en" or "zh".  Chinese is cut into characters, but Latin letters and digits
    that stand together stay one token.  With `mark_spaces=False` the tokens are plain words, as in
    the classic tutorials.

    >>> SpacyTokenizer("en").encode("It's a dog.")
    ['▁It', "'s", '▁a', '▁dog', '.']
    >>> SpacyTokenizer("zh", mark_spaces=False).encode("我在2017年")
    ['我', '在', '2017', '年']
    """

    kind = "spacy"
    language: str
    mark_spaces: bool = field(default=True, kw_only=True)
    lowercase: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        _spacy_rules(self.language)  # an unknown language must fail here, not at the first sentence

    def encode(self, text: str) -> list[str]:
        """The tokens of the text.  Raises ValueError if the text holds "▁"."""
        tokens, after_space = [], True
        for token in _spacy_rules(self.language)(_one_space(text)):
            # Lower-cased only now, because the rules read the case.
            word = token.text.lower() if self.lowercase else token.text
            if after_space:
                tokens.append(SPACE_MARK + word)
            elif self.language == "zh" and _is_latin(tokens[-1][-1]) and _is_latin(word[0]):
                tokens[-1] += word
            else:
                tokens.append(word)
            after_space = bool(token.whitespace_)
        return tokens if self.mark_spaces else [token.removeprefix(SPACE_MARK) for token in tokens]

    def decode(self, tokens: Sequence[str]) -> str:
        """The text of the tokens; without marks, all tokens with one space between them."""
        return _join_marked(tokens) if self.mark_spaces else " ".join(tokens)


@dataclass(frozen=True)
class BPETokenizer(Tokenizer):
    """Byte-pair encoding: from characters, replay the merges that training found most frequent.

    Punctuation and symbols stand alone, so that "dog." and "dog," share the piece "▁dog".  `model`
    is the JSON text of a tokenizer of the `tokenizers` library; `train` makes one.  Source:
    Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units".
    """

    kind = "bpe"
    model: str = field(repr=False)
    _tokenizer: ClassVar[tokenizers.Tokenizer]  # each object has its own, but no option of it

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "_tokenizer", tokenizers.Tokenizer.from_str(self.model))
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"model is not the JSON text of a BPE tokenizer: {error}") from None

    @classmethod
    def train(
        cls, texts: Iterable[str], vocab_size: int, *, lowercase: bool = False
    ) -> BPETokenizer:
        """Learn at most `vocab_size` tokens, specials included, from *training* sentences.

        The order of the sentences does not matter.  Fewer tokens come out where no pair of pieces
        is left that occurs twice.  Raises ValueError where there is no text, or where `vocab_size`
        cannot hold the specials and all characters of the texts.
        """
        if isinstance(texts, str):
            raise ValueError(f"texts is one string, {texts[:40]!r}; expected a list of sentences")
        texts = [_one_space(text) for text in texts]
        if not any(texts):
            raise ValueError("no text to learn from; expected at least one non-empty sentence")
        tokenizer = _empty_bpe(lowercase)
        trainer = trainers.BpeTrainer(
            vocab_size=max(vocab_size, 0),
            min_frequency=2,
            special_tokens=list(SPECIALS),
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        if (needed := tokenizer.get_vocab_size()) > vocab_size:
            raise ValueError(
                f"vocab_size is {vocab_size}, but the {len(SPECIALS)} specials and the characters "
                f"of these texts already make {needed}; choose a vocab_size well above that"
            )
        # An "added token" is also found inside a text: a typed "<EOS>" would end the sentence.
        model = json.loads(tokenizer.to_str()) | {"added_tokens": []}
        return cls(json.dumps(model, ensure_ascii=False))

    @property
    def tokens(self) -> list[str]:
        """All tokens in the order of their ids, `SPECIALS` first: what `Vocab` takes."""
        ids = self._tokenizer.get_vocab()
        return sorted(ids, key=ids.__getitem__)

    def encode(self, text: str) -> list[str]:
        """The pieces, <UNK> for an unseen character.  Raises ValueError if the text holds "▁"."""
        return self._tokenizer.encode(_one_space(text)).tokens

    def encode_all(self, texts: Sequence[str]) -> list[list[str]]:
        """The pieces of each of some sentences; all processor cores cut them."""
        found: list[list[str]] = []
        for first in range(0, len(texts), ENCODED_AT_ONCE):
            block = [_one_space(text) for text in texts[first : first + ENCODED_AT_ONCE]]
            found += [encoding.tokens for encoding in self._tokenizer.encode_batch(block)]
        return found

    def words(self, text: str) -> list[str]:
        """The words and punctuation marks that `encode` cuts, one by one, into pieces."""
        normal = self._tokenizer.normalizer.normalize_str(_one_space(text))
        return [word for word, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(normal)]

    def merges(self) -> dict[tuple[str, str], int]:
        """The pairs of pieces that `encode` joins, and their rank: the lowest is joined first."""
        merges = json.loads(self.model)["model"]["merges"]
        return {(left, right): rank for rank, (left, right) in enumerate(merges)}

    def decode(self, tokens: Sequence[str]) -> str:
        """The text of the pieces."""
        return _join_marked(tokens)


def _empty_bpe(lowercase: bool) -> tokenizers.Tokenizer:
    """The library's tokenizer before training: how a text is normalised and cut into words."""
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token=SPECIALS[UNK]))
    steps = [normalizers.NFC(), normalizers.Lowercase()] if lowercase else [normalizers.NFC()]
    tokenizer.normalizer = normalizers.Sequence(steps)
    # "▁(" is one piece, like every token after a space; to Unicode "▁" is a symbol too: so (?!▁).
    punctuation = tokenizers.Regex(rf"{SPACE_MARK}?(?!{SPACE_MARK})[\p{{P}}\p{{S}}]")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(SPACE_MARK), pre_tokenizers.Split(punctuation, "isolated")]
    )
    return tokenizer


def _one_space(text: str) -> str:
    if SPACE_MARK in text:
        raise ValueError(
            f'the text holds "{SPACE_MARK}" (U+2581), which marks spaces inside tokens: '
            f"{text[:60]!r}; replace it first, for example by an underscore"
        )
    return " ".join(split_words(text))


def _join_marked(tokens: Sequence[str]) -> str:
    return "".join(tokens).replace(SPACE_MARK, " ").strip()


@functools.cache
def _spacy_rules(language: str) -> Any:
    import spacy

    try:
        # The rules alone are faster than the pipeline around them.
        return spacy.blank(language).tokenizer
    except ImportError as error:
        raise ValueError(
            f"spaCy offers no {language!r} pipeline here; de, en and zh work: {error}"
        ) from None


def _is_latin(character: str) -> bool:
    """ASCII letters and digits, and the Latin letters with accents."""
    return character.isalnum() and ord(character) < 0x250
