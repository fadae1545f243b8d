"""Sentence pairs, the splits they come in, and the reader's own text files."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

SPLITS = ("train", "validation", "test", "challenge")


@dataclass(frozen=True, slots=True)
class Pair:
    """One sentence and its translation.

    `alignment` lists (source position, target position) of tokens that mean the same, counted from
    0 over the whitespace-separated tokens, where the corpus knows it; otherwise it is empty.
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...] = ()

    def reversed(self) -> Pair:
        """The same pair read in the other direction."""
        return Pair(self.target, self.source, tuple(sorted((t, s) for s, t in self.alignment)))


@dataclass(frozen=True)
class Corpus:
    """The splits of one parallel corpus; a split that the corpus does not have is empty.

    `vocabularies` holds the token lists (source, target; specials first) of a corpus that is
    published with its own, else None.
    """

    name: str
    source_language: str
    target_language: str
    train: Sequence[Pair] = ()
    validation: Sequence[Pair] = ()
    test: Sequence[Pair] = ()
    challenge: Sequence[Pair] = ()
    vocabularies: tuple[list[str], list[str]] | None = None

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

    def reversed(self) -> Corpus:
        """The same corpus for translation in the other direction (multi30k-de-en ->
        multi30k-en-de).
        """
        stem = self.name.removesuffix(f"-{self.source_language}-{self.target_language}")
        return replace(
            self,
            name=f"{stem}-{self.target_language}-{self.source_language}",
            source_language=self.target_language,
            target_language=self.source_language,
            vocabularies=self.vocabularies and (self.vocabularies[1], self.vocabularies[0]),
            **{split: [pair.reversed() for pair in getattr(self, split)] for split in SPLITS},
        )


def read_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 text file (a `.gz` file is decompressed) without their line ends.

    Raises FileNotFoundError for a missing file, ValueError for a damaged one or one that is not
    UTF-8.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no such text file: {path}")
    data = path.read_bytes()
    if path.suffix == ".gz":
        try:
            data = gzip.decompress(data)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(
                f"{path}: not a complete gzip file ({error}); fetch it again"
            ) from error
    return decode_lines(data, str(path))


def decode_lines(data: bytes, where: str) -> list[str]:
    """The lines of UTF-8 bytes without line ends and byte order mark.  Raises ValueError naming
    `where`.
    """
    lines = []
    # Only \n ends a line: str.splitlines would also cut at U+2028 and break the pairing of two
    # files.
    data = data.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n")
    for number, raw in enumerate(data.split(b"\n") if data else [], start=1):
        try:
            lines.append(raw.decode("utf-8").removesuffix("\r"))
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{where}, line {number}: not valid UTF-8 ({error.reason}); "
                f"convert it first, for example with iconv -t UTF-8"
            ) from None
    return lines


def from_files(source: str | Path, target: str | Path) -> list[Pair]:
    """Pairs from two UTF-8 files, one sentence a line, line i of one translating line i of the
    other.

    Raises ValueError where the line counts differ or a line is empty on one side or both: a shifted
    line would pair every later sentence with the wrong one.
    """
    left, right = ([line.strip() for line in read_lines(path)] for path in (source, target))
    if len(left) != len(right):
        raise ValueError(
            f"{source} has {len(left)} lines but {target} has {len(right)}; "
            f"line i of one must translate line i of the other"
        )
    rows = [(number, *pair) for number, pair in enumerate(zip(left, right, strict=True), start=1)]
    _refuse_empty(rows, f"{source} | {target}")
    return [Pair(a, b) for a, b in zip(left, right, strict=True)]


def from_tsv(path: str | Path) -> list[Pair]:
    """Pairs from one UTF-8 file with `source TAB target` in each line.

    Raises ValueError where a line has not exactly two columns or a column is empty.
    """
    rows = []
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise ValueError(
                f"{path}, line {number}: expected source TAB target, found {len(columns)} column(s)"
            )
        rows.append((number, columns[0].strip(), columns[1].strip()))
    _refuse_empty(rows, str(path))
    return [Pair(source, target) for _, source, target in rows]


def _refuse_empty(rows: list[tuple[int, str, str]], where: str) -> None:
    if not rows:
        raise ValueError(f"{where}: no sentences; expected at least one line")
    empty = [number for number, source, target in rows if not source or not target]
    if empty:
        shown = ", ".join(map(str, empty[:5])) + (", …" if len(empty) > 5 else "")
        raise ValueError(
            f"{where}: {len(empty)} line(s) with an empty side: {shown}; remove these lines (from both files) first"
        )
