"""The entries of a file of parallel text, whatever its format: their texts by column.

Columns are the tags of a TMX unit, the keys of a JSON object, the header of a table or the numbers
of its columns.  Which two of them are the pair is decided in `readers`.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import count, zip_longest
from pathlib import Path
from typing import IO, Any, NamedTuple
from xml.etree import ElementTree

from nmtcourse.formats.languages import forms, language_named
from nmtlib.files import decoded_lines

HEAD = 65_536  # bytes that tell what a file is
LONGEST_LINE = 2**20  # bytes
PEEK = 1_000  # entries that tell which columns are which
XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
CODES = {"bpt", "ept", "ph", "it", "ut"}  # inline codes of TMX and XLIFF; their content is no text
SIDES = {  # words in the name of a column
    "source": {"source", "src", "input", "original", "from"},
    "target": {"target", "tgt", "trg", "output", "translation", "to"},
}
XLIFF = {"source": ("source-language", "srcLang"), "target": ("target-language", "trgLang")}
SPLIT_NAMES = {"train": ("train",), "validation": ("valid", "val", "dev"), "test": ("test",)}
BEFORE = re.compile(r"\s*\S")
ERRORS = (ElementTree.ParseError, csv.Error, EOFError, gzip.BadGzipFile, ValueError)


class Place(NamedTuple):
    """A file, how its lines are read, and the split to take where it has several by key."""

    path: Path
    lines: Callable[[], Iterator[str]]
    languages: Sequence[str] = ("", "")
    part: str = ""


class Entry(NamedTuple):
    """What a file has for one pair: its texts by column, and its raw text.

    `number` is that of its first line where the format has lines, otherwise its own, from 1.
    Without texts a `problem` (a key of `KINDS`) says why, with them it is a remark.
    """

    number: int
    cells: dict[str, str]
    problem: str = ""
    raw: str = ""


def opened(path: str | Path) -> IO[bytes]:
    """The bytes of a file, decompressed where they begin as gzip does."""
    return gzip.open(path) if is_packed(path) else open(path, "rb")  # type: ignore[return-value]


def is_packed(path: str | Path) -> bool:
    """Whether a file begins as gzip does."""
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def raw_lines(path: str | Path) -> Iterator[bytes]:
    """The lines of a file, packed or not.  Raises ValueError for one longer than `LONGEST_LINE`.

    A few kilobytes of gzip may be gigabytes in one line: it is refused while it is read.
    """
    with opened(path) as file:
        for number in count(1):
            raw = file.readline(LONGEST_LINE + 1)
            if not raw:
                return
            if len(raw) > LONGEST_LINE and not raw.endswith(b"\n"):
                raise ValueError(
                    f"{path}, line {number}: more than {LONGEST_LINE // 2**20} MB without a line "
                    "end; give a text file with a sentence a line"
                )
            yield raw


def strict_lines(path: str | Path) -> Iterator[str]:
    """The lines of a UTF-8 file, packed or not.  Raises ValueError naming one that is not UTF-8."""
    yield from decoded_lines(raw_lines(path), str(path))


def format_of(path: str | Path) -> str:
    """The format of a file by its first bytes and its ending, a key of `readers.ENTRIES`."""
    with opened(path) as file:
        start = file.read(HEAD).removeprefix(b"\xef\xbb\xbf").lstrip()
    ending = str(path).removesuffix(".gz").rpartition(".")[2].lower()
    if xml := re.search(rb"<(tmx|xliff)\b", start[:4_000]):
        return xml[1].decode()
    if start[:1] == b"[" and start[1:].lstrip()[:1] in (b"{", b"["):
        return "json"
    if re.match(rb'\{\s*"', start):
        return "json" if ending == "json" and b"\n{" not in start else "jsonl"
    if start.startswith(b"[") and ending in ("json", "jsonl"):
        return ending
    return "csv" if ending == "csv" else "lines"


def xml_entries(origin: Place) -> Iterator[Entry]:
    """The units of TMX and XLIFF, their texts by language tag (in XLIFF also source, target)."""
    tags, number = {side: side for side in XLIFF}, 0
    with opened(origin.path) as file:
        for event, unit in ElementTree.iterparse(file, ("start", "end")):
            name = local(unit)
            if event == "start":
                if name in ("file", "xliff"):  # XLIFF 1.2 names its languages in one, 2.0 in both
                    for side, keys in XLIFF.items():
                        tags[side] = next(filter(None, map(unit.get, keys)), tags[side])
            elif name in ("tu", "trans-unit", "segment"):
                number += 1
                cells: dict[str, str] = {}
                for child in unit:
                    if (side := local(child)) == "tuv":
                        tag = child.get(XML_LANGUAGE) or child.get("lang") or f"{len(cells) + 1}"
                        segment = next((c for c in child if local(c) == "seg"), None)
                        cells.setdefault(tag, "" if segment is None else text_of(segment))
                    elif side in tags:
                        cells[tags[side]] = text_of(child)
                yield Entry(number, cells)
                unit.clear()


def local(element: ElementTree.Element) -> str:
    """The name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def text_of(element: ElementTree.Element) -> str:
    """The text of a segment without its codes, on one line."""

    def parts(element: ElementTree.Element) -> Iterator[str]:
        yield element.text or ""
        for child in element:
            if local(child) not in CODES:
                yield from parts(child)
            elif local(child) == "ph":
                yield "\0"  # between two words it stands for a space
            yield child.tail or ""

    text = re.sub(r"(?<=\w)\0+(?=\w)", " ", "".join(parts(element)))
    return " ".join(text.replace("\0", "").split())


