"""Compare what a cell prints with what is stored, as a reader does: numbers by value.

A number printed with decimals or with an exponent is measured: it may differ by ROOM of its value,
or by one unit of its last printed digit, because processors round differently.  All else is read
exactly: words, lines, columns, and whole numbers, which count things or tell a shape.

The tag `tolerance-0.1` gives every number of a cell more room, a tenth, also the whole numbers
outside a shape such as (2, 5, 64) or 2×5.  `conftest.py` puts this into `pytest --nbval`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from typing import Any

ROOM = 0.05  # of the larger of two numbers: what training gives differs in the second digit
TAG = re.compile(r"tolerance-(\d+\.\d+)")
DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)"  # 1,234 or 1234
END = r"(?!\.?\d)"  # not within 3.11.7, which is a version
SHAPE = rf"[(\[]\d+(?:, ?\d+)+,?[)\]]|{DIGITS}(?:[×x]{DIGITS})+{END}"
# Not a part of a name, such as v1.2; a hyphen behind a word is not a sign.
BEGIN = r"(?<![A-Za-z0-9_.])[-+−]?"
# Also torch's "1." in a tensor, which is "1.00" beside a number that is not whole.
MEASURED = rf"{BEGIN}{DIGITS}(?:\.\d+(?:[eE][-+]?\d+)?|[eE][-+]?\d+|\.(?=[,\]])){END}"
WHOLE = rf"{BEGIN}{DIGITS}{END}"


def read_numbers_by_value(cell: Any) -> None:
    """Let nbval compare the outputs of a cell (its IPyNbCell) as this module says.

    nbval goes on comparing exactly, and shows its usual difference.  But before, each number that
    agrees with the stored one is written as that, so the difference shows what does not agree.
    """
    compare_exactly = cell.compare_outputs
    tags = cell.cell.metadata.get("tags", ())

    def compare_as_read(now: list, stored: list, **options: Any) -> bool:
        write_outputs_as_stored(now, stored, cell.sanitize, tags, cell.parent.skip_compare)
        return compare_exactly(now, stored, **options)

    cell.compare_outputs = compare_as_read


def write_outputs_as_stored(
    now: list, stored: list, sanitize: Any, tags: Iterable[str], skipped: Container[str]
) -> None:
    """Change the texts of the outputs `now`: numbers that agree with the stored ones become those.

    As in nbval, the first text of a kind is compared with the first that is stored of this kind,
    and the kinds `skipped`, such as pictures, are not compared.
    """
    room, tagged = room_of(tags)
    waiting = defaultdict(list)
    for kind, place, key in list_texts(stored):
        waiting[kind].append(place[key])
    for kind, place, key in list_texts(now):
        if waiting[kind] and kind not in skipped:
            before, after = sanitize(waiting[kind].pop(0)), sanitize(place[key])
            if isinstance(before, str) and isinstance(after, str):
                place[key] = write_as_stored(after, before, room, whole=tagged)


def list_texts(outputs: Iterable[Any]) -> Iterator[tuple[str, dict, str]]:
    """Each text of some outputs: its kind, and the dictionary and the key under which it lies."""
    for output in outputs:
        if output["output_type"] == "stream":
            yield output["name"], output, "text"
        elif output["output_type"] == "error":
            yield "error", output, "evalue"
        else:
            yield from ((kind, output["data"], kind) for kind in list(output["data"]))


def room_of(tags: Iterable[str]) -> tuple[float, bool]:
    """The room of a cell with these tags, and whether a tag says so."""
    for tag in tags:
        if tag.startswith("tolerance"):
            match = TAG.fullmatch(tag)
            if match is None:
                raise ValueError(f"the tag {tag!r} gives no share; write it as tolerance-0.1")
            return float(match[1]), True
    return ROOM, False


def write_as_stored(now: str, stored: str, room: float = ROOM, *, whole: bool = False) -> str:
    """The text `now`, with each number as it is stored where both agree.

    With `whole`, whole numbers outside shapes are numbers too.  Equal to `stored` exactly where a
    reader would see no difference; where the number of lines differs, nothing is changed.
    """
    lines, stored_lines = now.split("\n"), stored.split("\n")
    if len(lines) != len(stored_lines):
        return now
    pairs = zip(lines, stored_lines, strict=True)
    return "\n".join(write_line_as_stored(line, before, room, whole) for line, before in pairs)


def write_line_as_stored(now: str, stored: str, room: float, whole: bool) -> str:
    """`write_as_stored` of one line."""
    parts, stored_parts = split_at_numbers(now, whole), split_at_numbers(stored, whole)
    if len(parts) != len(stored_parts):
        return now
    for i in range(1, len(parts), 2):
        if agree(parts[i], stored_parts[i], room):
            parts[i] = stored_parts[i]
            # In a column, a number with one more digit has one space less beside it.
            words, stored_words = parts[i - 1], stored_parts[i - 1]
            parts[i - 1] = words.rstrip(" ") + stored_words[len(stored_words.rstrip(" ")) :]
            words, stored_words = parts[i + 1], stored_parts[i + 1]
            spaces = len(stored_words) - len(stored_words.lstrip(" "))
            parts[i + 1] = " " * spaces + words.lstrip(" ")
    return "".join(parts)


def split_at_numbers(line: str, whole: bool = False) -> list[str]:
    """Words, number, words, number, …, words: the numbers have odd positions."""
    numbers = MEASURED
    if whole:
        numbers = f"{MEASURED}|{WHOLE}"
    parts, end = [], 0
    for match in re.finditer(f"(?:{SHAPE})|({numbers})", line):
        if match[1]:
            parts += [line[end : match.start()], match[1]]
            end = match.end()
    return [*parts, line[end:]]


def agree(now: str, stored: str, room: float) -> bool:
    """Whether two printed numbers are the same to a reader."""
    if now.endswith(".") and stored.endswith("."):  # whole numbers in a tensor
        return now == stored
    values = [float(text.replace(",", "").replace("−", "-")) for text in (now, stored)]
    difference, larger = abs(values[0] - values[1]), max(map(abs, values))
    unit = min(filter(None, (unit_of(now), unit_of(stored))), default=0.0)
    return difference <= max(room * larger, unit) * (1 + 1e-9)


def unit_of(number: str) -> float:
    """What one more in the last printed digit adds: 0.01 for 4.71, nothing for a whole number."""
    mantissa, _, exponent = number.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    if not decimals and not exponent:
        return 0.0
    return float(f"1e{int(exponent or 0) - decimals}")  # infinite, not an error, where it is huge
