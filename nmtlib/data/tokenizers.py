"""Tokenizers cut a sentence into token strings and join them again; a `Vocab` numbers the strings.

One convention keeps the spaces (SentencePiece; Kudo and Richardson 2018): a token that begins the
text or follows a space starts with "▁" (U+2581).  Joining the tokens and turning each "▁" into a
space restores the sentence, so `decode(encode(text))` is the text itself for `SpacyTokenizer` and
`BPETokenizer`, except that

- any run of white space becomes one space, and none is left at the ends;
- `lowercase=True` forgets capitals, `SpacyTokenizer(mark_spaces=False)` forgets where the spaces
  were;
- BPE writes the text in Unicode form NFC, and a character that training never showed becomes <UNK>.

A text that itself holds a "▁" could not be restored: it is refused with a ValueError.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from nmtlib.data.vocab import SPECIALS, UNK

SPACE_MARK = "▁"  # U+2581
JOIN_MARK = "@@"  # ends a piece that goes on in the next token (subword-nmt; Sennrich et al. 2016)


class Tokenizer(Protocol):
    """What the rest of the package asks of a tokenizer."""

    def encode(self, text: str) -> list[str]:
        """The tokens of one sentence."""

    def decode(self, tokens: Sequence[str]) -> str:
        """The sentence that the tokens stand for; PAD, BOS and EOS are to be taken out before."""

    def to_dict(self) -> dict:
        """All that `from_dict` needs to build the same tokenizer, in values that JSON knows."""


@dataclass(frozen=True)
class WhitespaceTokenizer:
    """Split at white space: for a corpus whose tokens are already set apart.

    >>> WhitespaceTokenizer().encode("ein hund läuft .")
    ['ein', 'hund', 'läuft', '.']
    """

    lowercase: bool = field(default=False, kw_only=True)

    def encode(self, text: str) -> list[str]:
        """The words of the text.  Raises ValueError for a literal <PAD>, <BOS> or <EOS>."""
        return _words(text.lower() if self.lowercase else text)

    def decode(self, tokens: Sequence[str]) -> str:
        """The tokens with one space between them."""
        return " ".join(tokens)

    def to_dict(self) -> dict:
        """What `from_dict` reads."""
        return {"kind": "whitespace", **asdict(self)}


@dataclass(frozen=True)
class SubwordMarkTokenizer:
    """Split at white space, then cut unknown words into the `pieces` of a corpus segmented with
    `@@`.

    Text that carries such marks stays as it is: a marked token is an entry of the vocabulary, never
    to be stripped.  In other text, a word that is no piece is freed of its punctuation ("bites."
    becomes "bites ."), of the English endings n't, 's, 'm, 'd, 're, 've, 'll ("don't" becomes "do
    n't"), and then cut from the left, longest piece first.  Where no cut fits, the word stays
    whole, to become <UNK>. A corpus's own sentence is read alike: without marks, its unknown words
    are cut too.

    >>> tokenizer = SubwordMarkTokenizer(["tom", "'s", "na@@", "ils", "."])
    >>> tokenizer.encode("tom's nails.")
    ['tom', "'s", 'na@@', 'ils', '.']
    >>> tokenizer.decode(["na@@", "ils", "."])
    'nails .'
    """

    pieces: Collection[str] = field(repr=False)
    lowercase: bool = field(default=False, kw_only=True)

    def __post_init__(self):
        if isinstance(self.pieces, str):
            raise ValueError(
                f"pieces is one string, {self.pieces[:40]!r}; expected a collection of tokens"
            )
        object.__setattr__(self, "pieces", frozenset(self.pieces) - set(SPECIALS))

    def encode(self, text: str) -> list[str]:
        """The words, unknown ones in pieces.  Raises ValueError for a literal <PAD>, <BOS> or
        <EOS>.
        """
        words = _words(text.lower() if self.lowercase else text)
        if any(word.endswith(JOIN_MARK) for word in words):
            return words
        parts = [
            part for word in words for part in ([word] if word in self.pieces else _set_apart(word))
        ]
        return [piece for part in parts for piece in _cut(part, self.pieces)]

    def decode(self, tokens: Sequence[str]) -> str:
        """The tokens with one space between them and marked pieces joined; punctuation stays apart."""
        return " ".join(tokens).replace(f"{JOIN_MARK} ", "").removesuffix(JOIN_MARK)

    def to_dict(self) -> dict:
        """What `from_dict` reads."""
        return {"kind": "subword-marks", "pieces": sorted(self.pieces), "lowercase": self.lowercase}


@dataclass(frozen=True)
class SpacyTokenizer:
    """Words and punctuation by the rules of a blank spaCy pipeline ("de", "en", "zh"); nothing to
    download.

    Chinese is cut into characters, but Latin letters and digits that stand together stay one token.
    With `mark_spaces=False` the tokens are plain words, as in the classic tutorials.

    >>> SpacyTokenizer("en").encode("It's a dog.")
    ['▁It', "'s", '▁a', '▁dog', '.']
    >>> SpacyTokenizer("zh", mark_spaces=False).encode("我在2017年")
    ['我', '在', '2017', '年']
    """

    language: str
    mark_spaces: bool = field(default=True, kw_only=True)
    lowercase: bool = field(default=False, kw_only=True)

    def __post_init__(self):
        _spacy_rules(self.language)  # an unknown language must fail here, not at the first sentence

    def encode(self, text: str) -> list[str]:
        """The tokens of the text.  Raises ValueError if the text holds "▁"."""
        tokens, after_space = [], True
        for token in _spacy_rules(self.language)(_one_space(text)):
            word = (
                token.text.lower() if self.lowercase else token.text
            )  # only now: the rules read the case
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

    def to_dict(self) -> dict:
        """What `from_dict` reads."""
        return {"kind": "spacy", **asdict(self)}


@dataclass(frozen=True)
class BPETokenizer:
    """Byte-pair encoding: start from characters and replay the merges that training found most
    frequent.

    Punctuation and symbols stand alone, so that "dog." and "dog," share the piece "▁dog".  `model`
    is the JSON text of a tokenizer of the `tokenizers` library; `train` makes one. Source: Sennrich
    et al. 2016, "Neural Machine Translation of Rare Words with Subword Units".
    """

    model: str = field(repr=False)

    def __post_init__(self):
        try:
            object.__setattr__(self, "_tokenizer", tokenizers.Tokenizer.from_str(self.model))
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"model is not the JSON text of a BPE tokenizer: {error}") from None

    @classmethod
    def train(
        cls, texts: Iterable[str], vocab_size: int, *, lowercase: bool = False
    ) -> BPETokenizer:
        """Learn at most `vocab_size` tokens, specials included, from *training* sentences in any
        order.

        Fewer come out where no pair of pieces is left that occurs twice.  Raises ValueError where
        there is no text, or where `vocab_size` cannot hold the specials and all characters of the
        texts.
        """
        if isinstance(texts, str):
            raise ValueError(f"texts is one string, {texts[:40]!r}; expected a list of sentences")
        texts = [_one_space(text) for text in texts]
        if not any(texts):
            raise ValueError(
                "there is no text to learn from; expected at least one non-empty sentence"
            )
        tokenizer = tokenizers.Tokenizer(models.BPE(unk_token=SPECIALS[UNK]))
        steps = [normalizers.NFC(), normalizers.Lowercase()] if lowercase else [normalizers.NFC()]
        tokenizer.normalizer = normalizers.Sequence(steps)
        # "▁(" is one piece, like every token after a space; to Unicode "▁" is a symbol too, hence
        # (?!▁).
        punctuation = tokenizers.Regex(rf"{SPACE_MARK}?(?!{SPACE_MARK})[\p{{P}}\p{{S}}]")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Metaspace(SPACE_MARK), pre_tokenizers.Split(punctuation, "isolated")]
        )
        trainer = trainers.BpeTrainer(
            vocab_size=max(vocab_size, 0),
            min_frequency=2,
            special_tokens=list(SPECIALS),
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        if (needed := tokenizer.get_vocab_size()) > vocab_size:
            raise ValueError(
                f"vocab_size is {vocab_size}, but the {len(SPECIALS)} specials and the characters of these "
                f"texts already make {needed}; choose a vocab_size well above that"
            )
        # An "added token" is also found inside a text: a typed "<EOS>" would end the sentence.
        return cls(
            json.dumps(json.loads(tokenizer.to_str()) | {"added_tokens": []}, ensure_ascii=False)
        )

    @property
    def tokens(self) -> list[str]:
        """All tokens in the order of their ids, `SPECIALS` first: what `Vocab` takes."""
        ids = self._tokenizer.get_vocab()
        return sorted(ids, key=ids.get)

    def encode(self, text: str) -> list[str]:
        """The pieces of the text, <UNK> for an unseen character.  Raises ValueError if the text
        holds "▁".
        """
        return self._tokenizer.encode(_one_space(text)).tokens

    def words(self, text: str) -> list[str]:
        """The words and punctuation marks that `encode` cuts, one by one, into pieces."""
        normal = self._tokenizer.normalizer.normalize_str(_one_space(text))
        return [word for word, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(normal)]

    def merges(self) -> dict[tuple[str, str], int]:
        """The pairs of pieces that `encode` joins, and their rank: the lowest is joined first."""
        return {
            (left, right): rank
            for rank, (left, right) in enumerate(json.loads(self.model)["model"]["merges"])
        }

    def decode(self, tokens: Sequence[str]) -> str:
        """The text of the pieces."""
        return _join_marked(tokens)

    def to_dict(self) -> dict:
        """What `from_dict` reads."""
        return {"kind": "bpe", **asdict(self)}


_KINDS = {
    "whitespace": WhitespaceTokenizer,
    "subword-marks": SubwordMarkTokenizer,
    "spacy": SpacyTokenizer,
    "bpe": BPETokenizer,
}


def from_dict(d: dict) -> Tokenizer:
    """The tokenizer that `to_dict` described.  Raises ValueError for an unknown kind or wrong
    options.
    """
    options = dict(d)
    kind = options.pop("kind", None)
    if kind not in _KINDS:
        raise ValueError(f"unknown kind of tokenizer {kind!r}; expected one of {', '.join(_KINDS)}")
    try:
        return _KINDS[kind](**options)
    except TypeError as error:
        raise ValueError(
            f"cannot build a {kind} tokenizer from {sorted(options)}: {error}"
        ) from None


def _words(text: str) -> list[str]:
    words = text.split()
    if reserved := {"<PAD>", "<BOS>", "<EOS>"}.intersection(words):
        raise ValueError(
            f"the text holds {sorted(reserved)}, symbols of the model; remove or rewrite them"
        )
    return words


def _one_space(text: str) -> str:
    if SPACE_MARK in text:
        raise ValueError(
            f'the text holds "{SPACE_MARK}" (U+2581), which marks spaces inside tokens: {text[:60]!r}; '
            f"replace it first, for example by an underscore"
        )
    return " ".join(text.split())


def _join_marked(tokens: Sequence[str]) -> str:
    return "".join(tokens).replace(SPACE_MARK, " ").strip()


def _set_apart(word: str) -> list[str]:
    parts = re.findall(r"\w(?:\S*\w)?|[^\w\s]", word)
    return [
        piece
        for part in parts
        for piece in re.split(r"(?<=\w)(?=(?:n't|'(?:s|m|d|re|ve|ll))$)", part)
    ]


def _cut(word: str, pieces: Collection[str]) -> list[str]:
    """The word in known pieces, the longest first from the left; the word itself where no cut fits."""
    if word in pieces:
        return [word]
    longest = max(map(len, pieces), default=0)
    best: list[list[str]] = [[]] * len(
        word
    )  # best[i]: the pieces of word[i:], empty where no cut fits
    for start in reversed(range(len(word))):
        if word[start:] in pieces:
            best[start] = [word[start:]]
            continue
        for end in range(min(start + longest, len(word) - 1), start, -1):
            head = word[start:end] + JOIN_MARK
            if head in pieces and best[end]:
                best[start] = [head, *best[end]]
                break
    return best[0] or [word]


@functools.cache
def _spacy_rules(language: str):
    import spacy

    try:
        return spacy.blank(
            language
        ).tokenizer  # the rules alone are faster than the pipeline around them
    except ImportError as error:
        raise ValueError(
            f"spaCy offers no {language!r} pipeline here; de, en and zh work: {error}"
        ) from None


def _is_latin(character: str) -> bool:
    return (
        character.isalnum() and ord(character) < 0x250
    )  # ASCII and the Latin letters with accents