def json_entries(origin: Place) -> Iterator[Entry]:
    """The entries of a JSON file; `origin.part` is the split to take where splits are keys."""
    data = load_json(origin.path)
    if splits := splits_of(data):
        if origin.part not in splits:
            raise ValueError(
                f"{origin.path} holds splits by key ({', '.join(splits)}); write them as files "
                f"with: nmtlib data check {origin.path} --fix DIR"
            )
        data = splits[origin.part]
    for number, value in enumerate(listed(data), start=1):
        yield entry_of(number, value)


def load_json(path: Path) -> Any:
    """The value of a JSON file.  Raises ValueError for anything else."""
    with opened(path) as file:
        try:
            return json.load(file)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is not valid JSON ({error})") from None


def splits_of(data: Any) -> dict[str, Any]:
    """The splits of a JSON object whose keys are their names: train, dev, …; otherwise none."""
    if not isinstance(data, dict):
        return {}
    splits = {
        name: value
        for name, starts in SPLIT_NAMES.items()
        for key, value in data.items()
        if key.lower().startswith(starts) and isinstance(value, list | dict)
    }
    return splits if "train" in splits and len(splits) == len(data) else {}


def listed(data: Any) -> Iterator[Any]:
    """The entries of a list, wherever an object has it, and of columns as lists or objects."""
    if isinstance(data, list):
        yield from data
        return
    values = list(data.values()) if isinstance(data, dict) else []
    lists = [v for v in values if isinstance(v, list) and v]
    plain = all(not isinstance(value[0], list | dict) for value in lists)
    if len(lists) > 1 and len(lists) == len(values) and plain:  # {"de": [...], "en": [...]}
        for row in zip_longest(*lists):
            yield dict(zip(data, row, strict=True))
    elif lists:  # {"version": 1, "data": [...]}
        yield from max(lists, key=len)
    elif len(values) > 1 and all(isinstance(v, dict) for v in values):  # as pandas writes columns
        for key in values[0]:
            yield {name: column.get(key) for name, column in data.items()}
    elif len(values) == 1:
        yield from listed(values[0])
    else:
        raise ValueError(f"expected a list of pairs, not {type(data).__name__}: {str(data)[:80]}")


