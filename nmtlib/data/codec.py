"""One side of a corpus as ids: a tokenizer and its vocabulary together."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
        return json.dumps(
            {"tokenizer": self.tokenizer.to_dict(), "tokens": self.vocab.tokens}, ensure_ascii=False
        )

    @classmethod
    def load(cls, path: str | Path) -> Codec:
        """Raises FileNotFoundError for a missing file, ValueError for one that holds no codec."""
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"no tokenizer at {path}; is this a complete run folder?")
        try:
            data = json.loads(path.read_text("utf-8"))
            return cls(from_dict(data["tokenizer"]), Vocab(data["tokens"]))
        except (
            ValueError,
            KeyError,
            TypeError,
        ) as error:  # ValueError: no JSON, no UTF-8, no tokenizer, no vocabulary
            raise ValueError(
                f"{path} does not hold a tokenizer and its vocabulary ({error!r})"
            ) from None


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

    `kind` is one of `KINDS`; 'given' takes the vocabularies that the corpus is published with.
    `target_kind` is that of the target side, '' for the same.  `joint` makes one vocabulary for
    both sides (and one tokenizer, for 'bpe'). Raises ValueError where these do not fit together.
    """
    kinds, languages = (kind, target_kind or kind), (corpus.source_language, corpus.target_language)
    if unknown := set(kinds) - set(KINDS):
        raise ValueError(f"tokenizer.kind is one of {', '.join(KINDS)}, not {unknown.pop()!r}")
    if joint and (kinds[0] != kinds[1] or kind == "given"):
        raise ValueError(
            f"a joint vocabulary needs one kind of tokenizer for both sides, and not 'given': {kinds}"
        )
    if "given" in kinds and corpus.vocabularies is None:
        raise ValueError(
            f"corpus {corpus.name!r} is not published with vocabularies; use tokenizer.kind whitespace, spacy or bpe"
        )
    texts = [p.source for p in corpus.train], [p.target for p in corpus.train]
    if kind == "bpe" and joint:
        shared = BPETokenizer.train(texts[0] + texts[1], size, lowercase=lowercase)
        return (Codec(shared, Vocab(shared.tokens)),) * 2

    def build(side: int) -> Codec:
        if kinds[side] == "given":
            tokens = corpus.vocabularies[side]
            return Codec(_tokenizer_for(tokens, lowercase), Vocab(tokens))
        if kinds[side] == "bpe":
            tokenizer = BPETokenizer.train(texts[side], size, lowercase=lowercase)
            return Codec(tokenizer, Vocab(tokenizer.tokens))
        sides = (0, 1) if joint else (side,)
        tokenizers = {
            s: SpacyTokenizer(languages[s], lowercase=lowercase)
            if kinds[s] == "spacy"
            else WhitespaceTokenizer(lowercase=lowercase)
            for s in sides
        }
        sentences = (tokenizers[s].encode(text) for s in sides for text in texts[s])
        return Codec(tokenizers[side], Vocab.build(sentences, min_count=min_count, max_size=size))

    return build(0), build(1)


def _tokenizer_for(tokens: list[str], lowercase: bool) -> Tokenizer:
    """The tokenizer that published vocabularies ask for: pieces marked with @@ are looked up, never
    stripped.
    """
    if any(token.endswith("@@") for token in tokens):
        return SubwordMarkTokenizer(tokens, lowercase=lowercase)
    return WhitespaceTokenizer(lowercase=lowercase)
