"""One pass over the pairs of a split.  What is kept of each is a few numbers, not its text."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Sequence, Set
from functools import lru_cache
from itertools import islice
from typing import Any
from zlib import crc32

import numpy as np

from nmtcourse.doctor.kinds import Finding, shown
from nmtcourse.doctor.opening import Split
from nmtcourse.doctor.structure import PEEK, Mender, marks_of
from nmtcourse.doctor.texts import (
    DIGIT,
    DIGITS,
    SEPARATOR,
    bare,
    is_empty,
    is_one_element,
    placeholders,
    same_numbers,
    values,
)
from nmtcourse.formats.languages import (
    CHINESE,
    CODES,
    distinct_words,
    fits,
    script_of,
    script_of_line,
)
from nmtcourse.formats.readers import Row

NAME = re.compile(r"[A-Z]\w{2,}")  # names and numbers stay the same in a translation
NUMBERED = re.compile(r"([0-9]{1,9})[.):]?\s")
STOP = re.compile("[.!?…。！？]")
ENDS = re.compile(
    r"[.!?…][\"'”»)]*\s+(?=[\"'„“«(]*[A-ZÄÖÜÀ-Þ\u0410-\u042f])|[。！？](?=[^”」』）\s])"
)
SAMPLE = 2_000  # pairs whose text tells the scripts, and whose words the sides
SHORT_COPY = 10  # characters of a copy that may be a name
LONG = 200  # words; what training leaves out unless its settings say otherwise
NO_PAIR = ("columns", "partner", "header", "record", "empty", "tag line")
DROPPED = (*NO_PAIR, "word", "reserved", "damaged")
COLUMNS = dict.fromkeys(("source_key", "target_key", "pair_key", "strict_key", "template_key"), "q")
COLUMNS |= {"anchors_s": "Q", "anchors_t": "Q"}
COLUMNS |= dict.fromkeys(("words_s", "words_t", "chars_s", "chars_t"), "i")
COLUMNS |= dict.fromkeys(("script_s", "script_t", "turned", "copy", "kept"), "b")


class Survey:
    """What one pass over a split finds.

    `numbers` has an entry for each row: keys of the sides (hashes of what `bare` leaves, and
    of the exact source), anchors (64 bits, set by hashes of names and numbers), words, characters,
    scripts (their places in `CODES`), whether the pair looks turned (1) or untranslated (2),
    whether it is a long copy, and whether `--fix` would keep it.  `sample` are the first mended
    pairs, `letters` all characters of each side.
    """

    def __init__(self, split: Split, tags: Sequence[str] = ("", "")):
        self.split, self.tags = split, tags
        self.findings: dict[str, Finding] = {}
        self.sample: list[tuple[str, str]] = []
        self.letters: tuple[set[str], set[str]] = (set(), set())
        self.frequent = distinct_words(tags) if all(tags) else (frozenset(), frozenset())
        first = list(islice((row for row in split.rows() if not row.problem), PEEK))
        self.menders = Mender.of(r.source for r in first), Mender.of(r.target for r in first)
        self.lost: list[tuple[Row, list[str]]] = []  # pairs, and the codes that one side lacks
        self.on_both: set[str] = set()  # codes that both sides of some pair have
        columns: dict[str, Any] = {name: array(code) for name, code in COLUMNS.items()}
        self.columns = columns
        add = [columns[name].append for name in COLUMNS]
        for row in split.rows():
            for append, value in zip(add, self.numbers_of(row), strict=True):
                append(value)
        self.numbers = {name: np.asarray(column) for name, column in columns.items()}
        self.note_codes()
        for mender, word in zip(self.menders, ("source", "target"), strict=True):
            if mender.tags:
                tags = " ".join(sorted(mender.tags)[:8])
                self.findings["tag"] = Finding(
                    "tag", split.name, len(self), detail=f"{word}: {tags}"
                )
        for finding in self.findings.values():
            finding.total = len(self)

    def __len__(self) -> int:
        return len(self.columns["kept"])

    @property
    def unread(self) -> int:
        """How many rows are no pair at all."""
        return sum(f.count for kind, f in self.findings.items() if kind in NO_PAIR)

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
        if source[:1] == target[:1] == "<" and is_one_element(source) and is_one_element(target):
            self.note("tag line", row)
            return (0,) * len(COLUMNS)
        first, second = self.menders
        kinds = {*first.defects(source), *second.defects(target)}
        if row.remark:
            kinds.add(row.remark)
        if kinds:
            source, target = first.mended(source), second.mended(target)
            kinds |= {*first.defects(source), *second.defects(target)}  # &lt;EOS&gt; was an entity
            for kind in kinds:
                self.note(kind, row)
            if not source or not target:
                self.note("empty", row)
                return (0,) * len(COLUMNS)
        # From here on the tag of a line counts as no text: it has no language and no length.
        source, target = first.parts(source)[1], second.parts(target)[1]
        if SEPARATOR in source or SEPARATOR in target:
            self.note("separators", row)
        left, right = hash(bare(source)), hash(bare(target))
        if len(self.sample) < SAMPLE:
            self.sample.append((source, target))
        self.letters[0].update(source)
        self.letters[1].update(target)
        self.look_at_pair(row, source, target, kinds)
        copy = source == target
        if copy:
            self.note("equal", row)
        kept = kinds.isdisjoint(DROPPED)
        template = hash(DIGITS.sub("", bare(source))) if DIGIT.search(source) else left
        keys = left, right, hash((left, right)), hash(row.source), template
        anchors = bits(source), bits(target)
        sizes = len(source.split()), len(target.split()), len(source), len(target)
        scripts = script_of_line(source), script_of_line(target)
        turned = self.turned(row, source, target, scripts)
        long_copy = copy and len(source) > SHORT_COPY
        return *keys, *anchors, *sizes, *map(CODES.index, scripts), turned, long_copy, kept

    def look_at_pair(self, row: Row, source: str, target: str, kinds: Set[str]) -> None:
        """Note what two sides tell only together: numbers, sentences, lengths."""
        if not same_numbers(source, target) and "zawgyi" not in kinds:  # it has digits of its own
            self.note("numbers", row)
        if source.count("\t") and source.partition("\t")[0] == target.partition("\t")[0]:
            self.note("key", row)
        if "%" in source or "{" in source or "<" in source or "%" in target or "{" in target:
            codes = Counter(placeholders(source)), Counter(placeholders(target))
            self.on_both.update(codes[0] & codes[1])
            if lost := (codes[0] - codes[1]) + (codes[1] - codes[0]):
                self.lost.append((row, list(lost)))
        if max(len(source), len(target)) > 2 * LONG:
            if max(source.count(" "), target.count(" ")) >= LONG:
                self.note("long", row)
        if source[0].isdigit() and (first := NUMBERED.match(source)):
            if int(first[1]) in (row.number - 1, row.number):
                self.note("numbered", row)
        if source[0] == source[-1] == '"' and target[0] == target[-1] == '"':
            if source.count('"') == target.count('"') == 2:  # more are direct speech
                self.note("quoted", row)
        if len(source) > 10 and (in_capitals(source) or in_capitals(target)):
            self.note("capitals", row)
        for text in (source, target):
            if STOP.search(text, 0, len(text) - 3) and ENDS.search(text):
                self.note("sentences", row)
                break

    def note_codes(self) -> None:
        """Note placeholders that one side lacks, and apart from them the marks of a dictionary."""
        counts = Counter(code for _, codes in self.lost for code in codes)
        marks = marks_of(counts, self.on_both)
        for row, codes in self.lost:
            self.note("dictionary marks" if marks >= set(codes) else "placeholders", row)

    def turned(self, row: Row, source: str, target: str, scripts: tuple[str, str]) -> int:
        """1 where each side is in the language of the other, 2 where one is, otherwise 0.

        A side is in a language if it is in its script and not in that of the other, or if it has at
        least two of its frequent words, and none of the other.
        """
        left, right = map(script_of, self.tags)
        if fits(scripts[0], right) and fits(scripts[1], left):
            if not fits(scripts[0], left) and not fits(scripts[1], right):
                self.note("turned", row)
                return 1
        elif not fits(scripts[0], left) or not fits(scripts[1], right):
            return 0  # a list of words in another script tells nothing
        return self.turned_by_words(row, source, target)

    def turned_by_words(self, row: Row, source: str, target: str) -> int:
        """As `turned`, by the frequent words alone."""
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

    def scripts(self, side: int) -> dict[str, int]:
        """How many lines of the source (0) or the target (1) are in each script, most first.

        A line of Chinese characters that every form has tells nothing; in Japanese and Korean, no
        line of Chinese characters does.
        """
        numbers = np.bincount(self.numbers[f"script_{'st'[side]}"][self.kept], minlength=len(CODES))
        counts = Counter(dict(zip(CODES[1:], numbers[1:].tolist(), strict=True)))
        if max(counts["Kana"], counts["Hang"]) > 0.3 * counts.total():
            counts = Counter({s: n for s, n in counts.items() if s not in CHINESE})
        if counts.total() > counts["Hani"]:
            del counts["Hani"]
        return {script: count for script, count in counts.most_common() if count}

    def share_fitting(self, side: int, tag: str) -> float:
        """The share of the lines of a side that are in the script of a tag; 1 without any."""
        scripts, expected = self.scripts(side), script_of(tag)
        fitting = sum(count for script, count in scripts.items() if fits(script, expected))
        return fitting / max(sum(scripts.values()), 1) if scripts else 1.0


def in_capitals(text: str) -> bool:
    """Whether a sentence is all in capitals: two words or more, and most letters have a case."""
    if not text.isupper() or len(text.split()) < 2:
        return False
    letters = [character for character in text if character.isalpha()]
    return sum(map(str.isupper, letters)) > 0.5 * len(letters)


@lru_cache(100_000)
def bit(anchor: str) -> int:
    """One of 64 bits, the same in each process."""
    return 1 << (crc32(anchor.encode()) & 63)


def bits(text: str) -> int:
    """Names and numbers of a text as 64 bits, each setting one of them."""
    bits = 0
    for anchor in NAME.findall(text) + (values(text) if DIGIT.search(text) else []):
        bits |= bit(anchor)
    return bits


def examples(split: Split, rows: Sequence[int]) -> list[tuple[int, str]]:
    """The number and text of some rows, by their positions from 0, in a second pass."""
    positions = set(rows)
    samples: list[tuple[int, str]] = []
    if positions:
        for position, row in enumerate(split.rows()):
            if position in positions:
                samples.append((row.number, f"{shown(row.source)} | {shown(row.target)}"))
                if len(samples) == len(positions):
                    break
    return samples
