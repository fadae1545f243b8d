"""One bad input, what a command answered to it, and whether that is right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 20.0  # of a processor, for one case; most take some hundredths
SENTENCE = "der hund schläft heute ."


@dataclass(frozen=True)
class Outcome:
    """What a command answered.  `wrong` is a traceback, where there is one."""

    status: int | None
    out: str
    err: str
    wrong: str = ""


@dataclass(frozen=True)
class Case:
    """One bad input: what is given, how, and what must be answered.

    `arguments` are those of `nmtlib`; `files` are written and `damage` is done before, in the
    folder where the command runs.  `says` is a part of the answer, which is one line on stderr, or
    `lines` of them, or where `printed` on stdout.  A status of 0 means odd, but fine; what is
    written then is `makes`.  `play` runs the command otherwise, `slow` in a process of its own.
    """

    category: str
    given: str
    arguments: tuple[str, ...]
    says: str = ""
    status: int | tuple[int, ...] = 1
    files: Mapping[str, bytes] = field(default_factory=dict)
    damage: Callable[[Path], object] | None = None
    stdin: bytes = b""
    environment: Mapping[str, str] = field(default_factory=dict)
    lines: int = 1
    printed: bool = False
    makes: tuple[str, ...] = ()
    play: Callable[[Case], Outcome] | None = None
    slow: bool = False

    @property
    def statuses(self) -> tuple[int, ...]:
        """The exit statuses that are right."""
        return self.status if isinstance(self.status, tuple) else (self.status,)

    @property
    def name(self) -> str:
        """What distinguishes the case from all others."""
        return f"{self.category}: {self.given}: {' '.join(self.arguments)[:80]}"


# The run of these tests is hardly trained, and `nmtlib translate` says so of what it gives.
POOR = "nmtlib: the translation of "


def judge(case: Case, outcome: Outcome) -> list[str]:
    """What is wrong with an answer, as sentences; none where it is right."""
    if outcome.wrong:
        return [outcome.wrong]
    found = []
    if outcome.status not in case.statuses:
        found.append(f"status {outcome.status}, expected {case.status}")
    lines = [line for line in outcome.err.splitlines() if not line.startswith(POOR)]
    if outcome.status == 2 and lines and lines[0].startswith("usage: "):
        lines = lines[-1:]
        lines[0] = lines[0].replace("nmtlib ", "nmtlib: ", 1)  # argparse: "nmtlib train: error: …"
    said = outcome.out if outcome.status == 0 or case.printed else "\n".join(lines)
    if 0 not in case.statuses and not case.printed and len(lines) != case.lines:
        found.append(f"{len(lines)} lines on stderr, expected {case.lines}")
    if 0 in case.statuses and len(lines) > case.lines:
        found.append(f"{len(lines)} lines on stderr, expected at most {case.lines}")
    if any(not line.startswith("nmtlib: ") for line in lines):
        found.append("a line on stderr does not start with 'nmtlib: '")
    if outcome.status != 0 and not case.printed and lines and len(lines[0]) < 25:
        found.append("the line explains nothing")
    if any(len(line) > 2_000 for line in lines):
        found.append("a line is longer than anybody reads")
    if case.says not in said:
        found.append(f"{case.says!r} is not said")
    return found + ([f"stderr: {outcome.err[-1500:]}"] if found else [])


def changes(case: Case, before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    """What happened to files that should not have."""
    found = []
    for name in sorted(before.keys() | after.keys()):
        locked = name.endswith("/.lock") and name.replace(".lock", "settings.json") in before
        if locked or any(Path(name).match(pattern) for pattern in case.makes):
            continue
        if name not in after:
            found.append(f"lost: {name}")
        elif name not in before:
            found.append(f"left behind: {name}")
        elif Path(name).name == "log.txt" and after[name].startswith(before[name]):
            continue
        elif before[name] != after[name]:
            found.append(f"changed: {name}")
    return found
