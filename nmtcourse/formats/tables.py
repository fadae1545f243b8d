"""The entries of tables: CSV, and lines with columns, with or without a header."""

from __future__ import annotations

import ast
import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice, zip_longest
from typing import Any

from nmtcourse.formats.entries import PEEK, Entry, Place, by_name, flat, words
from nmtcourse.formats.languages import language_named

ENDS = ".!?。！？"
RULE = re.compile(r"[\s|:-]+")


def table_entries(origin: Place, *, quotes: bool) -> Iterator[Entry]:
    """The rows of a table: their cells by its header, or by number from 1.

    With `quotes` it is CSV: a cell in quotation marks may hold separators and line ends, and a
    header is no row.
    """
    some = list(islice(origin.lines(), PEEK))
    declared = re.match(r'"?sep=(.)"?\s*$', some[0]) if some else None  # as Excel writes it
    skip = int(bool(declared))
    while skip < len(some) and is_comment(some[skip], some):
        skip += 1
    separator = declared[1] if declared else separator_of(some[skip:], quotes)
    cells_of = partial(alone, separator=separator, quotes=quotes)
    start = [cells_of(line) for line in some[skip:]]
    usual = usual_width(start)[0]
    names, header = list(map(str, range(1, usual + 1))), None
    rows = split_rows(islice(origin.lines(), skip, None), separator, quotes, usual)
    for number, cells, remark in rows:
        if number == 1 and (columns := header_of(start, origin.languages)):
            names, header = columns, cells
            if quotes:
                continue
        raw = separator.join(cells)
        rule = RULE.fullmatch(raw) and raw.count("-") > 2  # below the header, as Markdown has it
        if cells == header or rule:  # a header is there once more where tables were joined
            yield Entry(number + skip, {}, "header", raw)
        elif len(cells) != len(names):
            yield Entry(number + skip, {}, "columns" if raw.strip() else "empty", raw)
        elif any(cell[:1] == "{" and cell[-1:] == "}" for cell in cells):
            texts = zip(names, map(parsed, cells), strict=True)
            yield Entry(number + skip, flat(dict(texts)), remark, raw)
        else:
            yield Entry(number + skip, dict(zip(names, cells, strict=True)), remark, raw)


def is_comment(line: str, some: Sequence[str]) -> bool:
    """Whether a line above a table is about it: it begins with #, as hardly any other does."""
    return line.startswith("#") and sum(other.startswith("#") for other in some) < 0.1 * len(some)


def parsed(cell: str) -> Any:
    """The object that a cell holds as JSON or as Python writes it, otherwise its text."""
    for read in (json.loads, ast.literal_eval):
        try:
            value = read(cell)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return value if isinstance(value, dict) else cell
    return cell


def separator_of(some: Sequence[str], quotes: bool) -> str:
    """What separates the columns: of a table the steadiest, of lines mostly a tab."""
    shares: dict[str, float] = {}
    for separator in (",", ";", "\t", "|") if quotes else ("\t", " ||| ", "|||", ";", "|"):
        width, share = usual_width([alone(line, separator, quotes) for line in some])
        if width > 1 and (quotes or separator == "\t" or share > 0.95):
            shares[separator] = share if quotes else -len(shares)
    return max(shares, key=shares.__getitem__, default="," if quotes else "\t")


def usual_width(rows: Sequence[list[str]]) -> tuple[int, float]:
    """The usual number of columns, and the share of rows that have it."""
    counts = Counter(len(row) for row in rows if any(row))
    (width, times), *_ = counts.most_common(1) or [(1, 0)]
    return width, times / max(sum(counts.values()), 1)


def alone(line: str, separator: str, quotes: bool) -> list[str]:
    """The cells of a line by itself; a quotation mark that stays open in it is a character."""
    if not quotes:
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator, strict=True), [])
    except csv.Error:
        return next(csv.reader([line], delimiter=separator, quoting=csv.QUOTE_NONE), [])


def split_rows(
    lines: Iterator[str], separator: str, quotes: bool, usual: int
) -> Iterator[tuple[int, list[str], str]]:
    """The number of the first line of each row, its cells, and a remark.

    An open quotation mark would swallow every line up to the next one.  Where each line of a row is
    a whole row by itself, the mark is read as a character.
    """
    if not quotes:
        yield from ((n, line.split(separator), "") for n, line in enumerate(lines, start=1))
        return
    taken: list[str] = []
    csv.field_size_limit(2**31 - 1)  # an open quotation mark may swallow the whole file

    def noted() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield f"{line}\n"

    number = 1
    for cells in csv.reader(noted(), delimiter=separator):
        singly = [alone(line, separator, quotes) for line in taken]
        if len(taken) > 1 and {len(row) for row in singly} == {usual}:
            for n, row in enumerate(singly, start=number):
                yield n, row, "open quote" if any(cell[:1] == '"' for cell in row) else ""
        else:
            yield number, cells or [""], ""
        number += len(taken)
        taken.clear()


def word_count(text: str) -> int:
    """How many words a cell has."""
    return len(words(text))


def names_of_languages(names: Sequence[str]) -> int:
    """How many cells name a language, in English or in that language: `Chinese (translation)`."""
    return sum(bool(language_named(name)) for name in names)


def header_of(some: Sequence[Sequence[str]], languages: Sequence[str]) -> list[str]:
    """The names of the columns if the first of some rows holds them, otherwise none.

    It does where it names the two languages or sides, where it has a word above a column of
    numbers, or where its words hardly occur below, which is true of hardly any other row.  A name
    may end in a full stop (`No.`), so it is compared with what is below it: text that ends like
    text has no such names above.
    """
    names = [cell.strip().strip("\ufeff\"'") for cell in some[0]] if some else []
    filled = [name for name in names if name]
    if len(set(filled)) < len(filled) or not filled or max(map(word_count, filled)) > 4:
        return []
    if by_name(tuple(names), tuple(languages)) or names_of_languages(names) > 1:
        return names
    stopped = [name[-1:] in ENDS for name in filled]
    if all(stopped) or (any(stopped) and max(map(word_count, filled)) > 2):
        return []
    rows = [frozenset(words(" ".join(row))) for row in some]
    counts = Counter(word for row in rows for word in row)
    rare = 1 + 0.01 * len(rows)
    new = [all(counts[word] <= rare for word in row) for row in rows if row]
    unlike = bool(rows[0]) and new[0] and sum(new[1:]) < 0.02 * len(new)
    for name, column in zip(names, zip_longest(*some[1:], fillvalue=""), strict=False):
        numbers = sum(cell.strip().isdecimal() for cell in column) > 0.9 * len(column)
        unlike |= numbers and not any(map(str.isdecimal, name))
    return names if unlike and len(rows) > 20 else []
