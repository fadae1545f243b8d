"""What the checks found, for a terminal and for a notebook."""

from __future__ import annotations

import html
import textwrap
from dataclasses import dataclass, replace
from typing import Literal

from nmtlib.checks.registry import Check

NO_PART = "the adapter has no "  # what is measured begins so where a missing part skips a check
WIDTH = 120  # of a report in a terminal
CELL = "text-align:left;vertical-align:top;padding:2px 10px 2px 0"
Verdict = Literal["passed", "failed", "error", "timeout", "skipped"]


@dataclass(frozen=True)
class Result:
    """One check's verdict, what it measured, and its time in seconds.

    'failed': the property does not hold; 'error': the implementation raised an exception;
    'timeout': it did not return; 'skipped': a part is missing, or nothing could be decided.
    `cause` is empty for what passed.
    """

    check: Check
    verdict: Verdict
    measured: str
    cause: str = ""
    seconds: float = 0.0

    @property
    def bad(self) -> bool:
        """Whether there is something to repair."""
        return self.verdict in ("failed", "error", "timeout")

    @property
    def notes(self) -> list[tuple[str, str]]:
        """What helps with a repair, each note with its label; none where nothing is known."""
        if not (self.bad and self.cause):
            return []
        read = f"notebooks/{self.check.notebook}.ipynb"
        return [("expected", self.check.property), ("likely cause", self.cause), ("read", read)]


@dataclass(frozen=True, repr=False)
class Report:
    """All results of one implementation, in the order in which the checks ran."""

    name: str
    results: tuple[Result, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether something was checked and nothing was found."""
        return bool(self.passed) and not self.failed

    @property
    def passed(self) -> list[Result]:
        """What holds."""
        return [result for result in self.results if result.verdict == "passed"]

    @property
    def failed(self) -> list[Result]:
        """What does not hold, raised an exception, or did not end."""
        return [result for result in self.results if result.bad]

    @property
    def skipped(self) -> list[Result]:
        """What could not be checked."""
        return [result for result in self.results if result.verdict == "skipped"]

    @property
    def summary(self) -> str:
        """One line with the numbers of verdicts."""
        counts = {name: len(getattr(self, name)) for name in ("passed", "failed", "skipped")}
        said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        return f"{self.name}: {said or 'nothing was checked'} in {self.seconds:.1f} s"

    def __str__(self) -> str:
        shown = self._shown()
        width = max((len(r.check.id) for r in shown), default=0)
        lines = [line for result in shown for line in _lines(result, width)]
        if absent := self._absent():
            lines += textwrap.wrap(f"skipped  {absent}", WIDTH, subsequent_indent=" " * 9)
        return "\n".join([*lines, "", self.summary])

    __repr__ = __str__

    def _absent(self) -> str:
        """One line about missing parts: a line for each of their checks would hide the others."""
        said = [r.measured for r in self.results if r.measured.startswith(NO_PART)]
        if not said:
            return ""
        lists = [text.removeprefix(NO_PART).split(", ") for text in said]
        parts = dict.fromkeys(part for parts in lists for part in parts)
        checks = "1 check" if len(said) == 1 else f"{len(said)} checks"
        return f"{checks} of parts that the adapter does not have: {', '.join(parts)}"

    def _shown(self) -> list[Result]:
        """The results but those of missing parts; an exception met several times is told once."""
        first: dict[str, str] = {}  # exception -> the check that met it first
        shown = []
        for result in self.results:
            if result.verdict == "error":
                met = first.setdefault(result.measured, result.check.id)
                if met != result.check.id:
                    result = replace(result, measured=f"the same exception as in {met}", cause="")
            if not result.measured.startswith(NO_PART):
                shown.append(result)
        return shown

    def _repr_html_(self) -> str:
        rows = "".join(_row(result) for result in self._shown())
        titles = ("verdict", "check", "what was measured")
        heads = "".join(f'<th style="{CELL}">{title}</th>' for title in titles)
        return (
            f"<p><b>{html.escape(self.summary)}</b></p>"
            f'<table style="border-collapse:collapse;font-size:90%"><tr>{heads}</tr>{rows}</table>'
            f"<p>{html.escape(self._absent())}</p>"
        )


def _lines(result: Result, width: int) -> list[str]:
    """A result as aligned lines of at most `WIDTH` characters."""
    margin = " " * (9 + width + 2)
    verdict = result.verdict.upper() if result.bad else result.verdict
    begin = f"{verdict:<9}{result.check.id:<{width}}  "
    lines = textwrap.wrap(
        result.measured, WIDTH, initial_indent=begin, subsequent_indent=margin
    ) or [begin]
    for label, note in result.notes:
        begin = f"{margin}{label}: "
        lines += textwrap.wrap(note, WIDTH, initial_indent=begin, subsequent_indent=margin + "  ")
    return [line.rstrip() for line in lines]


def _row(result: Result) -> str:
    """A result as a row of an HTML table."""
    measured = [result.measured, *(f"{label}: {note}" for label, note in result.notes)]
    color = "#1b7837" if result.verdict == "passed" else "#b2182b" if result.bad else "#666666"
    cells = {
        f"color:{color};font-weight:bold": result.verdict,
        "font-family:monospace": html.escape(result.check.id),
        "": "<br>".join(map(html.escape, measured)),
    }
    row = "".join(f'<td style="{CELL};{style}">{text}</td>' for style, text in cells.items())
    return f"<tr>{row}</tr>"
