"""A report as HTML: a table for a notebook, and a separate page, light and dark."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from nmtcheck.result import Result

Report = Any  # that of `nmtcheck.report.report`, which imports this module

CELL = "text-align:left;vertical-align:top;padding:2px 10px 2px 0"
STYLE = Path(__file__).with_name("page.css").read_text("utf-8")


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


def whole(report: Report) -> str:
    """A page that needs no other file, script or network."""
    kind = "good" if report.ok else "bad"
    head, _, rest = report.summary.partition(": ")
    title = escape(f"{head}: {rest}")
    told = [r for r in report.skipped if not r.measured.startswith("the adapter has no ")]
    parts = [
        f"<h1>{escape(head)}</h1><p class={kind}><b>{escape(rest)}</b></p>",
        f"<p class=soft>{escape(report.note)}</p>" if report.note else "",
        _details("what your file printed", report.printed) if report.printed else "",
        *(_article(report, finding) for finding in report.findings),
        _folded(f"{len(report.passed)} checks passed", report.passed),
        _folded(f"{len(told)} checks could not decide", told) if told else "",
        f"<p class=soft>{escape(report.absent())}</p>",
    ]
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    start = f'<!doctype html><html lang="en"><head>{meta}<title>{title}</title>'
    body = "\n".join(filter(None, parts))
    return f"{start}<style>{STYLE}</style></head><body>\n{body}\n</body></html>\n"


def _article(report: Report, finding: Result) -> str:
    """One finding, with the lines that reproduce it and the folded output of the code."""
    rows = "".join(f"<dt>{label}</dt><dd>{escape(said)}</dd>" for label, said in finding.notes)
    if follow := report.followers(finding):
        names = ", ".join(f"<code>{escape(f.check.id)}</code>" for f in follow)
        rows += f"<dt>follow from it</dt><dd>{names}</dd>"
    verdict = "" if finding.verdict == "failed" else f" ({finding.verdict})"
    code = escape("\n".join(report.reproduce(finding)))
    lines = len(finding.printed.splitlines())
    printed = _details(f"{lines} lines were printed", finding.printed) if lines else ""
    return (
        f"<article><h2><code>{escape(finding.title)}</code><span class=bad>{verdict}</span></h2>"
        f"<dl>{rows}</dl><pre>{code}</pre>{printed}</article>"
    )


def _details(title: str, text: str) -> str:
    """A text that is folded until it is opened."""
    return f"<details><summary>{title}</summary><pre>{escape(text)}</pre></details>"


def _folded(title: str, results: list[Result]) -> str:
    """Results that need no attention, folded."""
    rows = "".join(
        f"<tr><td>{escape(r.check.id)}</td><td>{escape(r.measured)}</td></tr>" for r in results
    )
    return f"<details><summary>{title}</summary><table>{rows}</table></details>"
