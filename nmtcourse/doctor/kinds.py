"""What can be wrong with a corpus: how bad it is, in words, and what to do about it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

Level = Literal["wrong", "warning", "note"]
LEVELS: tuple[Level, ...] = ("wrong", "warning", "note")
EXAMPLES = 3  # of each finding
SHOWN = 100  # characters of an example's side


class Kind(NamedTuple):
    """One kind of finding: how bad it is follows from its harm and its share.

    Below the `share` of pairs it is a note only, and from `wrong_from` on training would be wrong.
    """

    level: Level
    share: float
    what: str
    todo: str
    wrong_from: float = 2.0  # more than all: never


DROPS = "--fix drops these pairs, both sides together"
TABLES = tomllib.loads(Path(__file__).with_name("tables.toml").read_text("utf-8"))
KINDS = {
    key: Kind(level, share, what, DROPS if todo == "drops" else todo, *more)
    for key, (level, share, what, todo, *more) in TABLES["kinds"].items()
}

# Wrong, and no copy can be right before a person has looked.
BY_HAND = (
    *("file", "format", "encoding", "same file", "no split"),
    *("equal", "script", "shifted", "unrelated"),
)


@dataclass
class Finding:
    """Pairs of one split that have something wrong: how many, some examples, what to do."""

    kind: str
    split: str
    count: int = 0
    total: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)  # number of the line, and text
    detail: str = ""
    todo: str = ""
    level_given: Level | None = None

    @property
    def level(self) -> Level:
        """How bad it is: less bad than its kind where it is rare."""
        kind, total = KINDS[self.kind], max(self.total, 1)
        if self.level_given:
            return self.level_given
        if self.total and self.count >= kind.wrong_from * total:
            return "wrong"
        rare = kind.share and self.count < kind.share * total
        return "note" if rare else kind.level

    @property
    def what(self) -> str:
        """In words, with what is known about this case."""
        return KINDS[self.kind].what + (f": {self.detail}" if self.detail else "")

    @property
    def advice(self) -> str:
        """What to do, '' where there is nothing."""
        return self.todo or KINDS[self.kind].todo

    def add(self, number: int, *sides: str) -> None:
        """Count a pair, and keep it if it is one of the first."""
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append((number, " | ".join(shown(side) for side in sides)))


def shown(text: str) -> str:
    """A text on one short line, with escapes for what cannot be seen."""
    visible = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return visible if len(visible) <= SHOWN else f"{visible[:SHOWN]}…"


def sorted_findings(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first, then in the order in which they were made."""
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))
