"""Tokenizers split a sentence into tokens and join them again.

One convention keeps the spaces (SentencePiece; Kudo and Richardson 2018): a token that begins the
text or follows a space starts with "▁" (U+2581).  Joining the tokens and turning each "▁" into a
space restores the sentence, so `decode(encode(text))` is the text itself for `SpacyTokenizer` and
`BPETokenizer`, except that

- any run of white space becomes one space, and none is left at the ends;
- `lowercase=True` loses capitals, and `SpacyTokenizer(mark_spaces=False)` the spaces;
- a text is written in Unicode form NFC, and BPE writes <UNK> for a character that training never
  showed.

A text that contains "▁" could not be restored, so it is refused with a ValueError, and every
tokenizer refuses a word of more than 1,000 characters: see `nmtlib.data.corpus.split_words`.
"""

from __future__ import annotations

import functools
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from nmtlib.data.corpus import split_words
from nmtlib.errors import UNSAFE
from nmtlib.specials import SPECIALS, UNK

SPACE_MARK = "▁"  # U+2581
DOTTED = ("tr", "az")  # languages with two letters, I ı and İ i: each has its own small letter
SMALL_I = {"İ": "i", "I": "ı"}
ENCODED_AT_ONCE = 10_000  # sentences; what the library returns is far larger than the tokens


def lower(text: str, language: str) -> str:
    """A text in small letters as its language writes them.

    >>> lower("Işık İyi", "tr"), lower("I", "en")
    ('ışık iyi', 'i')
    """
    if language in DOTTED:
        for capital, small in SMALL_I.items():
            text = text.replace(capital, small)
    return text.lower()


