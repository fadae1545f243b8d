"""A diagnosis in words: the table of `nmtlib data check`, and a line or two for a training."""

from __future__ import annotations

from nmtcourse.doctor.diagnosis import Diagnosis
from nmtcourse.doctor.kinds import Finding
from nmtcourse.doctor.lengths import percentiles
from nmtcourse.doctor.survey import Survey

HEADINGS = ("", "split", "how many", "what")


def lines(diagnosis: Diagnosis) -> list[str]:
    """The sizes, a table of the findings with examples and remedies, lengths, and what is left."""
    languages = "-".join(tag or "?" for tag in diagnosis.tags)
    lines = [f"{diagnosis.name} ({languages})", *map(read_of, diagnosis.surveys.values())]
    lines += ["", *table(diagnosis)]
    for name, survey in diagnosis.surveys.items():
        lines += ["", f"{name}:", *percentiles(survey)] if survey.kept.any() else []
    return [*lines, "", *left(diagnosis)]


def read_of(survey: Survey) -> str:
    """How much of the files of a split became pairs."""
    pairs = len(survey) - survey.unread
    size, unit = survey.split.size or len(survey), survey.split.unit
    return f"  {survey.split.name}: {pairs:,} of {size:,} {unit} became pairs"


def table(diagnosis: Diagnosis, *, details: bool = True) -> list[str]:
    """The findings in rows, the worst first; with details also examples and what to do."""
    if not diagnosis.findings:
        return ["nothing wrong was found"]
    rows = [HEADINGS, *((f.level, f.split, _count(f), f.what) for f in diagnosis.findings)]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = []
    for row, finding in zip(rows, [None, *diagnosis.findings], strict=True):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join([*cells, row[3]]).rstrip())
        lines += _below(finding) if finding and details else []
    return lines


def _count(finding: Finding) -> str:
    if not finding.count:
        return ""
    share = finding.count / finding.total if finding.total else 0
    return f"{finding.count:,}" + (f" ({share:.1%})" if 0 < share < 1 else "")


def _below(finding: Finding) -> list[str]:
    rows = [f"         {f'line {n:,}: ' if n else ''}{text}" for n, text in finding.examples]
    return rows + ([f"         → {finding.advice}"] if finding.advice else [])


def left(diagnosis: Diagnosis) -> list[str]:
    """How many pairs the cleaned copy of each split would have."""
    lines = []
    for name, survey in diagnosis.surveys.items():
        left = len(survey) - int(diagnosis.dropped(name).sum())
        lines.append(f"{name}: {left:,} of {len(survey):,} pairs would be left by --fix")
    return lines


def short(diagnosis: Diagnosis) -> list[str]:
    """The same for a training that is about to begin: a line of warnings, and where to read more.

    Nothing where there is nothing to warn of.
    """
    findings = diagnosis.worse()
    if not findings:
        return []
    problems = [f"{f.split}: {_count(f)} {f.what}".replace("  ", " ") for f in findings[:3]]
    more = f", and {len(findings) - 3} more" if len(findings) > 3 else ""
    return [
        f"the corpus has problems: {'; '.join(problems)}{more}",
        "see all, and how to mend them, with: nmtlib data check FILE.toml",
    ]
