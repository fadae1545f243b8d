"""The rows of one split, whatever its files are: each pair with its number, or why it is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path

from nmtcourse.doctor.files import Look, look_at
from nmtcourse.doctor.kinds import Finding, shown
from nmtcourse.formats.entries import (
    ERRORS,
    PEEK,
    Place,
    format_of,
    is_packed,
    load_json,
    opened,
    raw_lines,
    splits_of,
)
from nmtcourse.formats.languages import is_tag, language_named
from nmtcourse.formats.readers import ENTRIES, Choice, Row, choose, rows
from nmtcourse.formats.tables import header_of, separator_of
from nmtlib.data.corpus import Pair
from nmtlib.settings import language_of

LONGEST_KEY = 40  # characters
ENDINGS = {"csv", "json", "jsonl", "tmx", "xlf", "xliff"}  # of what training reads by format


@dataclass
class Split:
    """One split to look at: `rows()` reads it from the beginning each time.

    `size` is how many lines (or what `unit` says) its files have, 0 for as many as it has rows.
    """

    name: str
    rows: Callable[[], Iterator[Row]]
    findings: list[Finding] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    unit: str = "lines"
    size: int = 0


def of_pairs(name: str, pairs: Sequence[Pair]) -> Split:
    """A split in memory."""
    return Split(
        name, lambda: (Row(i, pair.source, pair.target) for i, pair in enumerate(pairs, start=1))
    )


def of_files(
    name: str,
    files: Sequence[str | Path],
    languages: Sequence[str],
    encoding: str = "",
    columns: Sequence[str] = (),
) -> Split:
    """A split from one file of pairs, or a source and a target file.

    Raises FileNotFoundError for a missing file, and ValueError for another number of files or for
    `columns` that are none.
    """
    paths = [Path(file) for file in files]
    if len(paths) not in (1, 2):
        raise ValueError(f"{name} is one file of pairs or two text files, not {len(paths)}")
    sides = [language_of(tag) for tag in languages]
    looks = [look_at(path, sides[i], encoding) for i, path in enumerate(paths)]
    split = Split(name, lambda: iter(()), files=paths, size=max(look.lines for look in looks))
    for look in looks:
        split.findings += about_file(name, look, encoding)
        if len(looks) == 2 and look.format in ("tmx", "xliff"):
            look.problem = f"it is {look.format.upper()}, which holds both sides"
            split.findings.append(
                Finding("file", name, 0, 0, [], f"{look.path}: {look.problem}", "give it alone")
            )
    if any(look.problem and not look.proposals and not look.undecodable for look in looks):
        return split
    if len(paths) == 2:
        split.rows = lambda: two_files(looks)
        if paths[0].resolve() == paths[1].resolve():
            split.findings.append(Finding("same file", name, 0, 0, [], str(paths[0])))
    else:
        one_file(split, looks[0], languages, columns)
    return split


def languages_in(file: str, columns: Sequence[str] = ()) -> tuple[str, str]:
    """The languages that the names of the two columns of a file tell; '' where they do not."""
    path = Path(file)
    try:
        look = look_at(path)
        origin = Place(path, partial(lines_of, look))
        choice = choose(islice(ENTRIES[look.format](origin), PEEK), ("", ""), columns)
    except (OSError, *ERRORS):  # told when it is opened
        return "", ""
    # A key may be nested: translation.en
    names = [name.rpartition(".")[2] for name in choice.names or ("", "")]
    first, second = (name if is_tag(name) else language_named(name) for name in names)
    return (first, second) if first and second and first != second else ("", "")


def splits_in(files: Sequence[str]) -> list[str]:
    """The splits that one JSON file holds by key, for anything else train."""
    path = Path(files[0])
    if len(files) == 1 and path.is_file() and format_of(path) == "json":
        try:
            return list(splits_of(load_json(path))) or ["train"]
        except ValueError:
            pass  # told by the reader
    return ["train"]


def about_file(name: str, look: Look, encoding: str) -> Iterator[Finding]:
    """What is wrong with a file as a whole: its name, its encoding, that it is no text."""
    path = look.path
    if is_packed(path) != (path.suffix == ".gz"):
        new = path.with_suffix("") if path.suffix == ".gz" else f"{path}.gz"
        yield Finding("name", name, 0, 0, [], str(path), f"mv {path} {new}")
    if encoding and (look.undecodable or encoding.startswith("utf-")):
        detail = f"{path} as {encoding}"
        yield Finding("decoded", name, len(look.undecodable), look.lines, [], detail)
    elif look.problem:
        kind = "encoding" if look.proposals or look.undecodable else "file"
        examples = [(0, f"as {name}: {line}") for name, line in look.proposals]
        detail, count = f"{path}: {look.problem}", len(look.undecodable)
        yield Finding(kind, name, count, 0, examples, detail, look.advice)


def lines_of(look: Look) -> Iterator[str]:
    """The lines of a file, read in UTF-8 where they are that, otherwise as it was decided."""
    if look.encoding.startswith(("utf-16", "utf-32")):
        with opened(look.path) as file:
            text = file.read().decode(look.encoding, "replace")
        yield from (line.removesuffix("\r") for line in text.removesuffix("\n").split("\n"))
        return
    for number, raw in enumerate(raw_lines(look.path)):
        raw = raw.removeprefix(b"\xef\xbb\xbf") if not number else raw
        raw = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError:
            yield raw.decode(look.encoding, "replace")


def two_files(looks: Sequence[Look]) -> Iterator[Row]:
    """The rows of a source and a target file."""
    if have_keys(looks):
        yield from joined_by_key(looks)
        return
    some = [[[line] for line in islice(lines_of(look), PEEK)] for look in looks]
    header = all(header_of(rows, ()) for rows in some)
    for number, (source, target) in enumerate(zip_longest(*map(lines_of, looks)), start=1):
        problem = "header" if header and number == 1 else ""
        if source is None or target is None:
            problem = "partner"
        yield Row(number, source or "", target or "", problem)


def have_keys(looks: Sequence[Look]) -> bool:
    """Whether the lines of two files begin with a key and a tab, as `GEN 1:1` of a verse.

    Keys are short, each occurs once, and most of one file are in the other as well.
    """
    firsts = []
    for look in looks:
        lines = list(islice(lines_of(look), PEEK))
        keys = [key_of_line(line)[0] for line in lines]
        if not lines or sum(map(bool, keys)) < 0.95 * len(lines):
            return False
        firsts.append({key for key in keys if key})
        if len(firsts[-1]) < 0.95 * len(lines):
            return False
    return len(firsts[0] & firsts[1]) > 0.8 * min(map(len, firsts))


def key_of_line(line: str) -> tuple[str, str]:
    """The key that a line begins with, '' for none, and its text."""
    key, tab, text = line.partition("\t")
    return (key.strip(), text) if tab and len(key) <= LONGEST_KEY else ("", line)


def joined_by_key(looks: Sequence[Look]) -> Iterator[Row]:
    """The pairs of two files whose lines have keys, in the order of the source.

    What is in one file alone has no partner; the others are right, however many are missing.
    """
    targets: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines_of(looks[1]), start=1):
        key, text = key_of_line(line)
        targets.setdefault(key, (number, text))
    for number, line in enumerate(lines_of(looks[0]), start=1):
        key, text = key_of_line(line)
        if key in targets:
            yield Row(number, text, targets.pop(key)[1], "", "key")
        else:
            yield Row(number, line, "", "partner")
    for number, text in targets.values():
        yield Row(number, "", text, "partner")


def one_file(split: Split, look: Look, languages: Sequence[str], columns: Sequence[str]) -> None:
    """Give a split the rows of one file, and say which of its columns they are."""
    origin = Place(look.path, partial(lines_of, look), languages, split.name)
    entries = partial(ENTRIES[look.format], origin)
    if look.format not in ("csv", "lines"):
        split.unit, split.size = "entries", 0
    choice, first = Choice(None, False, []), ""
    try:
        some = list(islice(entries(), PEEK))
        first = next((entry.raw or str(entry.cells) for entry in some), "")
        choice = choose(some, languages, columns)
    except ERRORS as error:
        if columns:
            raise
        first = str(error)
    keys = ", ".join(choice.keys)
    if not choice.names:
        detail = f"{look.path}"
        if len(choice.keys) > 1:
            detail += f": its columns are {keys}"
        if not any(map(str.isalnum, "".join(islice(lines_of(look), PEEK)))):
            detail += "; no line has a word"
        finding = Finding("format", split.name, 0, 0, [(0, shown(first))], detail)
        finding.todo = (
            "" if len(choice.keys) > 1 else "convert it to two text files, CSV or JSON lines"
        )
        split.findings.append(finding)
        split.size = split.size or 1
        return
    split.rows = lambda: rows(entries(), choice, languages, columns)
    separator = separator_of(list(islice(lines_of(look), PEEK)), False)
    readable = choice.sure and not columns
    if look.format == "lines":
        readable = separator == "\t" and choice.names == tuple(choice.keys)
    elif str(look.path).removesuffix(".gz").rpartition(".")[2].lower() not in ENDINGS:
        advice = f"mv {look.path} {look.path}.{look.format}"
        split.findings.append(Finding("name", split.name, 0, 0, [], str(look.path), advice))
    elif look.format == "json" and splits_of(load_json(look.path)):
        readable = False
    if not readable:
        detail = f"{keys}; {' and '.join(choice.names)} look like the pair"
        if look.format == "lines" and separator != "\t":
            detail += f"; {separator.strip()} separates them"
        split.findings.append(Finding("chosen", split.name, look.lines, look.lines, [], detail))
