"""Tokens to ids and back: a vocabulary, and a codec, which is a tokenizer with its vocabulary."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

from nmtlib.data.batching import Example, fits, make_example
from nmtlib.data.corpus import Corpus, Pair
from nmtlib.data.tokenizers import (
    DOTTED,
    JOIN_MARK,
    BPETokenizer,
    SpacyTokenizer,
    SubwordMarkTokenizer,
    Tokenizer,
    WhitespaceTokenizer,
    lower,
    without_marks,
)
from nmtlib.errors import require_one_of, shown
from nmtlib.settings import Kind
from nmtlib.specials import BOS, EOS, PAD, SPECIALS, UNK

CLASSES = (WhitespaceTokenizer, SpacyTokenizer, BPETokenizer, SubwordMarkTokenizer)
TOKENIZERS: dict[str, type[Tokenizer]] = {cls.kind: cls for cls in CLASSES}


def is_printable(token: str) -> bool:
    """Whether a token is safe in a line of a terminal, which a translation consists of."""
    return shown(token) == token and not {"\n", "\t"} & {*token}


class Vocab:
    """A two-way table between tokens (strings) and ids (0 .. len - 1).

    The first four entries are always `SPECIALS`, with ids PAD, BOS, EOS and UNK.

    >>> vocab = Vocab.build([["ein", "hund"], ["ein", "ball"]])
    >>> vocab.encode(["ein", "pferd"])
    [4, 3]
    >>> vocab.decode([4, 2])
    ['ein', '<EOS>']
    """

    def __init__(self, tokens: Sequence[str]):
        """`tokens[i]` gets id i.

        Raises ValueError for duplicates, missing specials, and a token that is not a string.
        """
        if (first := tuple(tokens[:4])) != SPECIALS:
            raise ValueError(f"a vocabulary starts with {SPECIALS}; this one starts with {first}")
        if wrong := [token for token in tokens if not isinstance(token, str)]:
            raise ValueError(f"a token is a string, but this vocabulary has {wrong[0]!r}")
        if wrong := [token for token in tokens if not is_printable(token)]:
            raise ValueError(f"a token has no control characters, but this one has: {wrong[0]!a}")
        self.tokens = list(tokens)
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        if len(self.ids) != len(self.tokens):
            twice = [token for token, count in Counter(self.tokens).items() if count > 1]
            raise ValueError(f"a token has one id, but these have several: {twice[:5]}")

    @classmethod
    def build(
        cls, sentences: Iterable[Iterable[str]], *, min_count: int = 1, max_size: int | None = None
    ) -> Vocab:
        """Number the tokens of *training* sentences, most frequent first, ties by alphabet.

        Tokens seen fewer than `min_count` times or with control characters are left out; `max_size`
        bounds the whole table.
        Raises ValueError where `max_size` leaves no room for the specials.
        """
        if max_size is not None and max_size < len(SPECIALS):
            raise ValueError(
                f"max_size={max_size}, but the specials alone take {len(SPECIALS)} entries"
            )
        counts = Counter(token for sentence in sentences for token in sentence)
        frequent = (t for t, count in counts.items() if count >= min_count and t not in SPECIALS)
        tokens = [token for token in frequent if is_printable(token)]
        tokens.sort(key=lambda t: (-counts[t], t))
        return cls([*SPECIALS, *tokens][:max_size])

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self.ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocab) and self.tokens == other.tokens

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Ids of the tokens, UNK for one that is not in the table.  Adds no BOS or EOS."""
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Tokens of the ids, specials included.  Raises ValueError for an id outside the table."""
        ids = [int(i) for i in ids]
        if wrong := [i for i in ids if not 0 <= i < len(self)]:
            raise ValueError(
                f"token id {wrong[0]} is outside this vocabulary of {len(self)} entries"
            )
        return [self.tokens[i] for i in ids]


@dataclass
class Codec:
    """Text <-> ids, through tokens."""

    tokenizer: Tokenizer
    vocab: Vocab

    def encode(self, text: str) -> list[int]:
        """Ids of a sentence, without BOS and EOS."""
        return self.vocab.encode(self.tokenizer.encode(text))

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of several sentences, encoded by all processor cores."""
        return [self.vocab.encode(tokens) for tokens in self.tokenizer.encode_all(texts)]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Tokens up to the first EOS, without PAD and BOS; UNK shows."""
        ids = list(ids)
        ids = ids[: ids.index(EOS)] if EOS in ids else ids
        return self.vocab.decode(i for i in ids if i not in (PAD, BOS))

    def decode(self, ids: Sequence[int]) -> str:
        """The sentence that the ids spell, with the subwords of other tools joined."""
        return without_marks(self.tokenizer.decode(self.tokens(ids)))

    def to_dict(self) -> dict[str, Any]:
        """Everything that JSON can hold; `from_dict` reads it back."""
        return {"tokenizer": self.tokenizer.to_dict(), "tokens": self.vocab.tokens}

    @classmethod
    def from_dict(cls, data: Any, where: str) -> Codec:
        """The codec that `to_dict` described.  Raises ValueError, which begins with `where`."""
        try:
            return cls(from_dict(data["tokenizer"]), Vocab(data["tokens"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{where} does not hold a tokenizer and its vocabulary ({error!r})"
            ) from None

    def to_json(self) -> str:
        """Everything as JSON; `Codec.load` reads it back."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def load(cls, path: str | Path) -> Codec:
        """The codec of a file that an export wrote.

        Raises FileNotFoundError for a missing file, ValueError for one that holds no codec.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"no tokenizer at {path}; is this a complete export?")
        try:
            data = json.loads(path.read_text("utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{path} does not hold a tokenizer and its vocabulary ({error!r})"
            ) from None
        return cls.from_dict(data, str(path))


def from_dict(description: dict) -> Tokenizer:
    """The tokenizer that `Tokenizer.to_dict` described; raises ValueError or TypeError if none."""
    options = dict(description)
    require_one_of("the kind of a tokenizer", TOKENIZERS, kind := options.pop("kind", None))
    return TOKENIZERS[kind](**options)


def build_codecs(
    corpus: Corpus,
    kind: str,
    *,
    target_kind: str = "",
    size: int = 8000,
    min_count: int = 1,
    joint: bool = False,
    lowercase: bool = False,
) -> tuple[Codec, Codec]:
    """The codecs of both sides, made from the training split alone.

    `kind` is a `Kind`; 'given' takes the vocabularies that the corpus is published with.
    `target_kind` is that of the target side, '' for the same.  `joint` makes one vocabulary for
    both sides (and one tokenizer, for 'bpe').  Raises ValueError where these do not fit together.
    """
    kinds = kind, target_kind or kind
    _check_kinds(corpus, kinds, joint)
    texts = [p.source for p in corpus.train], [p.target for p in corpus.train]
    languages = corpus.source_language, corpus.target_language
    dotted = [lowercase and kinds[side] == "bpe" and languages[side] in DOTTED for side in (0, 1)]
    for side in (0, 1):
        if dotted[side]:  # pieces are learned from the letters that they will be
            texts[side][:] = [lower(text, languages[side]) for text in texts[side]]
    tokenizer = partial(_tokenizer, corpus, size=size, lowercase=lowercase)
    if joint and kind == "bpe":
        tokenizers = [tokenizer(0, kind, texts[0] + texts[1])] * 2
    else:
        tokenizers = [tokenizer(side, kinds[side], texts[side]) for side in (0, 1)]

    tokenizers = [
        each.for_dotted() if dotted[side] and isinstance(each, BPETokenizer) else each
        for side, each in enumerate(tokenizers)
    ]

    def vocab(*sides: int) -> Vocab:
        first = tokenizers[sides[0]]
        if kinds[sides[0]] == "given" and corpus.vocabularies:
            return Vocab(corpus.vocabularies[sides[0]])
        if isinstance(first, BPETokenizer):
            return Vocab(first.tokens)
        sentences = (tokenizers[side].encode(text) for side in sides for text in texts[side])
        return Vocab.build(sentences, min_count=min_count, max_size=size)

    vocabs = [vocab(0, 1)] * 2 if joint else [vocab(0), vocab(1)]
    return Codec(tokenizers[0], vocabs[0]), Codec(tokenizers[1], vocabs[1])


def _check_kinds(corpus: Corpus, kinds: tuple[str, str], joint: bool) -> None:
    for kind in kinds:
        require_one_of("tokenizer.kind", get_args(Kind), kind)
    if joint and (kinds[0] != kinds[1] or "given" in kinds):
        raise ValueError(f"a joint vocabulary needs one kind (not given) for both sides: {kinds}")
    if "given" in kinds and corpus.vocabularies is None:
        raise ValueError(
            f"corpus {corpus.name!r} is not published with vocabularies; "
            "use tokenizer.kind whitespace, spacy or bpe"
        )


def _tokenizer(
    corpus: Corpus, side: int, kind: str, texts: list[str], *, size: int, lowercase: bool
) -> Tokenizer:
    """The tokenizer of one side: 0 is the source, 1 the target."""
    if kind == "bpe":
        return BPETokenizer.train(texts, size, lowercase=lowercase)
    if kind == "spacy":
        language = (corpus.source_language, corpus.target_language)[side]
        return SpacyTokenizer(language, lowercase=lowercase)
    if kind == "given" and corpus.vocabularies:
        # Published subwords that carry a mark are looked up with it; it is never stripped.
        subwords = corpus.vocabularies[side]
        if any(subword.endswith(JOIN_MARK) for subword in subwords):
            return SubwordMarkTokenizer(subwords, lowercase=lowercase)
    elif kind != "whitespace":
        raise ValueError(f"no tokenizer is known for the kind {kind!r}; add it here")
    return WhitespaceTokenizer(lowercase=lowercase)


def encode_pairs(
    pairs: Sequence[Pair], source: Codec, target: Codec, max_length: int | None = None
) -> tuple[list[Example], int]:
    """Pairs as ids, and how many were left out as longer than `max_length`, specials included."""
    sources = source.encode_all([p.source for p in pairs])
    targets = target.encode_all([p.target for p in pairs])
    examples = list(map(make_example, sources, targets))
    fitting = [e for e in examples if max_length is None or fits(e, max_length)]
    return fitting, len(examples) - len(fitting)
