"""Sentence pairs, the splits they come in, and the reader's own text files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile, zip_longest
from pathlib import Path
from unicodedata import category

from nmtlib.files import text_lines

SPLITS = ("train", "validation", "test", "challenge")
CHINESE = "[\u3400-\u9fff]"
LONGEST_WORD = 1_000  # characters without white space; a BPE would cut a million for minutes


@dataclass(frozen=True, slots=True)
class Pair:
    """One sentence and its translation.

    `alignment` lists (source position, target position) of the words that mean the same, counted
    from 0 between white space; it is empty where the corpus does not know.
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...] = ()

    def reversed(self) -> Pair:
        """The same pair read in the other direction."""
        return Pair(self.target, self.source, tuple(sorted((t, s) for s, t in self.alignment)))


@dataclass(frozen=True)
class Corpus:
    """The splits of one parallel corpus; a split that it does not have is empty.

    `vocabularies` are the token lists (source, target; specials first) that a corpus is published
    with, if it is; `notes` say what a reader of its sizes should know.  `synthetic` are more pairs
    to train on, of which one side was made by a machine.
    """

    name: str
    source_language: str
    target_language: str
    train: Sequence[Pair] = ()
    validation: Sequence[Pair] = ()
    test: Sequence[Pair] = ()
    challenge: Sequence[Pair] = ()
    vocabularies: tuple[list[str], list[str]] | None = None
    notes: Sequence[str] = ()
    synthetic: Sequence[Pair] = ()

    def split(self, name: str) -> Sequence[Pair]:
        """The pairs of one split.  Raises ValueError for an unknown or empty split."""
        if name not in SPLITS:
            raise ValueError(f"unknown split {name!r}; a corpus has {', '.join(SPLITS)}")
        pairs = getattr(self, name)
        if not pairs:
            have = [s for s in SPLITS if getattr(self, s)]
            raise ValueError(
                f"corpus {self.name!r} has no {name} split; it has {', '.join(have) or 'none'}"
            )
        return pairs

    def leaks(self) -> dict[str, Pair]:
        """By source, the training pairs whose source sentence also stands in another split.

        `train` is read once, and only these pairs of it are held.
        """
        others = {pair.source for split in SPLITS[1:] for pair in getattr(self, split)}
        return {pair.source: pair for pair in self.train if pair.source in others}

    def leaked(self, split: str = "test") -> set[int]:
        """The positions (from 0) in a split of pairs whose source stands in the training data.

        They measure memory, not translation.  For the training split itself there are none.
        """
        leaks = {} if split == "train" else self.leaks()
        return {i for i, pair in enumerate(getattr(self, split)) if pair.source in leaks}

    def reversed(self) -> Corpus:
        """The corpus for the other direction: multi30k-de-en becomes multi30k-en-de."""
        stem = self.name.removesuffix(f"-{self.source_language}-{self.target_language}")
        return replace(
            self,
            name=f"{stem}-{self.target_language}-{self.source_language}",
            source_language=self.target_language,
            target_language=self.source_language,
            vocabularies=self.vocabularies and (self.vocabularies[1], self.vocabularies[0]),
            **{
                part: [pair.reversed() for pair in getattr(self, part)]
                for part in (*SPLITS, "synthetic")
            },
        )

    def with_synthetic(self, pairs: Iterable[Pair]) -> Corpus:
        """With more pairs to train on; those that tell of an evaluation split are left out.

        These are the pairs of which either side is `comparable` with one in another split than
        train, a source also without its first word, which may be a tag.  A note says how many there
        were.
        """
        held_out: tuple[set[str], set[str]] = set(), set()
        for split in SPLITS[1:]:
            for pair in getattr(self, split):
                held_out[0].add(comparable(pair.source))
                held_out[1].add(comparable(pair.target))
        for side in held_out:
            side.discard("")  # what is without a word tells of nothing
        given = list(pairs)
        kept = [
            pair
            for pair in given
            if comparable(pair.source) not in held_out[0]
            and comparable(pair.source.partition(" ")[2]) not in held_out[0]
            and comparable(pair.target) not in held_out[1]
        ]
        note = (
            f"{len(kept):,} synthetic pairs; {len(given) - len(kept):,} left out, as one of their "
            "sides stands in validation or test"
        )
        return replace(self, synthetic=kept, notes=[*self.notes, note])

    def in_both_directions(self) -> Corpus:
        """With each pair that is trained or validated on also read the other way round.

        Synthetic ones stay: what a machine wrote, or a tag before it, is to be read and not said.
        """
        doubled: dict = {
            part: [*pairs, *(pair.reversed() for pair in pairs)]
            for part in ("train", "validation")
            if (pairs := getattr(self, part))
        }
        return replace(self, **doubled)


