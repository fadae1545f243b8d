"""The findings of the checks: distinct causes first, for a terminal, notebook or file."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from typing import Any

from nmtcheck.adapter import PARTS
from nmtcheck.report.relations import fundamental, reproduction
from nmtcheck.result import Result

NO_PART = "the adapter has no "  # what is measured begins so where a missing part skips a check
UNWRITTEN = "your code raises NotImplementedError: "  # and so where it skips one
WIDTH = 120  # of a report in a terminal
FOLDED = 3  # lines shown of what the code printed


@dataclass(frozen=True, repr=False)
class Report:
    """All results of one implementation, in the order in which the checks ran.

    `findings` are the distinct causes among what `failed`; `note` says which special ids were found
    out; `where` is code for the adapter and stands with `seed` in the lines that show a finding
    again; `printed` is what a file wrote when it was imported.
    """

    name: str
    results: tuple[Result, ...]
    seconds: float
    note: str = ""
    where: str = ""
    seed: int = 0
    printed: str = ""
    hearts: tuple[
        tuple[str, str, bool], ...
    ] = ()  # what, how far it was read, whether that is enough

    @property
    def read(self) -> str:
        """One line about what was read: attention, masks, loss and search."""
        return "; ".join(f"{name} {text}" for name, text, _ in self.hearts)

    @property
    def ok(self) -> bool:
        """Whether something was checked and nothing was found."""
        return self.status == 0

    @property
    def status(self) -> int:
        """The exit status: 0 sound, 1 something was found, 2 something could not be read or run."""
        if self.missing:
            return 2
        return 1 if self.failed else 2 if not all(fine for *_, fine in self.hearts) else 0

    @property
    def missing(self) -> str:
        """One line about what is missing where nothing could run; empty otherwise."""
        unwritten = sum(r.measured.startswith(UNWRITTEN) for r in self.skipped)
        answered = len(self.passed) + len(self.failed)
        if answered and unwritten <= answered:
            return ""
        said = [r.measured for r in self.skipped if not r.measured.startswith(NO_PART)]
        return f"nothing could run: {said[0] if said else self.absent() or 'no check was chosen'}"

    @property
    def passed(self) -> list[Result]:
        """The properties that hold."""
        return [result for result in self.results if result.verdict == "passed"]

    @property
    def failed(self) -> list[Result]:
        """The properties that do not hold, raised an exception, or did not end."""
        return [result for result in self.results if result.bad]

    @property
    def skipped(self) -> list[Result]:
        """The properties that could not be checked."""
        return [result for result in self.results if result.verdict == "skipped"]

    @property
    def findings(self) -> list[Result]:
        """The distinct causes: failures that follow from no other, most fundamental first."""
        return fundamental([r for r in self.failed if not r.follows], self.results)

    def followers(self, finding: Result) -> list[Result]:
        """The failures that follow from a finding and will probably disappear with it."""
        return [r for r in self.failed if r.follows == finding.check.id]

    def reproduce(self, finding: Result) -> list[str]:
        """Three lines of Python that reproduce the finding."""
        return reproduction(finding, self.where, self.seed)

    @property
    def summary(self) -> str:
        """One line with the numbers of findings, and of checks that passed or were skipped."""
        count = len(self.findings)
        said = [f"{count} {'finding' if count == 1 else 'findings'}"] if count else []
        if more := len(self.failed) - count:
            said[0] += f" ({more} more {'failure follows' if more == 1 else 'failures follow'})"
        counts = {"passed": len(self.passed), "skipped": len(self.skipped)}
        said += [f"{number} {verdict}" for verdict, number in counts.items() if number]
        return f"{self.name}: {', '.join(said) or 'nothing was checked'} in {self.seconds:.1f} s"

    def to_dict(self) -> dict[str, Any]:
        """The report as data for JSON; a finding also has `follow` and `reproduce`."""
        findings = [
            r.to_dict()
            | {"follow": [f.check.id for f in self.followers(r)], "reproduce": self.reproduce(r)}
            for r in self.findings
        ]
        facts = {"name": self.name, "ok": self.ok, "status": self.status, "summary": self.summary}
        facts |= {"read": self.read, "taken_to_be": self.note.splitlines(), "missing": self.missing}
        return {**facts, "findings": findings, "results": [r.to_dict() for r in self.results]}

    def to_json(self) -> str:
        """`to_dict` as a JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def __str__(self) -> str:
        notes = [*self.note.splitlines(), self.missing]
        lines = [
            *filter(None, [self.read]),
            self.summary,
            *(line for note in notes for line in textwrap.wrap(note, WIDTH)),
        ]
        lines += [*_printed("your file printed: ", self.printed), ""]
        for finding in self.findings:
            lines += [*self._lines_of(finding), ""]
        told = [r for r in self.passed + self.skipped if not r.measured.startswith(NO_PART)]
        width = max((len(r.check.id) for r in told), default=0)
        lines += [_wrapped(f"{r.verdict:<9}{r.check.id:<{width}}  ", r.measured) for r in told]
        if absent := self.absent():
            lines.append(_wrapped("skipped  ", absent))
        return "\n".join(lines).rstrip()

    __repr__ = __str__

    def _lines_of(self, finding: Result) -> list[str]:
        """A finding as lines of at most `WIDTH` characters, except code."""
        lines = [f"{finding.verdict.upper():<9}{finding.title}"]
        lines += [_wrapped(f"  {f'{label}:':<17}", said) for label, said in finding.notes]
        code = self.reproduce(finding)
        lines += [f"  {'show again:':<17}{code[0]}", *(f"{'':<19}{line}" for line in code[1:])]
        if follow := self.followers(finding):
            names = ", ".join(f.check.id for f in follow)
            lines.append(_wrapped(f"  {'follow:':<17}", names))
        return lines + _printed(f"  {'printed:':<17}", finding.printed)

    def absent(self) -> str:
        """One line about missing parts: a line for each of their checks would hide the others."""
        said = [r.measured for r in self.results if r.measured.startswith(NO_PART)]
        if not said:
            return ""
        lists = [text.removeprefix(NO_PART).replace("|", ", ").split(", ") for text in said]
        parts = dict.fromkeys(part for parts in lists for part in parts)
        parts = {part: None for part in PARTS if part in parts}
        checks = "1 check" if len(said) == 1 else f"{len(said)} checks"
        return f"{checks} of parts that the adapter does not have: {', '.join(parts)}"


def _printed(begin: str, text: str) -> list[str]:
    """The first lines of what code printed, and how many more there are; none for no text."""
    said = text.splitlines()
    shown = FOLDED if len(said) > FOLDED + 1 else len(said)
    more = f" … and {len(said) - shown} more lines" if len(said) > shown else ""
    return [_wrapped(begin, " | ".join(said[:shown]) + more)] if said else []


def _wrapped(begin: str, text: str) -> str:
    """`begin` and a text beside it, in lines of at most `WIDTH` characters."""
    margin = " " * len(begin)
    lines = textwrap.wrap(text, WIDTH, initial_indent=begin, subsequent_indent=margin)
    return "\n".join(lines) or begin.rstrip()
