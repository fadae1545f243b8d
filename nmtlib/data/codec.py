"""One side of a corpus as ids: a tokenizer and its vocabulary together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nmtlib.data.corpus import Corpus
from nmtlib.data.subwords import JOIN_MARK, SubwordMarkTokenizer, without_marks
from nmtlib.data.tokenizers import BPETokenizer, SpacyTokenizer, Tokenizer, WhitespaceTokenizer
from nmtlib.data.vocab import BOS, EOS, PAD, Vocab
from nmtlib.errors import require_one_of

KINDS = ("whitespace", "spacy", "bpe", "given")


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

    def to_json(self) -> str:
        """Everything as JSON; `Codec.load` reads it back."""
        data = {"tokenizer": self.tokenizer.to_dict(), "tokens": self.vocab.tokens}
        return json.dumps(data, ensure_ascii=False)

    @classmethod
    def load(cls, path: str | Path) -> Codec:
        """Raises FileNotFoundError for a missing file, ValueError for one that holds no codec."""
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"no tokenizer at {path}; is this a complete run folder?")
        try:
            data = json.loads(path.read_text("utf-8"))
            return cls(from_dict(data["tokenizer"]), Vocab(data["tokens"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:  # other JSON, or none
            raise ValueError(
                f"{path} does not hold a tokenizer and its vocabulary ({error!r})"
            ) from None


def from_dict(description: dict) -> Tokenizer:
    """The tokenizer that `Tokenizer.to_dict` described; raises ValueError or TypeError if none."""
    kinds = (WhitespaceTokenizer, SubwordMarkTokenizer, SpacyTokenizer, BPETokenizer)
    known, options = {cls.kind: cls for cls in kinds}, dict(description)
    kind = options.pop("kind", None)
    require_one_of("the kind of a tokenizer", known, kind)
    return known[kind](**options)


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
    both sides (and one tokenizer, for 'bpe').  Raises ValueError where these do not fit together.
    """
    kinds = kind, target_kind or kind
    _check_kinds(corpus, kinds, joint)
    texts = [p.source for p in corpus.train], [p.target for p in corpus.train]
    tokenizer = partial(_tokenizer, corpus, size=size, lowercase=lowercase)
    if joint and kind == "bpe":
        tokenizers = [tokenizer(0, kind, texts[0] + texts[1])] * 2
    else:
        tokenizers = [tokenizer(side, kinds[side], texts[side]) for side in (0, 1)]

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
        require_one_of("tokenizer.kind", KINDS, kind)
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
    # Published subwords that carry a mark are looked up with it; it is never stripped.
    subwords = corpus.vocabularies[side] if kind == "given" and corpus.vocabularies else []
    if any(subword.endswith(JOIN_MARK) for subword in subwords):
        return SubwordMarkTokenizer(subwords, lowercase=lowercase)
    return WhitespaceTokenizer(lowercase=lowercase)
