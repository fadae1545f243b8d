"""A tokenizer for corpora that are published in subwords: "na@@ ils" (subword-nmt)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from nmtlib.data.tokenizers import Tokenizer, WhitespaceTokenizer
from nmtlib.specials import SPECIALS

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
