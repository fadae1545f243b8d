"""One pass over the pairs of a split.  What is kept of each is a few numbers, not its text."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np

from nmtcourse.doctor.kinds import Finding, shown
from nmtcourse.doctor.languages import distinct_words, script_of, share_in_script, variants
from nmtcourse.doctor.opening import Row, Split
from nmtcourse.doctor.texts import bare, defects, is_empty, mended

ANCHOR = re.compile(r"\d+|[A-Z]\w{2,}")  # numbers and names stay the same in a translation
DIGITS = re.compile(r"\d+")
NUMBER = re.compile(r"([0-9]{1,9})[.):]?\s")
STOP = re.compile("[.!?…。！？]")
ENDS = re.compile(
    r"[.!?…][\"'”»)]*\s+(?=[\"'„“«(]*[A-ZÄÖÜÀ-Þ\u0410-\u042f])|[。！？](?=[^”」』）\s])"
)
SAMPLE = 2_000  # pairs whose text tells the scripts, and whose words the sides
LONG = 200  # words; what training leaves out unless its settings say otherwise
DROPPED = ("columns", "partner", "header", "record", "empty", "word", "reserved", "damaged")
COLUMNS = dict.fromkeys(("source_key", "target_key", "pair_key", "strict_key"), "q")
COLUMNS |= {"anchors_s": "Q", "anchors_t": "Q"}
COLUMNS |= dict.fromkeys(("words_s", "words_t", "chars_s", "chars_t"), "i")
COLUMNS |= {"turned": "b", "kept": "b"}


class Survey:
    """What one pass over a split finds.

    `numbers` has an entry for each row: keys of the sides (hashes of what `bare` leaves, and
    of the exact source), anchors (64 bits, set by hashes of names and numbers), words, characters,
    whether the pair looks turned (1) or untranslated (2), and whether `--fix` would keep it.
    `sample` are the first mended pairs, `letters` all characters of each side.
    """

    def __init__(self, split: Split, tags: Sequence[str] = ("", "")):
        self.split, self.tags = split, tags
        self.findings: dict[str, Finding] = {}
        self.sample: list[tuple[str, str]] = []
        self.letters: tuple[set[str], set[str]] = (set(), set())
        self.frequent = distinct_words(tags) if all(tags) else (frozenset(), frozenset())
        columns: dict[str, Any] = {name: array(code) for name, code in COLUMNS.items()}
        self.columns = columns
        add = [columns[name].append for name in COLUMNS]
        for row in split.rows():
            for append, value in zip(add, self.numbers_of(row), strict=True):
                append(value)
        self.numbers = {name: np.asarray(column) for name, column in columns.items()}
        for finding in self.findings.values():
            finding.total = len(self)

    def __len__(self) -> int:
        return len(self.columns["kept"])

    @property
    def kept(self) -> np.ndarray:
        """Which rows are pairs that `--fix` keeps as far as one pair alone tells."""
        return self.numbers["kept"].astype(bool)

    def note(self, kind: str, row: Row) -> None:
        """Count a finding of one row."""
        if kind not in self.findings:
            self.findings[kind] = Finding(kind, self.split.name)
        self.findings[kind].add(row.number, row.source, row.target)

    def numbers_of(self, row: Row) -> tuple[int, ...]:
        """The numbers that are kept of a row; what is wrong inside it is noted."""
        problem = row.problem or ("empty" if is_empty(row.source) or is_empty(row.target) else "")
        if problem:
            self.note(problem, row)
            return (0,) * len(COLUMNS)
        source, target = row.source, row.target
        found = defects(source) | defects(target)
        if found:
            for kind in found:
                self.note(kind, row)
            source, target = mended(source), mended(target)
            if not source or not target:
                self.note("empty", row)
                return (0,) * len(COLUMNS)
        key, other = hash(bare(source)), hash(bare(target))
        if len(self.sample) < SAMPLE:
            self.sample.append((source, target))
        self.letters[0].update(source)
        self.letters[1].update(target)
        self.look_at_pair(row, source, target)
        if source == target:
            self.note("equal", row)
        kept = found.isdisjoint(DROPPED)
        keys = key, other, hash((key, other)), hash(row.source), bits(source), bits(target)
        sizes = len(source.split()), len(target.split()), len(source), len(target)
        return *keys, *sizes, self.turned(row, source, target), kept

    def look_at_pair(self, row: Row, source: str, target: str) -> None:
        """Note what two sides tell only together: numbers, sentences, lengths."""
        if DIGITS.search(source) or DIGITS.search(target):
            if sorted(DIGITS.findall(source)) != sorted(DIGITS.findall(target)):
                self.note("numbers", row)
        if max(len(source), len(target)) > 2 * LONG:
            if max(source.count(" "), target.count(" ")) >= LONG:
                self.note("long", row)
        if source[0].isdigit() and (first := NUMBER.match(source)):
            if int(first[1]) in (row.number - 1, row.number):
                self.note("numbered", row)
        if source[0] == source[-1] == '"' and target[0] == target[-1] == '"':
            self.note("quoted", row)
        if (source.isupper() or target.isupper()) and len(source) > 10:
            self.note("capitals", row)
        for text in (source, target):
            if STOP.search(text, 0, len(text) - 3) and ENDS.search(text):
                self.note("sentences", row)
                break

    def turned(self, row: Row, source: str, target: str) -> int:
        """1 where each side is in the language of the other, 2 where one is, otherwise 0.

        A side is in a language if it has at least two of its frequent words, and none of the other.
        """
        first, second = self.frequent
        if not first or not second:
            return 0
        left, right = set(source.lower().split()), set(target.lower().split())
        if left.isdisjoint(second) and right.isdisjoint(first):
            return 0  # as nearly always
        wrong_left = len(left & second) > 1 and left.isdisjoint(first)
        wrong_right = len(right & first) > 1 and right.isdisjoint(second)
        if not wrong_left and not wrong_right:
            return 0
        if wrong_left and wrong_right:
            self.note("turned", row)
            return 1
        if left == right or len(left & second | right & first) < 3:
            return 0
        self.note("untranslated", row)
        return 2

    def side(self, number: int) -> str:
        """The sampled text of the source (0) or the target (1)."""
        return " ".join(pair[number] for pair in self.sample)

    def variants(self, number: int) -> tuple[int, int]:
        """How many characters of a side are of simplified and of traditional Chinese alone."""
        return variants(self.side(number))

    def scripts(self) -> list[float]:
        """The share of the letters of each side that are in the script of its language."""
        return [share_in_script(self.side(i), script_of(self.tags[i])) for i in (0, 1)]


@lru_cache(100_000)
def bit(anchor: str) -> int:
    """One of 64 bits, the same in each process."""
    return 1 << (crc32(anchor.encode()) & 63)


def bits(text: str) -> int:
    """Names and numbers of a text as 64 bits, each setting one of them."""
    found = 0
    for anchor in ANCHOR.findall(text):
        found |= bit(anchor)
    return found


def examples(split: Split, rows: Sequence[int]) -> list[tuple[int, str]]:
    """The number and text of some rows, by their positions from 0, in a second pass."""
    wanted = set(rows)
    found: list[tuple[int, str]] = []
    if wanted:
        for position, row in enumerate(split.rows()):
            if position in wanted:
                found.append((row.number, f"{shown(row.source)} | {shown(row.target)}"))
                if len(found) == len(wanted):
                    break
    return found
