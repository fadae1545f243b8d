"""A report as a table for a notebook."""

from __future__ import annotations

from html import escape
from typing import Any

Report = Any  # that of `nmtcheck.report.report`, which imports this module

CELL = "text-align:left;vertical-align:top;padding:2px 10px 2px 0"


def table(report: Report) -> str:
    """The summary and a table with inline styles: a notebook shows no others."""
    findings = [
        _row(r.verdict, r.title, [f"{label}: {said}" for label, said in r.notes], "#b2182b")
        + _row("", "", [f"{f.check.id} follows from it" for f in report.followers(r)])
        for r in report.findings
    ]
    passed = [_row("passed", r.check.id, [r.measured], "#1b7837") for r in report.passed]
    told = [r for r in report.skipped if not r.measured.startswith("the adapter has no ")]
    skipped = [_row("skipped", r.check.id, [r.measured]) for r in told]
    titles = ("verdict", "check", "what was measured")
    heads = "".join(f'<th style="{CELL}">{title}</th>' for title in titles)
    rows = "".join([*findings, *passed, *skipped])
    return (
        f"<p><b>{escape(report.summary)}</b><br>{escape(report.note)}</p>"
        f'<table style="border-collapse:collapse;font-size:90%"><tr>{heads}</tr>{rows}</table>'
        f"<p>{escape(report.absent())}</p>"
    )


def _row(verdict: str, name: str, lines: list[str], color: str = "#666666") -> str:
    """A row of the notebook's table, or nothing if there is nothing to report."""
    cells = {
        f"color:{color};font-weight:bold": escape(verdict),
        "font-family:monospace": escape(name),
        "": "<br>".join(map(escape, lines)),
    }
    row = "".join(f'<td style="{CELL};{style}">{text}</td>' for style, text in cells.items())
    return f"<tr>{row}</tr>" if lines else ""
