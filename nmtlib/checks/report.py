"""What the checks found, for a terminal and for a notebook."""

from __future__ import annotations

import html
import textwrap
from dataclasses import dataclass, replace
from typing import Any, Literal

from nmtlib.checks.registry import Check

NO_PART = (
    "the adapter has no "  # begins what is measured where a check is skipped for a missing part
)
Verdict = Literal["passed", "failed", "error", "timeout", "skipped"]
COLORS = {
    "passed": "#1b7837",
    "failed": "#b2182b",
    "error": "#b2182b",
    "timeout": "#b2182b",
    "skipped": "#666666",
}


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

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-able dictionaries."""
        results = [
            {
                "id": r.check.id,
                "verdict": r.verdict,
                "property": r.check.property,
                "measured": r.measured,
                "cause": r.cause,
                "notebook": r.check.notebook,
                "seconds": round(r.seconds, 3),
            }
            for r in self.results
        ]
        return {
            "name": self.name,
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            "results": results,
        }

    @property
    def summary(self) -> str:
        """One line with the numbers of verdicts."""
        counts = {
            "passed": len(self.passed),
            "failed": len(self.failed),
            "skipped": len(self.skipped),
        }
        said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        return f"{self.name}: {said or 'nothing was checked'} in {self.seconds:.1f} s"

    def __str__(self) -> str:
        width = max((len(r.check.id) for r in self._shown()), default=0)
        lines = [line for result in self._shown() for line in _lines(result, width)]
        if self._absent():
            lines += textwrap.wrap(f"skipped  {self._absent()}", 120, subsequent_indent=" " * 9)
        return "\n".join([*lines, "", self.summary])

    __repr__ = __str__

    def _absent(self) -> str:
        """One line about the parts that are missing: a line for each of their checks would hide the
        others.
        """
        absent = [
            r.measured.removeprefix(NO_PART) for r in self.results if r.measured.startswith(NO_PART)
        ]
        parts = dict.fromkeys(part for names in absent for part in names.split(", "))
        checks = "1 check" if len(absent) == 1 else f"{len(absent)} checks"
        return (
            f"{checks} of parts that the adapter does not have: {', '.join(parts)}"
            if absent
            else ""
        )

    def _shown(self) -> list[Result]:
        """The results but those of missing parts; an exception that came up in several checks is
        told once.
        """
        first: dict[str, str] = {}
        shown = []
        for result in self.results:
            if result.measured.startswith(NO_PART):
                continue
            if (
                result.verdict == "error"
                and first.setdefault(result.measured, result.check.id) != result.check.id
            ):
                result = replace(
                    result, measured=f"the same exception as in {first[result.measured]}", cause=""
                )
            shown.append(result)
        return shown

    def _repr_html_(self) -> str:
        rows = "".join(_row(result) for result in self._shown())
        heads = "".join(
            f'<th style="{_CELL}">{head}</th>' for head in ("verdict", "check", "what was measured")
        )
        return (
            f"<p><b>{html.escape(self.summary)}</b></p>"
            f'<table style="border-collapse:collapse;font-size:90%"><tr>{heads}</tr>{rows}</table>'
            f"<p>{html.escape(self._absent())}</p>"
        )


_CELL = "text-align:left;vertical-align:top;padding:2px 10px 2px 0"


def _lines(result: Result, width: int, total: int = 120) -> list[str]:
    """A result as aligned lines of at most `total` characters."""
    margin = " " * (9 + width + 2)
    verdict = result.verdict.upper() if result.bad else result.verdict
    lines = textwrap.wrap(
        result.measured, total, initial_indent=margin, subsequent_indent=margin
    ) or [margin]
    lines[0] = f"{verdict:<9}{result.check.id:<{width}}  {lines[0][len(margin) :]}"
    if result.bad and result.cause:
        notes = [
            ("expected", result.check.property),
            ("likely cause", result.cause),
            ("read", f"notebooks/{result.check.notebook}.ipynb"),
        ]
        for label, note in notes:
            inner = f"{margin}{label}: "
            lines += textwrap.wrap(
                note, total, initial_indent=inner, subsequent_indent=margin + "  "
            )
    return [line.rstrip() for line in lines]


def _row(result: Result) -> str:
    """A result as a row of an HTML table."""
    measured = html.escape(result.measured)
    if result.bad and result.cause:
        measured += (
            f"<br>expected: {html.escape(result.check.property)}"
            f"<br>likely cause: {html.escape(result.cause)}"
            f"<br>read: <i>{html.escape(result.check.notebook)}</i>"
        )
    verdict = (
        f'<td style="{_CELL};color:{COLORS[result.verdict]};font-weight:bold">{result.verdict}</td>'
    )
    name = f'<td style="{_CELL};font-family:monospace">{html.escape(result.check.id)}</td>'
    return f'<tr>{verdict}{name}<td style="{_CELL}">{measured}</td></tr>'