class Tokenizer(ABC):
    """A dataclass whose fields are its options; `kind` is its name in files."""

    kind: ClassVar[str]

    @abstractmethod
    def encode(self, text: str) -> list[str]:
        """The tokens of one sentence."""

    def encode_all(self, texts: Sequence[str]) -> list[list[str]]:
        """The tokens of several sentences."""
        return [self.encode(text) for text in texts]

    @abstractmethod
    def decode(self, tokens: Sequence[str]) -> str:
        """The sentence of the tokens, among which must be no PAD, BOS or EOS."""

    def to_dict(self) -> dict:
        """What builds the same tokenizer again, in values that JSON knows."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]


@dataclass(frozen=True)
class WhitespaceTokenizer(Tokenizer):
    """Split at white space, for a corpus that is already tokenised.

    >>> WhitespaceTokenizer().encode("ein hund läuft .")
    ['ein', 'hund', 'läuft', '.']
    """

    kind = "whitespace"
    lowercase: bool = field(default=False, kw_only=True)

    def encode(self, text: str) -> list[str]:
        """The words of the text.  Raises ValueError for a literal <PAD>, <BOS> or <EOS>."""
        words = split_words(text.lower() if self.lowercase else text)
        if reserved := set(SPECIALS[:UNK]).intersection(words):
            raise ValueError(
                f"the text holds {sorted(reserved)}, symbols of the model; remove or rewrite them"
            )
        return words

    def decode(self, tokens: Sequence[str]) -> str:
        """The tokens with one space between them."""
        return " ".join(tokens)


@dataclass(frozen=True)
class SpacyTokenizer(Tokenizer):
    """Words and punctuation by the rules of a blank spaCy pipeline; nothing to download.

    `language` is "de", "en" or "zh".  Chinese is split into characters, except that adjacent Latin
    letters and digits stay one token.  With `mark_spaces=False` the tokens are plain words.

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
        """The tokens of the text.  Raises ValueError for a "▁"."""
        tokens, after_space = [], True
        for token in _spacy_rules(self.language)(_one_space(text)):
            word = token.text.lower() if self.lowercase else token.text  # the rules read the case
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
    """Byte-pair encoding (Sennrich et al. 2016): from characters, replay the most frequent merges.

    Punctuation and symbols are tokens of their own, so that "dog." and "dog," share "▁dog".
    `model` is the JSON text of a tokenizer of the `tokenizers` library that `train` made.  It is
    never handed to the library, which would run whatever rules a stranger has written into it:
    vocabulary and merges are taken out, and the rest must be what `train` writes.
    """

    kind = "bpe"
    model: str = field(repr=False)
    _tokenizer: ClassVar[tokenizers.Tokenizer]  # set on each object; not one of its options

    def __post_init__(self) -> None:
        try:
            rebuilt = _rebuilt_bpe(json.loads(self.model))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"model is not the JSON text of a BPE tokenizer: {error}") from None
        object.__setattr__(self, "_tokenizer", rebuilt)

    @property
    def lowercase(self) -> bool:
        """Whether a text is read in lower case."""
        return len(self._tokenizer.normalizer) > 1

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int,
        *,
        lowercase: bool = False,
        min_frequency: int = 2,
    ) -> BPETokenizer:
        """Learn at most `vocab_size` tokens, specials included, from *training* sentences.

        Learning ends early when no pair of subwords occurs `min_frequency` times.  Raises
        ValueError for no text, or where `vocab_size` cannot hold the specials and all characters
        of the texts.
        """
        if isinstance(texts, str):
            raise ValueError(f"texts is one string, {texts[:40]!r}; expected a list of sentences")
        # A control character is no part of a language, and no vocabulary holds one.
        texts = [UNSAFE.sub("", _one_space(text)) for text in texts]
        if not any(texts):
            raise ValueError("no text to learn from; expected at least one non-empty sentence")
        tokenizer = _empty_bpe(lowercase)
        trainer = trainers.BpeTrainer(
            vocab_size=max(vocab_size, 0),
            min_frequency=min_frequency,
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
        """All tokens in the order of their ids, `SPECIALS` first."""
        ids = self._tokenizer.get_vocab()
        return sorted(ids, key=ids.__getitem__)

    def encode(self, text: str) -> list[str]:
        """The subwords, <UNK> for an unseen character.  Raises ValueError for a "▁"."""
        return self._tokenizer.encode(_one_space(text)).tokens

    def encode_all(self, texts: Sequence[str]) -> list[list[str]]:
        """The subwords of several sentences, encoded by all processor cores."""
        tokens: list[list[str]] = []
        for first in range(0, len(texts), ENCODED_AT_ONCE):
            block = [_one_space(text) for text in texts[first : first + ENCODED_AT_ONCE]]
            tokens += [encoding.tokens for encoding in self._tokenizer.encode_batch(block)]
        return tokens

    def for_dotted(self) -> BPETokenizer:
        """The same for a language of `DOTTED`: I and İ become small before all else does."""
        model = json.loads(self.model)
        own = json.loads(_empty_bpe(self.lowercase, dotted=True).to_str())
        model["normalizer"] = own["normalizer"]
        return BPETokenizer(json.dumps(model, ensure_ascii=False))

    def merges(self) -> list[tuple[str, str]]:
        """The pairs of subwords that `encode` joins, in the order in which they were learnt."""
        return [(left, right) for left, right in json.loads(self.model)["model"]["merges"]]

    def decode(self, tokens: Sequence[str]) -> str:
        """The text of the subwords."""
        return _join_marked(tokens)


def _rebuilt_bpe(description: dict[str, Any]) -> tokenizers.Tokenizer:
    """A tokenizer of the vocabulary and the merges of a description.

    Raises ValueError where these make none, or where the rest is not what `train` writes: with
    other rules the same text would give other tokens.
    """
    vocab, merges = description["model"]["vocab"], description["model"]["merges"]
    if [*vocab][: len(SPECIALS)] != list(SPECIALS) or [*vocab.values()] != [*range(len(vocab))]:
        raise ValueError("the vocabulary is not numbered from 0 with the specials first")
    pairs = [(str(left), str(right)) for left, right in merges]
    for left, right in pairs:  # the library would panic
        if not {left, right, left + right} <= vocab.keys():
            raise ValueError(f"a merge joins {left!r} and {right!r}, which the vocabulary lacks")
    steps = (description.get("normalizer") or {}).get("normalizers", [])
    dotted = any(step.get("type") == "Replace" for step in steps)
    tokenizer = _empty_bpe({"type": "Lowercase"} in steps, vocab, pairs, dotted=dotted)
    own = json.loads(tokenizer.to_str())
    for part in own.keys() | description.keys():
        if part != "version" and _without_lists(description, part) != _without_lists(own, part):
            raise ValueError(
                f"this byte-pair tokenizer was not trained by nmtlib (its {part} is another one); "
                "train one with tokenizer.kind = 'bpe'"
            )
    return tokenizer


def _without_lists(description: dict[str, Any], part: str) -> Any:
    """A part of a description, of the model without vocabulary, merges and unused options."""
    if part != "model":
        return description.get(part)
    model = description["model"]
    return {key: model[key] for key in model if model[key] and key not in ("vocab", "merges")}


def _empty_bpe(
    lowercase: bool,
    vocab: dict[str, int] | None = None,
    merges: list[tuple[str, str]] | None = None,
    *,
    dotted: bool = False,
) -> tokenizers.Tokenizer:
    """The library's tokenizer, which normalises a text and splits it into words.

    Without vocabulary and merges it can be trained.  `dotted` is for languages of `DOTTED`.
    """
    if vocab is None:
        model = models.BPE(unk_token=SPECIALS[UNK])
    else:
        model = models.BPE(vocab, merges, unk_token=SPECIALS[UNK])
    tokenizer = tokenizers.Tokenizer(model)
    steps: list[Any] = [normalizers.NFC()]
    if dotted:
        steps += [normalizers.Replace(capital, small) for capital, small in SMALL_I.items()]
    if lowercase:
        steps.append(normalizers.Lowercase())
    tokenizer.normalizer = normalizers.Sequence(steps)
    # "▁(" is one token, like all after a space.  Unicode counts "▁" as a symbol, hence (?!▁).
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
        return spacy.blank(language).tokenizer  # faster than the pipeline around it
    except ImportError as error:
        raise ValueError(
            f"spaCy offers no {language!r} pipeline here; de, en and zh work: {error}"
        ) from None


def _is_latin(character: str) -> bool:
    """ASCII letters and digits, and the Latin letters with accents."""
    return character.isalnum() and ord(character) < 0x250


# Corpora that are published in subwords: "na@@ ils" (subword-nmt).
JOIN_MARK = "@@"  # ends a subword whose word continues in the next token (Sennrich et al. 2016)
ENGLISH_ENDING = re.compile(r"(?<=\w)(?=(?:n't|'(?:s|m|d|re|ve|ll))$)")


def without_marks(text: str) -> str:
    """Whole words for the subwords of other tools: "na@@ ils", "▁na ils", "na ##ils" are nails."""
    if text.startswith("▁"):
        text = text.replace(" ", "").replace("▁", " ").strip()
    return re.sub(rf"(?<=[^\s@]){JOIN_MARK}(?: |$)| ?￭ ?| ##(?=\w)", "", text)


@dataclass(frozen=True)
class SubwordMarkTokenizer(Tokenizer):
    """Split at white space, then unknown words into the `pieces` of a vocabulary with `@@`.

    Text that carries such marks stays as it is: a marked token is an entry of the vocabulary, never
    to be stripped.  In other text, an unknown word is separated from its punctuation ("bites."
    becomes "bites ."), from the English endings n't, 's, 'm, 'd, 're, 've, 'll ("don't" becomes "do
    n't"), and then split from the left, longest subword first.  Where that does not work out, the
    word stays whole, to become <UNK>.

    >>> tokenizer = SubwordMarkTokenizer(["tom", "'s", "na@@", "ils", "."])
    >>> tokenizer.encode("tom's nails.")
    ['tom', "'s", 'na@@', 'ils', '.']
    >>> tokenizer.decode(["na@@", "ils", "."])
    'nails .'
    """

    kind = "subword-marks"
    pieces: Collection[str] = field(repr=False)
    _longest: ClassVar[int]  # set on each object; not one of its options
    lowercase: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.pieces, str):
            raise ValueError(
                f"pieces is one string, {self.pieces[:40]!r}; expected a collection of tokens"
            )
        object.__setattr__(self, "pieces", frozenset(self.pieces) - set(SPECIALS))
        object.__setattr__(self, "_longest", max(map(len, self.pieces), default=0))

    def encode(self, text: str) -> list[str]:
        """The words, unknown ones split.  Raises ValueError for a literal <PAD>, <BOS> or <EOS>."""
        words = WhitespaceTokenizer(lowercase=self.lowercase).encode(text)
        if any(word.endswith(JOIN_MARK) for word in words):
            return words
        return [subword for word in words for subword in self._split(word)]

    def decode(self, tokens: Sequence[str]) -> str:
        """The tokens with spaces, but marked subwords joined; punctuation stays apart."""
        return without_marks(" ".join(tokens))

    def to_dict(self) -> dict:
        """As everywhere, with the subwords in alphabetical order."""
        return super().to_dict() | {"pieces": sorted(self.pieces)}

    def _split(self, word: str) -> list[str]:
        """The subwords of a word with its punctuation and ending: "don't." gives do, n't, '.'."""
        if word in self.pieces:
            return [word]
        parts = re.findall(r"\w(?:\S*\w)?|[^\w\s]", word)
        parts = [piece for part in parts for piece in ENGLISH_ENDING.split(part)]
        return [subword for part in parts for subword in self._longest_first(part)]

    def _longest_first(self, word: str) -> list[str]:
        """The word in known subwords, the longest first from the left, or the word itself."""
        # best[i]: the subwords of word[i:], empty where there is no way to split it.
        best: list[list[str]] = [[] for _ in word]
        for start in reversed(range(len(word))):
            if word[start:] in self.pieces:
                best[start] = [word[start:]]
                continue
            for end in range(min(start + self._longest, len(word) - 1), start, -1):
                if (head := word[start:end] + JOIN_MARK) in self.pieces and best[end]:
                    best[start] = [head, *best[end]]
                    break
        return best[0] or [word]
