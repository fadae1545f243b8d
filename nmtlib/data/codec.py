"""One side of a corpus as ids: a tokenizer and its vocabulary together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmtlib.data.corpus import Corpus
from nmtlib.data.tokenizers import (
    BPETokenizer,
    SpacyTokenizer,
    SubwordMarkTokenizer,
    Tokenizer,
    WhitespaceTokenizer,
    from_dict,
)
from nmtlib.data.vocab import BOS, EOS, PAD, Vocab

KINDS = ("whitespace", "spacy", "bpe", "given")


@dataclass
class Codec:
    """Text <-> ids, through tokens."""

    tokenizer: Tokenizer
    vocab: Vocab

    def encode(self, text: str) -> list[int]:
        """Ids of a sentence, without BOS and EOS."""
        return self.vocab.encode(self.tokenizer.encode(text))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Tokens up to the first EOS; the specials PAD and BOS are left out, UNK shows."""
        ids = list(ids)
        ids = ids[: ids.index(EOS)] if EOS in ids else ids
        return self.vocab.decode(i for i in ids if i not in (PAD, BOS))

    def decode(self, ids: Sequence[int]) -> str:
        """The sentence that the ids spell."""
        return self.tokenizer.decode(self.tokens(ids))

    def to_json(self) -> str:
        """Everything as JSON; `Codec.load` reads it back."""
        return json.dumps({"tokenizer": self.tokenizer.to_dict(), "tokens": self.vocab.tokens}, ensure_ascii=False)

    @classmethod
    def load(cls, path: str | Path) -> Codec:
        """Raises FileNotFoundError for a missing file, ValueError for one that holds no codec."""
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"no tokenizer at {path}; is this a complete run folder?")
        try:
            data = json.loads(path.read_text("utf-8"))
            return cls(from_dict(data["tokenizer"]), Vocab(data["tokens"]))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path} does not hold a tokenizer and its vocabulary ({error!r})") from None


def build_codecs(
    corpus: Corpus,
    kind: str,
    *,
    size: int = 8000,
    min_count: int = 1,
    joint: bool = False,
    lowercase: bool = False,
) -> tuple[Codec, Codec]:
    """The codecs of both sides, made from the training split alone.

    `kind` is one of `KINDS`; 'given' takes the vocabularies that the corpus is published with.  `joint` makes one
    vocabulary for both sides (and one tokenizer, for 'bpe').  Raises ValueError where these do not fit together.
    """
    sources, targets = [p.source for p in corpus.train], [p.target for p in corpus.train]
    if kind == "bpe":
        if joint:
            shared = BPETokenizer.train(sources + targets, size, lowercase=lowercase)
            return (Codec(shared, Vocab(shared.tokens)),) * 2
        tokenizers = [BPETokenizer.train(texts, size, lowercase=lowercase) for texts in (sources, targets)]
        return tuple(Codec(t, Vocab(t.tokens)) for t in tokenizers)
    if kind == "given":
        if corpus.vocabularies is None:
            raise ValueError(
                f"corpus {corpus.name!r} is not published with vocabularies; "
                f"use tokenizer.kind whitespace, spacy or bpe"
            )
        return tuple(Codec(_tokenizer_for(tokens, lowercase), Vocab(tokens)) for tokens in corpus.vocabularies)
    if kind == "whitespace":
        tokenizers = [WhitespaceTokenizer(lowercase=lowercase)] * 2
    elif kind == "spacy":
        tokenizers = [
            SpacyTokenizer(lang, lowercase=lowercase) for lang in (corpus.source_language, corpus.target_language)
        ]
    else:
        raise ValueError(f"tokenizer.kind is one of {', '.join(KINDS)}, not {kind!r}")
    sides = [[t.encode(text) for text in texts] for t, texts in zip(tokenizers, (sources, targets), strict=True)]
    groups: list[Iterable] = [sides[0] + sides[1]] * 2 if joint else sides
    vocabs = [Vocab.build(group, min_count=min_count, max_size=size) for group in groups]
    return tuple(Codec(t, v) for t, v in zip(tokenizers, vocabs, strict=True))


def _tokenizer_for(tokens: list[str], lowercase: bool) -> Tokenizer:
    """The tokenizer that published vocabularies ask for: pieces marked with @@ are looked up, never stripped."""
    if any(token.endswith("@@") for token in tokens):
        return SubwordMarkTokenizer(tokens, lowercase=lowercase)
    return WhitespaceTokenizer(lowercase=lowercase)
