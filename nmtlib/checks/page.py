"""A report as HTML: a table for a notebook, and a page of its own, light and dark."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from nmtlib.checks.result import Result

if TYPE_CHECKING:
    from nmtlib.checks.report import Report

CELL = "text-align:left;vertical-align:top;padding:2px 10px 2px 0"
STYLE = """
:root { color-scheme: light dark; --text: #1f2328; --soft: #59636e; --back: #ffffff;
  --card: #f6f8fa; --line: #d1d9e0; --bad: #b2182b; --good: #1b7837; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --soft: #9198a1;
  --back: #0d1117; --card: #151b23; --line: #3d444d; --bad: #ff7b72; --good: #56d364; } }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: var(--text);
  background: var(--back); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h1 + p { margin-top: .25rem; }
h2 { font-size: 1.05rem; margin: 0 0 .5rem; } .bad { color: var(--bad); }
.good { color: var(--good); } .soft { color: var(--soft); }
article { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  border-left: 4px solid var(--bad); padding: 1rem; margin: 1rem 0; }
dl { display: grid; grid-template-columns: 7rem 1fr; gap: .25rem 1rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--back); border: 1px solid var(--line); border-radius: 6px;
  padding: .5rem .75rem; overflow-x: auto; font-size: .85rem; margin: .5rem 0 0; }
code, td:first-child { font-family: ui-monospace, monospace; font-size: .875rem; }
summary { cursor: pointer; } details { margin: .75rem 0; }
td { vertical-align: top; padding: .1rem 1rem .1rem 0; }
"""


def table(report: Report) -> str:
    """The summary and a table with inline styles: a notebook shows no others."""
    findings = [
        _row(r.verdict, r.check.id, [f"{label}: {said}" for label, said in r.notes], "#b2182b")
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
    """A row of the notebook's table, or nothing where there is nothing to say."""
    cells = {
        f"color:{color};font-weight:bold": escape(verdict),
        "font-family:monospace": escape(name),
        "": "<br>".join(map(escape, lines)),
    }
    row = "".join(f'<td style="{CELL};{style}">{text}</td>' for style, text in cells.items())
    return f"<tr>{row}</tr>" if lines else ""


def whole(report: Report) -> str:
    """A page that needs no other file, no script and no network."""
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
        _folded(f"{len(told)} checks could tell nothing", told) if told else "",
        f"<p class=soft>{escape(report.absent())}</p>",
    ]
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    start = f'<!doctype html><html lang="en"><head>{meta}<title>{title}</title>'
    body = "\n".join(filter(None, parts))
    return f"{start}<style>{STYLE}</style></head><body>\n{body}\n</body></html>\n"


def _article(report: Report, finding: Result) -> str:
    """One finding, with the lines that show it again and what the code printed folded."""
    rows = "".join(f"<dt>{label}</dt><dd>{escape(said)}</dd>" for label, said in finding.notes)
    if follow := report.followers(finding):
        names = ", ".join(f"<code>{escape(f.check.id)}</code>" for f in follow)
        rows += f"<dt>follow from it</dt><dd>{names}</dd>"
    verdict = "" if finding.verdict == "failed" else f" ({finding.verdict})"
    code = escape("\n".join(report.reproduce(finding)))
    lines = len(finding.printed.splitlines())
    printed = _details(f"{lines} lines were printed", finding.printed) if lines else ""
    return (
        f"<article><h2><code>{escape(finding.check.id)}</code><span class=bad>{verdict}</span></h2>"
        f"<dl>{rows}</dl><pre>{code}</pre>{printed}</article>"
    )


def _details(title: str, text: str) -> str:
    """A text that is folded until it is asked for."""
    return f"<details><summary>{title}</summary><pre>{escape(text)}</pre></details>"


def _folded(title: str, results: list[Result]) -> str:
    """Results that need no care, folded."""
    rows = "".join(
        f"<tr><td>{escape(r.check.id)}</td><td>{escape(r.measured)}</td></tr>" for r in results
    )
    return f"<details><summary>{title}</summary><table>{rows}</table></details>"
