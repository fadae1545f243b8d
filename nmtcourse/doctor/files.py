"""What a file is, whatever its name says: text, an archive, a format; and in which encoding."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from nmtcourse.doctor.kinds import TABLES, shown
from nmtcourse.formats.entries import HEAD, format_of, opened, raw_lines
from nmtlib.files import names_a_file

BY_LINE = ("lines", "csv", "jsonl")  # formats that are read line by line
CONTROLS = bytes({*range(32), 127} - {9, 10, 12, 13})
SAMPLE = 200_000  # bytes of undecodable lines that tell the encoding


@dataclass
class Look:
    """What a file turned out to be.

    `format` is a key of `readers.ENTRIES`; `problem` and `advice` say why it cannot be read,
    `encoding` is what its bytes are read as; `undecodable` are the numbers of lines that are not in
    UTF-8, and `proposals` the encodings that they may be in, each with a line read so.
    """

    path: Path
    format: str = "lines"
    problem: str = ""
    advice: str = ""
    encoding: str = "utf-8"
    undecodable: list[int] = field(default_factory=list)
    lines: int = 0
    proposals: list[tuple[str, str]] = field(default_factory=list)


def look_at(path: Path, language: str = "", encoding: str = "") -> Look:
    """What a file is.  `encoding` is the one that the reader has decided on, '' for none.

    Raises FileNotFoundError for a missing file.
    """
    if not names_a_file(path):
        there = "a folder" if os.path.isdir(path) else "no such file"
        raise FileNotFoundError(f"{path}: {there}; expected a text file")
    look = Look(path)
    try:
        with opened(path) as file:
            head = file.read(HEAD)
    except (OSError, EOFError) as error:
        look.problem, look.advice = f"a damaged gzip file ({error})", "fetch it again"
        return look
    if not head.strip():
        look.problem, look.advice = "empty", "give a file with a sentence a line"
    elif what := _recognised(head, path):
        look.problem, look.advice = what
    elif (marked := _by_marks(head)) and not encoding:
        look.encoding = marked
        look.problem = f"this is {marked.upper()}"
        look.advice = f"{_convert(path, marked)}; or --encoding {marked} with --fix"
        look.proposals = [(marked, _first_line(head, marked))]
    elif b"\0" in head and not is_text(head.replace(b"\0", b"")) and not encoding:
        look.problem, look.advice = "a binary file: it holds NUL bytes", "give a text file"
    else:
        look.format = format_of(path)
        try:
            _read_through(look, language, encoding)
        except ValueError as error:  # a line without end
            look.problem = str(error).removeprefix(f"{path}, ").partition(";")[0]
            look.advice = "give a text file with a sentence a line"
            if head.count(b"\r") > 3:
                look.problem, look.advice = old_mac(path)
    return look


def _recognised(head: bytes, path: Path) -> tuple[str, str] | None:
    for begin, (what, advice) in TABLES["begins"].items():
        if head.startswith(begin.encode("latin-1")):
            return what, advice.format(path=path)
    if head[257:262] == b"ustar":
        return "a tar archive", f"tar xf {path}"
    for pattern, (what, advice) in TABLES["holds"].items():
        if re.search(pattern.encode("latin-1"), head):
            return what, advice.format(path=path)
    return None


def _by_marks(head: bytes) -> str:
    """UTF-16 or UTF-32 by its mark, or by where its zeros are; '' for neither."""
    for mark, name in [(b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32")]:
        if head.startswith(mark):
            return name
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    even, odd = head[0::2].count(0), head[1::2].count(0)
    half = len(head) / 2
    if odd > 0.3 * half and even < 0.05 * half:
        return "utf-16-le"
    return "utf-16-be" if even > 0.3 * half and odd < 0.05 * half else ""


def _read_through(look: Look, language: str, encoding: str) -> None:
    """Find the lines that are not UTF-8, and what they may be."""
    if encoding.startswith(("utf-16", "utf-32")):  # its bytes have no lines: \n is two or four
        with opened(look.path) as file:
            text = file.read().decode(encoding, "replace")
        look.encoding, look.lines = encoding, text.removesuffix("\n").count("\n") + 1
        look.undecodable = list(range(1, look.lines + 1))
        return
    bad, size, returns, number, inside = [], 0, 0, 0, False
    lines = raw_lines(look.path) if look.format in BY_LINE else opened(look.path)
    for number, raw in enumerate(lines, start=1):
        returns += raw.count(b"\r")
        try:
            inside = bool(raw.decode("utf-8")) and (inside or not raw.isascii())
        except UnicodeDecodeError:
            look.undecodable.append(number)
            if size < SAMPLE:
                bad.append(raw)
                size += len(raw)
    look.lines = number
    if returns > 3 and number <= 1:
        look.problem, look.advice = old_mac(look.path)
    if encoding:
        look.encoding = encoding
    if not bad or encoding:
        return
    look.proposals = proposals(b"".join(bad), language)
    look.encoding = look.proposals[0][0] if look.proposals else "latin-1"
    mixed = inside and len(look.undecodable) < number
    problem = f"{len(look.undecodable):,} of {number:,} lines are not UTF-8"
    problem += ", others are: files in two encodings were joined" if mixed else ""
    guesses = " or ".join(name.upper() for name, _ in look.proposals) or "unknown"
    look.problem = f"{problem}; they look like {guesses}"
    look.advice = f"if the line above reads well: --encoding {look.encoding} with --fix" + (
        "" if mixed else f", or {_convert(look.path, look.encoding)}"
    )


def is_text(head: bytes) -> bool:
    """Whether bytes are UTF-8, but for a cut character at the end, and hold few controls."""
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:
            return False
    return len(head) - len(head.translate(None, CONTROLS)) <= 0.01 * len(head)


def old_mac(path: Path) -> tuple[str, str]:
    """The problem and the advice for a file whose lines end in CR alone."""
    return (
        "line ends of an old Mac (CR): all of it is one line",
        f"tr '\\r' '\\n' < {path} > {path}.unix",
    )


def _convert(path: Path, encoding: str) -> str:
    return f"iconv -f {encoding.upper()} -t UTF-8 {path} > {path}.utf8"


def _first_line(data: bytes, encoding: str) -> str:
    text = data[: len(data) // 4 * 4].decode(encoding, "replace")
    return shown(text.splitlines()[0] if text.strip() else "")


def proposals(data: bytes, language: str = "") -> list[tuple[str, str]]:
    """At most three encodings that some bytes may be in, each with a line read in it.

    First the usual one of the language, then what the library takes the bytes for: it counts which
    characters follow each other, and is mistaken often, so the reader decides.
    """
    import charset_normalizer

    usual = [
        name for name, languages in TABLES["charsets"].items() if language in languages.split()
    ]
    usual += ["big5"] * (language == "zh")
    best = charset_normalizer.from_bytes(data).best()
    likely = [best.encoding, *best.could_be_from_charset] if best else []
    readings: dict[str, str] = {}
    for name in [*usual, *likely, "cp1252"]:
        name = name.replace("_", "-").removeprefix("iso8859-1x")
        try:
            text = data.decode(name)
        except (UnicodeDecodeError, LookupError):
            continue
        line = text.splitlines()[0]
        if text.replace("\n", "").replace("\r", "").replace("\t", "").isprintable() or not readings:
            if line not in readings.values():
                readings[name] = line
    return [(name, shown(line)) for name, line in list(readings.items())[:3]]
