"""Parallel text in other formats than lines: TMX, CSV, JSON and JSON lines.

Each reader gives the two columns of each entry, and raises ValueError naming the entry for one that
has no pair.  `rows` are the same for a doctor, who goes on.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree

from nmtlib.files import decoded_lines
from nmtlib.sections import language_of

Pairs = Iterator[tuple[str, ...] | None]
XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
COLUMNS = [("source", "target"), ("src", "tgt"), ("src", "trg"), ("input", "output")]


def opened(path: str | Path) -> IO[bytes]:
    """The bytes of a file, decompressed where they begin as gzip does."""
    return gzip.open(path) if is_packed(path) else open(path, "rb")  # type: ignore[return-value]


def is_packed(path: str | Path) -> bool:
    """Whether a file begins as gzip does."""
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def tmx_rows(path: str | Path, languages: Sequence[str]) -> Pairs:
    """The segments of the two languages in each unit of a TMX file, None where one is missing.

    Without languages the first two variants of each unit.
    """
    wanted = [language_of(tag) for tag in languages]
    with opened(path) as file:
        for _, unit in ElementTree.iterparse(file):
            if unit.tag.rpartition("}")[2] != "tu":
                continue
            found: dict[str, str] = {}
            for variant in unit.iter():
                if variant.tag.rpartition("}")[2] == "tuv":
                    tag = variant.get(XML_LANGUAGE) or variant.get("lang") or f"{len(found)}"
                    segment = next((c for c in variant if c.tag.rpartition("}")[2] == "seg"), None)
                    text = "" if segment is None else "".join(segment.itertext())
                    found.setdefault(language_of(tag), " ".join(text.split()))
            names = wanted if all(wanted) else list(found)[:2]
            yield tuple(found[n] for n in names) if found.keys() >= {*names} and names[1:] else None
            unit.clear()


def csv_rows(path: str | Path, languages: Sequence[str]) -> Pairs:
    """The two columns of a CSV file: those that its header names, otherwise the first two."""
    yield from _named(path, records(path), languages)


def records(path: str | Path) -> Iterator[list[str]]:
    """The rows of a CSV file, whichever of , ; | and tabs separates its columns."""
    lines = _lines(path)
    first = next(lines, "")
    separator = max(",;\t|", key=first.count)
    csv.field_size_limit(10_000_000)
    yield from csv.reader(_with_first(first, lines), delimiter=separator)


def _with_first(first: str, lines: Iterator[str]) -> Iterator[str]:
    yield f"{first}\n"
    for line in lines:
        yield f"{line}\n"


def _lines(path: str | Path) -> Iterator[str]:
    with opened(path) as file:
        yield from decoded_lines(file, str(path))


def _named(path: str | Path, rows: Iterator[list[str]], languages: Sequence[str]) -> Pairs:
    """Two columns; a header that names them is left out.  Raises ValueError if it is unclear."""
    first = next(rows, [])
    names = [name.strip().lower() for name in first]
    columns = named_columns(names, languages)
    if not columns and len(first) > 2:
        raise ValueError(
            f"{path} has {len(first)} columns, and no header names two of them source and target, "
            f"or by their languages; write two with: nmtlib data check {path} --fix DIR"
        )
    places = [names.index(name) for name in columns] if columns else [0, 1]
    if not columns:
        yield tuple(first[:2]) if len(first) > 1 else None
    for row in rows:
        yield tuple(row[i] for i in places) if len(row) > max(places) else None


def named_columns(names: Sequence[str], languages: Sequence[str]) -> tuple[str, str] | None:
    """The two names that mean source and target, if they are among these."""
    for pair in [tuple(map(str.lower, languages)), *COLUMNS]:
        if all(pair) and set(pair) <= set(names):
            return pair[0], pair[1]
    tags = {language_of(name): name for name in names}
    wanted = [language_of(tag) for tag in languages]
    if all(wanted) and set(wanted) <= set(tags):
        return tags[wanted[0]], tags[wanted[1]]
    return None


def jsonl_rows(path: str | Path, languages: Sequence[str]) -> Pairs:
    """The two sides of each line: an object with them by name, or a list of two."""
    for line in _lines(path):
        if line.strip():
            try:
                yield sides_of(json.loads(line), languages)
            except (ValueError, RecursionError):
                yield None


def json_rows(path: str | Path, languages: Sequence[str]) -> Pairs:
    """As `jsonl_rows`, of one list; also under the only key of an object."""
    with opened(path) as file:
        try:
            data = json.load(file)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is not valid JSON ({error})") from None
    if isinstance(data, dict) and len(data) == 1:
        (data,) = data.values()
    if not isinstance(data, list):
        raise ValueError(f"{path}: expected a list of pairs, not {type(data).__name__}")
    yield from (sides_of(entry, languages) for entry in data)


def sides_of(entry: Any, languages: Sequence[str]) -> tuple[str, ...] | None:
    """The two texts of a JSON entry, None where there are none."""
    if isinstance(entry, dict) and isinstance(entry.get("translation"), dict):
        entry = entry["translation"]  # as the data sets of Hugging Face have it
    if isinstance(entry, dict):
        names = {str(name).lower(): text for name, text in entry.items()}
        columns = named_columns(list(names), languages)
        texts = [text for text in names.values() if isinstance(text, str)]
        entry = [names[name] for name in columns] if columns else texts
    if not isinstance(entry, list) or len(entry) != 2:
        return None
    return (entry[0], entry[1]) if all(isinstance(text, str) for text in entry) else None


READERS: dict[str, Callable[[str | Path, Sequence[str]], Pairs]] = {
    "tmx": tmx_rows,
    "csv": csv_rows,
    "jsonl": jsonl_rows,
    "json": json_rows,
}


def _strictly(kind: str) -> Callable[[str | Path, Sequence[str]], Iterator[tuple[str, ...]]]:
    def read(path: str | Path, languages: Sequence[str]) -> Iterator[tuple[str, ...]]:
        if not Path(path).is_file():
            raise FileNotFoundError(f"no such text file: {path}")
        try:
            for number, row in enumerate(READERS[kind](path, languages), start=1):
                if row is None:
                    raise ValueError(
                        f"{path}, entry {number}: no text in both of {', '.join(languages)}; see "
                        f"all, and write a cleaned copy, with: nmtlib data check {path} --fix DIR"
                    )
                yield row
        except (ElementTree.ParseError, csv.Error, EOFError, gzip.BadGzipFile) as error:
            raise ValueError(f"{path} is not a sound {kind} file: {error}") from None

    return read


read_tmx, read_csv, read_jsonl, read_json = map(_strictly, READERS)
