"""A tokenizer for corpora that are published in pieces: "na@@ ils" (subword-nmt)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain

from nmtlib.data.tokenizers import Tokenizer, WhitespaceTokenizer
from nmtlib.data.vocab import SPECIALS

JOIN_MARK = "@@"  # ends a piece that goes on in the next token (Sennrich et al. 2016)


@dataclass(frozen=True)
class SubwordMarkTokenizer(Tokenizer):
    """Split at white space, then cut unknown words into the `pieces` of a vocabulary with `@@`.

    Text that carries such marks stays as it is: a marked token is an entry of the vocabulary, never
    to be stripped.  In other text, a word that is no piece is freed of its punctuation ("bites."
    becomes "bites ."), of the English endings n't, 's, 'm, 'd, 're, 've, 'll ("don't" becomes "do
    n't"), and then cut from the left, longest piece first.  Where no cut fits, the word stays
    whole, to become <UNK>.

    >>> tokenizer = SubwordMarkTokenizer(["tom", "'s", "na@@", "ils", "."])
    >>> tokenizer.encode("tom's nails.")
    ['tom', "'s", 'na@@', 'ils', '.']
    >>> tokenizer.decode(["na@@", "ils", "."])
    'nails .'
    """

    kind = "subword-marks"
    pieces: Collection[str] = field(repr=False)
    lowercase: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.pieces, str):
            raise ValueError(
                f"pieces is one string, {self.pieces[:40]!r}; expected a collection of tokens"
            )
        object.__setattr__(self, "pieces", frozenset(self.pieces) - set(SPECIALS))

    def encode(self, text: str) -> list[str]:
        """The words, unknown ones in pieces.  Raises ValueError for a literal <PAD> or the like."""
        words = WhitespaceTokenizer(lowercase=self.lowercase).encode(text)
        if any(word.endswith(JOIN_MARK) for word in words):
            return words
        parts = [[word] if word in self.pieces else _set_apart(word) for word in words]
        return [piece for part in chain(*parts) for piece in _cut(part, self.pieces)]

    def decode(self, tokens: Sequence[str]) -> str:
        """The tokens with spaces, but marked pieces joined; punctuation stays apart."""
        return " ".join(tokens).replace(f"{JOIN_MARK} ", "").removesuffix(JOIN_MARK)

    def to_dict(self) -> dict:
        """As everywhere, with the pieces in alphabetical order."""
        return super().to_dict() | {"pieces": sorted(self.pieces)}


def _set_apart(word: str) -> list[str]:
    """The word without its punctuation and English ending, and these: "don't." is do, n't, '.'."""
    parts = re.findall(r"\w(?:\S*\w)?|[^\w\s]", word)
    ending = re.compile(r"(?<=\w)(?=(?:n't|'(?:s|m|d|re|ve|ll))$)")
    return [piece for part in parts for piece in ending.split(part)]


def _cut(word: str, pieces: Collection[str]) -> list[str]:
    """The word in known pieces, the longest first from the left; the word where no cut fits."""
    if word in pieces:
        return [word]
    longest = max(map(len, pieces), default=0)
    # best[i]: the pieces of word[i:], empty where no cut fits.
    best: list[list[str]] = [[] for _ in word]
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