def comparable(text: str) -> str:
    """What two sentences have in common that differ in case, spaces or punctuation alone.

    Marks on letters, such as the vowel signs of Hindi, are kept.  Chinese characters may stand
    together or in words.

    >>> comparable("Zwei  Hunde, im Schnee.") == comparable("zwei Hunde im Schnee")
    True
    >>> comparable("我 喜@@ 欢 猫 。")
    '我喜欢猫'
    >>> comparable("की") == comparable("का")
    False
    """
    words = re.sub(r"[\W_]+", _gap, text.casefold()).strip()
    return re.sub(f"(?<={CHINESE}) (?={CHINESE})", "", words)


def _gap(found: re.Match[str]) -> str:
    """What `comparable` keeps between two letters: the marks on the first, and a space for more."""
    between, marks = found[0], ""
    if found.start():  # marks at the beginning stand on no letter
        marks = "".join(takewhile(lambda char: category(char).startswith("M"), between))
    return marks if len(marks) == len(between) else f"{marks} "


def split_words(text: str) -> list[str]:
    """What stands between white space.  Raises ValueError for more than `LONGEST_WORD` letters."""
    found = text.split()
    longest = max(map(len, found), default=0)
    if longest > LONGEST_WORD:
        raise ValueError(
            f"{longest:,} characters without a space; expected words of at most {LONGEST_WORD:,}: "
            f"remove this line, or cut it: {max(found, key=len)[:40]!r}…"
        )
    return found


class TextPairs:
    """The pairs of [one TSV file] or [source file, target file], read anew whenever iterated.

    A TSV line is `source TAB target`; of two files, line i of one translates line i of the other.
    One line is in memory at a time.  Raises, while it is iterated, FileNotFoundError for a missing
    file, and ValueError at the first line that has no partner, an empty side, another number of
    columns (a shifted line would pair every later sentence with the wrong one) or a word that
    `split_words` refuses, or for no line.
    """

    def __init__(self, files: Sequence[str | Path]):
        self.files = list(files)
        self.where = " | ".join(map(str, files))

    def __iter__(self) -> Iterator[Pair]:
        sides = [text_lines(file) for file in self.files]
        rows = zip_longest(*sides) if len(sides) > 1 else (line.split("\t") for line in sides[0])
        number = 0
        for number, row in enumerate(rows, start=1):
            where = f"{self.where}, line {number}"
            if len(row) != 2:
                raise ValueError(f"{where}: expected source TAB target, found {len(row)} column(s)")
            if None in row:
                shorter = self.files[row.index(None)]
                raise ValueError(
                    f"{where}: {shorter} has ended, but the other file has not; "
                    "line i of one must translate line i of the other"
                )
            pair = Pair(row[0].strip(), row[1].strip())
            if not pair.source or not pair.target:
                raise ValueError(f"{where}: an empty side; remove it (from both files) first")
            try:
                split_words(pair.source), split_words(pair.target)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None
            yield pair
        if not number:
            raise ValueError(f"{self.where}: no sentences; expected at least one line")


def from_files(source: str | Path, target: str | Path) -> list[Pair]:
    """The pairs of two text files.  Raises as `TextPairs` does."""
    return list(TextPairs([source, target]))


def from_tsv(path: str | Path) -> list[Pair]:
    """The pairs of one file with `source TAB target` in each line.  Raises as `TextPairs` does."""
    return list(TextPairs([path]))
