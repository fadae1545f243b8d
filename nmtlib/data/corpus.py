"""Sentence pairs, the splits they come in, and the text files they are read from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unicodedata import category, normalize

from nmtlib.files import text_lines
from nmtlib.settings import CorpusSettings, language_of

SPLITS = ("train", "validation", "test", "challenge")
LONGEST_WORD = 1_000  # characters without white space; BPE would need minutes for a million
# Unicode categories of characters that show nothing by themselves, and letters that are blank.
INVISIBLE = {"Cc", "Cf", "Cs", "Cn", "Mn", "Me", "Zs", "Zl", "Zp"}
BLANK = "\u115f\u1160\u2800\u3164\uffa0"
# The ending of a file, such as "csv" -> a function of the file and the two languages: its pairs.
Readers = Mapping[str, Callable[[str | Path, Sequence[str]], Iterable[Sequence[str]]]]


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence and its translation.

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
    with, if it is; `notes` say what a reader of its sizes should know; `synthetic` are more
    training pairs, one side of which a model generated.  `origin` says where it was read, None for
    pairs in memory: a run that is trained on it writes that into its settings.
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
    origin: CorpusSettings | None = field(default=None, compare=False)

    @classmethod
    def from_pairs(
        cls,
        train: Iterable[Pair | Sequence[str]],
        validation: Iterable[Pair | Sequence[str]],
        test: Iterable[Pair | Sequence[str]] = (),
        *,
        languages: Sequence[str],
    ) -> Corpus:
        """A corpus of pairs in memory: `Pair`s, or (source, target).

        Raises ValueError naming a pair that `read_pairs` would refuse, and for an empty train or
        validation.

        >>> pairs = [("ein Hund", "a dog"), ("zwei Hunde", "two dogs")]
        >>> Corpus.from_pairs(pairs, pairs[1:], languages=("de", "en")).validation
        [Pair(source='zwei Hunde', target='two dogs', alignment=())]
        """
        tags = [*languages] if isinstance(languages, Sequence) else []
        are_two = [type(tag) for tag in tags] == [str, str] and not isinstance(languages, str)
        if not are_two or not all(tag.strip() for tag in tags):
            raise ValueError(f"languages are two, such as ('de', 'en'), not {languages!r}")
        splits: dict[str, Any] = {"train": train, "validation": validation, "test": test}
        for split, pairs in splits.items():
            if isinstance(pairs, str) or not isinstance(pairs, Iterable):
                raise ValueError(f"{split} is a list of pairs, not {pairs!r}")
            splits[split] = [_checked(pair, f"{split}[{i}]") for i, pair in enumerate(pairs)]
            if not splits[split] and split != "test":
                raise ValueError(f"{split} is empty; expected at least one pair")
        return cls("own", language_of(languages[0]), language_of(languages[1]), **splits)

    def split(self, name: str) -> Sequence[Pair]:
        """The pairs of one split.  Raises ValueError for an unknown or empty split."""
        if name not in SPLITS:
            raise ValueError(f"unknown split {name!r}; a corpus has {', '.join(SPLITS)}")
        if not (pairs := getattr(self, name)):
            have = [split for split in SPLITS if getattr(self, split)]
            raise ValueError(
                f"corpus {self.name!r} has no {name} split; it has {', '.join(have) or 'none'}"
            )
        return pairs

    def leaked(self, split: str = "test") -> set[int]:
        """The positions (from 0) in a split of pairs whose source is also in the training data.

        They measure memory, not translation.  For the training split itself there are none.
        """
        seen = set() if split == "train" else {pair.source for pair in self.train}
        return {i for i, pair in enumerate(getattr(self, split)) if pair.source in seen}

    def reversed(self) -> Corpus:
        """The corpus for the other direction: multi30k-de-en becomes multi30k-en-de."""
        source, target = self.source_language, self.target_language
        splits = (*SPLITS, "synthetic")
        return replace(
            self,
            name=f"{self.name.removesuffix(f'-{source}-{target}')}-{target}-{source}",
            source_language=target,
            target_language=source,
            vocabularies=self.vocabularies and (self.vocabularies[1], self.vocabularies[0]),
            origin=None,  # which names the other direction
            **{split: [pair.reversed() for pair in getattr(self, split)] for split in splits},
        )


def split_words(text: str) -> list[str]:
    """The words between white space, in Unicode form NFC.

    Where a letter and its accent are two characters, as a Mac writes them, no vocabulary would know
    the word.  Raises ValueError for a word longer than `LONGEST_WORD`.
    """
    words = normalize("NFC", text).split()
    if (length := max(map(len, words), default=0)) > LONGEST_WORD:
        raise ValueError(
            f"{length:,} characters without a space; expected words of at most {LONGEST_WORD:,}: "
            f"remove or split {max(words, key=len)[:40]!r}…"
        )
    return words


def is_visible(text: str) -> bool:
    """Whether a reader would see anything of a text.

    >>> is_visible("\\u200b\\ufe0f"), is_visible("。")
    (False, True)
    """
    return any(category(c) not in INVISIBLE and c not in BLANK for c in text)


def _checked(pair: Pair | Sequence[str], where: str) -> Pair:
    """A pair with both sides stripped.  Raises ValueError that begins with `where`."""
    sides = (pair.source, pair.target) if isinstance(pair, Pair) else pair
    if not isinstance(sides, tuple | list) or [type(side) for side in sides] != [str, str]:
        raise ValueError(f"{where}: expected a Pair or (source, target), not {pair!r}")
    source, target = (side.strip() for side in sides)
    if not (is_visible(source) and is_visible(target)):
        raise ValueError(f"{where}: an empty side; remove this pair")
    try:
        split_words(f"{source} {target}")
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return Pair(source, target, pair.alignment if isinstance(pair, Pair) else ())


def read_pairs(
    files: Sequence[str | Path],
    languages: Sequence[str] = ("", ""),
    readers: Readers = MappingProxyType({}),
) -> list[Pair]:
    """The pairs of [one TSV file] or of [source file, target file].

    A TSV line is `source TAB target`; of two files, line i of one translates line i of the other;
    one file whose ending is among `readers` is read by that one.
    Raises FileNotFoundError for a missing file, and ValueError for files without a line, or naming
    the first line that has no partner, an empty side, a word that `split_words` refuses or another
    number of columns: a shifted line would pair every later sentence with the wrong one.
    """
    if not isinstance(files, tuple | list) or len(files) not in (1, 2):
        raise ValueError(f"expected [one TSV file] or [source file, target file], not {files!r}")
    name, pairs, refused = " | ".join(map(str, files)), [], []
    for number, row in enumerate(_rows(files, languages, readers), start=1):
        where = f"{name}, line {number}"
        try:
            if len(row) != 2:
                raise ValueError(f"{where}: expected source TAB target, found {len(row)} column(s)")
            if None in row:
                raise ValueError(
                    f"{where}: {files[row.index(None)]} has ended, but the other file has not; "
                    "line i of one must translate line i of the other"
                )
            pairs.append(_checked(row, where))
        except ValueError as error:
            refused.append((number, error))
    if refused:
        others = ", ".join(f"{n:,}" for n, _ in refused[1:10]) + ", …" * (len(refused) > 10)
        more = f"; {len(refused) - 1:,} other lines are refused as well: {others}" * bool(others)
        raise ValueError(f"{refused[0][1]}{more}; nmtlib data check --fix DIR drops them")
    if not pairs:
        raise ValueError(f"{name}: no sentences; expected at least one line")
    return pairs


def _rows(
    files: Sequence[str | Path], languages: Sequence[str], readers: Readers
) -> Iterable[Sequence[Any]]:
    if len(files) == 2:
        return zip_longest(*map(text_lines, files))
    ending = str(files[0]).removesuffix(".gz").rpartition(".")[2].lower()
    if ending in readers:
        return readers[ending](files[0], languages)
    if ending in ("csv", "json", "jsonl", "tmx", "xlf", "xliff"):
        raise ValueError(
            f"{files[0]}: the core reads no .{ending} files; the command nmtlib does, and in "
            "Python nmtcourse.corpora.load_corpus"
        )
    return (line.split("\t") for line in text_lines(files[0]))