def entry_of(number: int, value: Any) -> Entry:
    """The entry of a JSON value."""
    cells = flat(value)
    return Entry(number, cells, "" if cells else "record", f"{value}")


def flat(value: Any, name: str = "") -> dict[str, str]:
    """The texts of a nested value by name: {"translation": {"de": …}} has translation.de."""
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list) and (not name or value and isinstance(value[0], dict)):
        items = {str(i): v for i, v in enumerate(value, start=1)}.items()
    elif not name or isinstance(value, list):
        return {}
    else:
        return {name: "" if value is None else str(value)}
    values: dict[str, str] = {}
    for key, inner in items:
        values |= flat(inner, f"{name}.{key}" if name else str(key))
    return values


def jsonl_entries(origin: Place) -> Iterator[Entry]:
    """The values of a file of JSON lines; where the first takes several lines, all may."""
    first = next((line for line in origin.lines() if line.strip()), "")
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        yield from values_in("\n".join(origin.lines()))
        return
    for number, line in enumerate(origin.lines(), start=1):
        if line.strip():
            try:
                yield entry_of(number, json.loads(line))
            except (ValueError, RecursionError):
                yield Entry(number, {}, "record", line)


def values_in(text: str) -> Iterator[Entry]:
    """The entries of JSON values that follow each other, with the lines where they begin."""
    decoder, position, number = json.JSONDecoder(), 0, 1
    while blank := BEFORE.match(text, position):
        start = blank.end() - 1
        number += text.count("\n", position, start)
        try:
            value, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):  # go on where the next line begins a value
            after = re.compile(r"\n(?=[{\[])").search(text, start + 1)
            position = after.end() if after else len(text)
            yield Entry(number, {}, "record", text[start:position].strip())
        else:
            several = isinstance(value, list) and value and isinstance(value[0], list | dict)
            yield from (entry_of(number, entry) for entry in (value if several else [value]))
        number += text.count("\n", start, position)


@cache
def by_name(keys: tuple[str, ...], languages: tuple[str, ...]) -> tuple[str, str] | None:
    """The two keys that name the languages, otherwise those that name a source and a target.

    A key names a language if its last part (`en` of `translation.en`) is the same tag; failing that
    a tag of the same language and script, then of the same language; then if any of its words is
    (`text_en`).  No key is both sides.

    >>> by_name(("zh-Hans", "zh-Hant", "en"), ("zh-TW", "zh"))
    ('zh-Hant', 'zh-Hans')
    """
    if len(languages) == 2 and all(languages):
        names = [(key, forms_or_name(key.rpartition(".")[2])) for key in keys]
        expected = [forms_or_name(tag) for tag in languages]
        pair: list[str] = ["", ""]
        for level in range(4):
            for side in (0, 1):
                alike = (
                    key
                    for key, name in names
                    if key not in pair
                    and (
                        name[level] == expected[side][level]
                        if level < 3
                        else expected[side][2] in words(key)
                    )
                )
                pair[side] = pair[side] or next(alike, "")
        if all(pair):
            return pair[0], pair[1]
    sides = [side_of(key.rpartition(".")[2]) for key in keys]
    if sides.count("source") == sides.count("target") == 1:
        return keys[sides.index("source")], keys[sides.index("target")]
    return None


def forms_or_name(tag: str) -> tuple[str, str, str]:
    """The forms of a tag, or of the language that it names, or what it is in lower case."""
    for text in (tag.strip(), language_named(tag)):
        parts = forms(text)
        if all(parts):
            return parts
    return (tag.strip().lower(),) * 3


def side_of(name: str) -> str:
    """Which side a name such as src, input_text or target.en means, '' for neither."""
    parts = set(words(name))
    sides = [side for side, known in SIDES.items() if parts & known]
    return sides[0] if len(sides) == 1 else ""


def words(text: str) -> list[str]:
    """The words of a name or a line, in lower case."""
    return re.findall(r"[^\W_]+", text.lower())
