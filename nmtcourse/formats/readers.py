"""Which two columns of a file are the pair, and the rows that they make.

A training and the doctor read every format with these functions, so they read the same pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from nmtcourse.formats.entries import (
    ERRORS,
    PEEK,
    Entry,
    Place,
    by_name,
    format_of,
    json_entries,
    jsonl_entries,
    strict_lines,
    xml_entries,
)
from nmtcourse.formats.languages import forms, is_unspaced, likeness
from nmtcourse.formats.tables import table_entries

ENTRIES: dict[str, Callable[[Place], Iterator[Entry]]] = {
    "tmx": xml_entries,
    "xliff": xml_entries,
    "json": json_entries,
    "jsonl": jsonl_entries,
    "csv": partial(table_entries, quotes=True),
    "lines": partial(table_entries, quotes=False),
}


class Row(NamedTuple):
    """One pair, or with a `problem` (a key of `KINDS`) what is in its place; and a remark."""

    number: int
    source: str
    target: str
    problem: str = ""
    remark: str = ""


class Choice(NamedTuple):
    """Which columns are the pair; `sure` by name, or because there are no others."""

    names: tuple[str, str] | None
    sure: bool
    keys: list[str]


def choose(
    entries: Iterable[Entry], languages: Sequence[str], columns: Sequence[str] = ()
) -> Choice:
    """Which two columns of some entries are the pair: those named `columns`, or by their names.

    Without names it is the only two columns, or, not surely, the two that look most like text in
    the languages.  A column of numbers or identifiers is never one of them.  Raises ValueError if
    there are no such `columns`.
    """
    cells = [entry.cells for entry in entries if entry.cells]
    keys = list(dict.fromkeys(key for row in cells for key in row))
    if columns:
        # A name may also be the text of a cell in the first row, which was not taken for a header.
        known = {text.strip().lower(): key for key, text in cells[0].items()} if cells else {}
        known |= {key.lower(): key for key in keys}
        chosen = [known.get(name.strip().lower(), "") for name in columns]
        if not all(chosen) or chosen[0] == chosen[1]:
            raise ValueError(f"--columns {' '.join(columns)}: expected two of {', '.join(keys)}")
        return Choice((chosen[0], chosen[1]), True, keys)
    texts = {key: [row[key] for row in cells if row.get(key, "").strip()] for key in keys}
    texts = {key: values for key, values in texts.items() if values and not is_id(values)}
    if named := by_name(tuple(texts), tuple(languages)):
        return Choice(named, True, keys)
    lengths = {k: sum(len(v.split()) for v in texts[k]) / len(texts[k]) for k in texts}
    short = {k for k in texts if lengths[k] < 1.05 and not is_unspaced(" ".join(texts[k]))}
    if max(lengths.values(), default=0) >= 3:  # single words beside sentences: names, domains
        texts = {key: values for key, values in texts.items() if key not in short}
    tagged = all(languages) and any(forms(key)[0] for key in texts)  # with other languages
    if len(keys) == len(texts) == 2 and not tagged:
        return Choice((keys[0], keys[1]), True, keys)
    texts = {k: v for k, v in texts.items() if len(set(v)) > 0.2 * len(v)}
    if len(texts) < 2:
        return Choice(None, False, keys)
    joined = {key: " ".join(values) for key, values in texts.items()}
    scores = [{k: likeness(joined[k], tag) for k in joined} for tag in languages if tag]
    best = [max(row, key=row.__getitem__) for row in scores if max(row.values()) > 0.05]
    if len(set(best)) < 2:
        best = sorted(
            sorted(joined, key=lambda k: -sum(map(str.isalpha, joined[k])))[:2], key=keys.index
        )
    return Choice((best[0], best[1]), False, keys)


def is_id(values: Sequence[str]) -> bool:
    """Whether texts are numbers or identifiers: without spaces, mostly with digits or no letter."""
    spaced = sum(" " in value.strip() for value in values)
    coded = sum(any(map(str.isdecimal, v)) or not any(map(str.isalpha, v)) for v in values)
    return spaced <= 0.02 * len(values) and coded > 0.5 * len(values)


def rows(
    entries: Iterable[Entry], choice: Choice, languages: Sequence[str], columns: Sequence[str] = ()
) -> Iterator[Row]:
    """The pairs of the entries, and what is in the place of one; an error of the file ends them."""
    number = 0
    entries = iter(entries)
    while True:
        try:
            entry = next(entries, None)
        except ERRORS as error:
            yield Row(number + 1, str(error), "", "record")
            return
        if entry is None:
            return
        names = choice.names
        cells = [entry.cells.get(name, "").strip().lower() for name in names or ()]
        if columns and not number and cells == [name.strip().lower() for name in columns]:
            number = entry.number
            yield Row(number, entry.raw or " | ".join(cells), "", "header")
            continue
        number = entry.number
        if entry.cells and not (names and names[0] in entry.cells and names[1] in entry.cells):
            names = None if columns else by_name(tuple(entry.cells), tuple(languages))
        if not entry.cells:
            yield Row(number, entry.raw, "", entry.problem)
        elif names:
            source, target = (entry.cells[name] for name in names)
            yield Row(number, source, target, "", entry.problem)
        else:
            yield Row(number, entry.raw or str(entry.cells), "", "record")


def read(path: str | Path, languages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The pairs of a file that a training reads, in any format but lines.

    Raises FileNotFoundError for a missing file, and ValueError naming the first entry without a
    pair, or the columns where no two of them are named.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no such text file: {path}")
    origin = Place(path, partial(strict_lines, path), languages)
    entries = partial(ENTRIES[format_of(path)], origin)
    advice = f"write a cleaned copy with: nmtlib data check {path} --fix DIR"
    try:
        choice = choose(islice(entries(), PEEK), languages)
        if not choice.sure:
            raise ValueError(
                f"its columns are {', '.join(choice.keys) or 'none'}; expected two named source "
                f"and target, or {' and '.join(languages)}; {advice}, and --columns A B to name two"
            )
        for row in rows(entries(), choice, languages):
            if row.problem:
                raise ValueError(
                    f"entry {row.number}: no text in both of {', '.join(languages)} "
                    f"({row.source[:80]!r}); see all, and {advice}"
                )
            yield row.source, row.target
    except ERRORS as error:
        raise ValueError(f"{path}: {error}") from None
