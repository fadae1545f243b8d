"""What every line has at the same place is structure, not dirt: `--fix` keeps it, and says so.

A tag such as `<fr>` at the beginning of each source tells the model which language to write.  The
tags are a closed set, hardly ever closed by `</fr>`, and most lines have one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Set

from nmtcourse.doctor.texts import defects, mended

FIRST = re.compile(r"\s*([<\[][^<>\[\]\s]{1,20}[>\]])\s*(?=\S)")
LINES = 0.8  # the share of lines that have one
MOST = 50  # different ones
LEAST = 5  # times that each occurs
PEEK = 1_000  # lines that tell
FEW_MARKS = 12  # marks of a dictionary: {m}, {f}, {n}, {pl}, …
MARK = re.compile(r"\{[a-z]{1,4}\.?\}")


class Mender:
    """`defects` and `mended` for the lines of one side; its first tags may be part of the text."""

    def __init__(self, tags: Set[str] = frozenset()):
        self.tags = tags

    @classmethod
    def of(cls, texts: Iterable[str]) -> Mender:
        """The one for some lines, the first of a side."""
        lines = list(texts)
        firsts = [match[1] for text in lines if (match := FIRST.match(text))]
        counts = Counter(firsts)
        closed = sum(f"</{first[1:]}" in text for first in counts for text in lines)
        closed_set = 0 < len(counts) <= MOST and min(counts.values()) >= min(LEAST, len(lines))
        if closed_set and len(firsts) >= LINES * len(lines) and closed < 0.1 * len(lines):
            return cls(frozenset(counts))
        return cls()

    def parts(self, text: str) -> tuple[str, str]:
        """The tag that a line begins with, and the rest."""
        first = FIRST.match(text) if self.tags else None
        if first and first[1] in self.tags:
            return first[1], text[first.end() :]
        return "", text

    def defects(self, text: str) -> Set[str]:
        """The kinds of what is wrong inside a line."""
        return defects(self.parts(text)[1])

    def mended(self, text: str) -> str:
        """The line without those of its defects that can be mended."""
        tag, rest = self.parts(text)
        return f"{tag} {mended(rest)}".strip()


def marks_of(lost: Counter[str], on_both: Set[str]) -> Set[str]:
    """Of codes that one side lacks, those that are marks of a dictionary: Haus {n}.

    They are short, few, and the other side never has one.  A placeholder comes through somewhere.
    """
    marks = {code for code in lost if MARK.fullmatch(code) and code not in on_both}
    often = sum(lost[code] for code in marks) >= LEAST * len(marks)
    return marks if len(marks) <= FEW_MARKS and often else set()
