"""A vocabulary numbers the tokens of one side of a corpus; four numbers are special everywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from nmtlib.specials import BOS, EOS, PAD, SPECIALS, UNK

__all__ = ["BOS", "EOS", "PAD", "SPECIALS", "UNK", "Vocab"]


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

        Tokens seen fewer than `min_count` times are left out; `max_size` bounds the whole table.
        Raises ValueError where `max_size` leaves no room for the specials.
        """
        if max_size is not None and max_size < len(SPECIALS):
            raise ValueError(
                f"max_size={max_size}, but the specials alone take {len(SPECIALS)} entries"
            )
        counts = Counter(token for sentence in sentences for token in sentence)
        kept = [t for t, count in counts.items() if count >= min_count and t not in SPECIALS]
        kept.sort(key=lambda t: (-counts[t], t))
        return cls([*SPECIALS, *kept][:max_size])

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
