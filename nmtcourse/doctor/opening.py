"""The rows of one split, whatever its files are: each pair with its number, or why it is none."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from nmtcourse.doctor.files import Look, look_at
from nmtcourse.doctor.kinds import Finding
from nmtcourse.doctor.readers import READERS, is_packed, named_columns, opened, records
from nmtlib.data.corpus import Pair
from nmtlib.sections import language_of

PEEK = 1_000  # rows that tell which columns are which
HEADINGS = set(
    "source target src tgt trg id text sentence sentences translation translations input output "
    "original english german deutsch englisch chinese french spanish russian italian".split()
)


class Row(NamedTuple):
    """One pair, or with a `problem` (a key of `KINDS`) what is in its place."""

    number: int
    source: str
    target: str
    problem: str = ""


@dataclass
class Split:
    """One split to look at: `rows()` reads it from the beginning each time."""

    name: str
    rows: Callable[[], Iterator[Row]]
    findings: list[Finding] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


def of_pairs(name: str, pairs: Sequence[Pair]) -> Split:
    """A split in memory."""
    return Split(
        name, lambda: (Row(i, pair.source, pair.target) for i, pair in enumerate(pairs, start=1))
    )


def of_files(
    name: str, files: Sequence[str | Path], languages: Sequence[str], encoding: str = ""
) -> Split:
    """A split from one file of pairs, or a source and a target file.

    Raises FileNotFoundError for a missing file, and ValueError for another number of files.
    """
    paths = [Path(file) for file in files]
    if len(paths) not in (1, 2):
        raise ValueError(f"{name} is one file of pairs or two text files, not {len(paths)}")
    sides = [language_of(tag) for tag in languages]
    looks = [look_at(path, sides[i], encoding) for i, path in enumerate(paths)]
    split = Split(name, lambda: iter(()), files=paths)
    for look in looks:
        if is_packed(look.path) != (look.path.suffix == ".gz"):
            new = look.path.with_suffix("") if look.path.suffix == ".gz" else f"{look.path}.gz"
            advice = f"mv {look.path} {new}"
            split.findings.append(Finding("name", name, 0, 0, [], str(look.path), advice))
        if encoding and (look.undecodable or encoding.startswith("utf-")):
            count, detail = len(look.undecodable), f"{look.path} as {encoding}"
            split.findings.append(Finding("decoded", name, count, look.lines, [], detail))
        elif look.problem:
            kind = "encoding" if look.proposals or look.undecodable else "file"
            detail = f"{look.path}: {look.problem}"
            examples = [(0, f"as {found}: {line}") for found, line in look.proposals]
            count = len(look.undecodable)
            split.findings.append(Finding(kind, name, count, 0, examples, detail, look.advice))
    if any(look.problem and not look.proposals and not look.undecodable for look in looks):
        return split
    if len(paths) == 2:
        split.rows = lambda: _two(looks)
        if paths[0].resolve() == paths[1].resolve():
            split.findings.append(Finding("same file", name, 0, 0, [], str(paths[0])))
    elif looks[0].format in READERS and looks[0].format != "csv":
        split.rows = lambda: _records(looks[0], languages)
    else:
        _table(split, looks[0], languages)
    return split


def lines_of(look: Look) -> Iterator[str]:
    """The lines of a file, read in UTF-8 where they are that, otherwise as it was decided."""
    if look.encoding.startswith(("utf-16", "utf-32")):
        with opened(look.path) as file:
            text = file.read().decode(look.encoding, "replace")
        yield from (line.removesuffix("\r") for line in text.removesuffix("\n").split("\n"))
        return
    with opened(look.path) as file:
        for number, raw in enumerate(file):
            raw = raw.removeprefix(b"\xef\xbb\xbf") if not number else raw
            raw = raw.removesuffix(b"\n").removesuffix(b"\r")
            try:
                yield raw.decode("utf-8")
            except UnicodeDecodeError:
                yield raw.decode(look.encoding, "replace")


def _two(looks: Sequence[Look]) -> Iterator[Row]:
    for number, (source, target) in enumerate(zip_longest(*map(lines_of, looks)), start=1):
        if source is None or target is None:
            yield Row(number, source or "", target or "", "partner")
        elif number == 1 and _is_header([source, target], ["", ""]):
            yield Row(number, source, target, "header")
        else:
            yield Row(number, source, target)


def _records(look: Look, languages: Sequence[str]) -> Iterator[Row]:
    rows = iter(READERS[look.format](look.path, languages))
    number = 0
    while True:
        number += 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except (ElementTree.ParseError, csv.Error, EOFError, gzip.BadGzipFile, ValueError) as error:
            yield Row(number, str(error), "", "record")
            return
        if row is None or len(row) < 2:
            yield Row(number, "", "", "record")
        elif number == 1 and _is_header(row, languages):
            yield Row(number, row[0], row[1], "header")
        else:
            yield Row(number, row[0], row[1])


def _table(split: Split, look: Look, languages: Sequence[str]) -> None:
    """The rows of a file in columns, and which of them are the pair."""
    read, separator = _columns(look)
    some = list(islice(read(), PEEK))
    counts = [len(row) for row in some] or [1]
    usual = max(set(counts), key=counts.count)
    places = (0, 1)
    names = [name.strip().lower() for name in some[0]] if some else []
    if named := named_columns(names, languages):
        places = names.index(named[0]), names.index(named[1])
    elif usual > 2:
        places = choose_columns([row for row in some if len(row) == usual], languages)
    first, second = (place + 1 for place in places)
    header = len(names) > max(places) and _is_header(_two_of(names, places), languages)
    odd = separator not in ("\t", ",")
    if odd or (usual > 2 and not (look.format == "csv" and named)):
        detail = f"{usual} columns, of which {first} and {second} look like the pair"
        detail += f"; {separator.strip()} separates them" if odd else ""
        advice = "--fix writes these two"
        if separator == "\t" and first < second:
            advice += f"; or: cut -f{first},{second} {look.path}"
        lines = look.lines
        split.findings.append(Finding("chosen", split.name, lines, lines, [], detail, advice))

    def rows() -> Iterator[Row]:
        for number, row in enumerate(read(), start=1):
            if number == 1 and header:
                if not (look.format == "csv" and named):
                    yield Row(number, *_two_of(row, places), "header")
            elif len(row) == usual and usual > 1:
                yield Row(number, *_two_of(row, places))
            else:
                yield Row(number, " ".join(row), "", "columns" if "".join(row).strip() else "empty")

    split.rows = rows


def _two_of(row: Sequence[str], places: tuple[int, int]) -> tuple[str, str]:
    return row[places[0]], row[places[1]]


def _columns(look: Look) -> tuple[Callable[[], Iterator[list[str]]], str]:
    """How to read the columns of a file again and again, and what separates them."""
    if look.format == "csv":
        return partial(records, look.path), ","
    some = list(islice(lines_of(look), PEEK))
    for separator in ("\t", " ||| ", "|||", ";", "|"):
        counts = [line.count(separator) for line in some]
        usual = max(set(counts), key=counts.count, default=0)
        if usual and (separator == "\t" or counts.count(usual) > 0.95 * len(counts)):
            return partial(_cells, look, separator), separator
    return partial(_cells, look, "\t"), "\t"


def _cells(look: Look, separator: str) -> Iterator[list[str]]:
    return (line.split(separator) for line in lines_of(look))


def _is_header(row: Sequence[str], languages: Sequence[str]) -> bool:
    """Whether a first row names the columns."""
    names = [cell.strip().strip("\ufeff\"'").lower() for cell in row]
    tags = {tag.lower() for tag in languages if tag}
    if set(names) == {""} or len(set(names)) < len(names):
        return False
    return bool(named_columns(names, languages)) or all(
        any(part in HEADINGS or part in tags for part in name.replace("-", "_").split("_"))
        for name in names
    )


def choose_columns(rows: Iterable[Sequence[str]], languages: Sequence[str]) -> tuple[int, int]:
    """Which two columns are source and target: by the languages or their letters."""
    from nmtcourse.doctor.languages import likeness

    rows = list(rows)
    columns = list(zip(*rows, strict=True))
    texts = [" ".join(column) for column in columns]
    varied = [len(set(column)) > 0.2 * len(column) for column in columns]
    letters = [sum(map(str.isalpha, text)) * ok for text, ok in zip(texts, varied, strict=True)]
    if all(languages):
        scores = [[likeness(text, tag) for text in texts] for tag in languages]
        best = [max(range(len(texts)), key=row.__getitem__) for row in scores]
        if best[0] != best[1] and all(scores[i][best[i]] > 0.05 for i in (0, 1)):
            return best[0], best[1]
    first, second = sorted(sorted(range(len(texts)), key=lambda i: -letters[i])[:2])
    return first, second
