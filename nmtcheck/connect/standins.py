"""Substitutes for the vocabularies, fields and batches that old scripts expect.

>>> words = Vocabulary(8, pad=1, bos=2, eos=3, unk=0)
>>> words.stoi["w5"], words["nonsense"], words.lookup_tokens([2, 4, 3])
(5, 0, ['<bos>', 'w4', '<eos>'])
>>> source = Field(words)
>>> source.vocab.stoi[source.init_token], source.tokenize("w4 w5")
(2, ['w4', 'w5'])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

# How PAD, BOS, EOS and UNK are written; the first of each line unless names are given.
WRITTEN = (
    ("<pad>", "<blank>", "[PAD]"),
    ("<bos>", "<sos>", "<s>", "[SOS]", "[BOS]"),
    ("<eos>", "</s>", "[EOS]"),
    ("<unk>", "[UNK]"),
)


class Stoi(dict):
    """A word's id, that of UNK for an unknown word."""

    unk = 0

    def __missing__(self, word: str) -> int:
        return self.unk


class Vocabulary:
    """Words called w4, w5 and so on, and four special ones, as either side of torchtext has it.

    Old torchtext reads `stoi` and `itos`; new torchtext looks up with `vocab[word]`,
    `vocab([words])`, `get_stoi`, `get_itos`, `lookup_tokens` and `lookup_indices`.  Whatever way
    a special is written (`<sos>`, `<s>`, ...) it has the same id; `specials` are the ways in which
    PAD, BOS, EOS and UNK are read back.
    """

    def __init__(
        self,
        size: int = 13,
        *,
        pad: int = 0,
        bos: int = 1,
        eos: int = 2,
        unk: int = 3,
        specials: Sequence[str] = ("<pad>", "<bos>", "<eos>", "<unk>"),
    ):
        ids = (pad, bos, eos, unk)
        self.itos = [f"w{i}" for i in range(size)]
        self.names = {word: i for i, word in enumerate(self.itos)}
        for i, name, ways in zip(ids, specials, WRITTEN, strict=True):
            self.itos[i] = name
            written = [each for way in (*ways, name) for each in (way, way.upper(), way.lower())]
            self.names |= dict.fromkeys(written, i)
        self.stoi = Stoi(self.names)
        self.stoi.unk = unk

    def __len__(self) -> int:
        return len(self.itos)

    def __contains__(self, word: str) -> bool:
        return word in self.names

    def __getitem__(self, word: str) -> int:
        return self.stoi[word]

    def __call__(self, words: Iterable[str]) -> list[int]:
        return [self.stoi[word] for word in words]

    lookup_indices = __call__

    def lookup_tokens(self, ids: Iterable[int]) -> list[str]:
        """The words of some ids."""
        return [self.itos[i] for i in ids]

    def get_stoi(self) -> dict[str, int]:
        """Word -> id."""
        return self.stoi

    def get_itos(self) -> list[str]:
        """The words in the order of their ids."""
        return self.itos


class Field:
    """A `Field` of old torchtext: a vocabulary, its special words, and a tokenizer."""

    batch_first, lower = True, True

    def __init__(self, vocab: Vocabulary | None = None):
        self.vocab = vocab or Vocabulary()
        named = {i: self.vocab.itos[i] for i in self.vocab.names.values()}
        written = [named[self.vocab.names[ways[0]]] for ways in WRITTEN]
        self.pad_token, self.init_token, self.eos_token, self.unk_token = written

    def tokenize(self, sentence: str) -> list[str]:
        """The words between the spaces; a list of words is returned as it is."""
        return sentence.split() if isinstance(sentence, str) else list(sentence)

    preprocess = tokenize


@dataclass(frozen=True)
class Batch:
    """Source (B, S) and whole targets (B, T + 1), BOS to EOS, with the names in use for them."""

    source: Tensor
    target: Tensor

    src = property(lambda self: self.source)
    trg = tgt = property(lambda self: self.target)
    decoder_input = property(lambda self: self.target[:, :-1].contiguous())
    labels = property(lambda self: self.target[:, 1:].contiguous())

    def __iter__(self) -> Iterator[Tensor]:
        """`for source, target in batches`."""
        return iter((self.source, self.target))

    def __getitem__(self, key: Any) -> Tensor:
        """`batch[0]`, and `batch["src"]` or another of the names."""
        return getattr(self, key) if isinstance(key, str) else (self.source, self.target)[key]

    def __len__(self) -> int:
        return 2

    def time_major(self) -> Batch:
        """The same with time first: (S, B) and (T + 1, B)."""
        return Batch(self.source.t().contiguous(), self.target.t().contiguous())


class Loader(list):
    """Batches with what scripts ask of a `DataLoader`: its length, and its `dataset`."""

    dataset: Sequence[tuple[list[int], list[int]]] = ()
    batch_size = 2
