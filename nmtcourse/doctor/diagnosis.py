"""What is wrong with a corpus: all findings about all of its splits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nmtcourse.doctor.kinds import LEVELS, Finding, Level, sorted_findings
from nmtcourse.doctor.lengths import judge_lengths
from nmtcourse.doctor.opening import Split, of_files, of_pairs
from nmtcourse.doctor.overlap import judge_messages, judge_overlap, leaked
from nmtcourse.doctor.preparation import judge_preparation
from nmtcourse.doctor.shifts import judge_order
from nmtcourse.doctor.sides import judge_sides, judge_tags
from nmtcourse.doctor.survey import Survey
from nmtlib.data.corpus import Corpus
from nmtlib.settings import FILES, CorpusSettings

UNREAD = ("record", "columns", "partner")
MARKED = re.compile(r"\w@@$").search


@dataclass
class Diagnosis:
    """The findings about a corpus, the worst first, and the surveys of its splits by name."""

    name: str
    tags: tuple[str, str]
    surveys: dict[str, Survey]
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        """Whether training would be right."""
        return not any(finding.level == "wrong" for finding in self.findings)

    def worse(self, level: Level = "warning") -> list[Finding]:
        """The findings of a level or worse."""
        return [f for f in self.findings if LEVELS.index(f.level) <= LEVELS.index(level)]

    def exchanged(self) -> set[str]:
        """The splits whose sides are to be exchanged."""
        return {finding.split for finding in self.findings if finding.kind == "exchanged"}

    def dropped(self, name: str) -> np.ndarray:
        """Which rows of a split are not in the cleaned copy.

        Besides those that are no pairs, of train the ones whose source is also held out, and pairs
        with both sides in one language, or one that is a message of a program.
        """
        survey = self.surveys[name]
        drop = ~survey.kept
        kinds = {f.kind for f in self.findings if f.level != "note" and f.split == name}
        kinds |= {f.kind for f in self.findings if f.kind == "message"}  # however few
        if "untranslated" in kinds and "exchanged" not in kinds:
            drop |= survey.numbers["turned"] == 2
        if any(
            f.kind == "equal" and f.split == name and f.level == "warning" for f in self.findings
        ):
            drop |= survey.numbers["copy"] == 1
        if "message" in kinds:
            drop |= survey.numbers["message"]
        if name == "train":
            for split in self.surveys.keys() - {"train"}:
                drop |= sum(leaked(self.surveys[split], survey), np.zeros(len(survey), bool))
        return drop


def diagnose(name: str, splits: Sequence[Split], tags: tuple[str, str] = ("", "")) -> Diagnosis:
    """Everything that is known about the splits of a corpus, the first of which is train."""
    surveys = {split.name: Survey(split, tags) for split in splits}
    findings = [finding for split in splits for finding in split.findings]
    findings += judge_tags(tags) if splits else []
    findings += _as_formats(surveys)
    full = {name: survey for name, survey in surveys.items() if survey.kept.any()}
    if "train" in full:
        findings += judge_sides(full, tags)
        findings += judge_overlap(full)
        findings += judge_preparation(full)
        findings += judge_messages(full)
    for survey in full.values():
        findings += judge_order(survey)
        findings += judge_lengths(survey, tags)
    return Diagnosis(name, tags, surveys, sorted_findings(_without_echoes(findings)))


def _as_formats(surveys: Mapping[str, Survey]) -> Iterator[Finding]:
    """The findings of each split; where most entries are no pairs, the format is what is wrong."""
    for survey in surveys.values():
        unread = [survey.findings[kind] for kind in UNREAD if kind in survey.findings]
        if sum(finding.count for finding in unread) <= 0.5 * len(survey):
            yield from survey.findings.values()
            continue
        yield Finding("format", survey.split.name, len(survey), len(survey), unread[0].examples[:1])
        yield from (finding for finding in survey.findings.values() if finding not in unread)


def _without_echoes(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without those that another explains."""
    serious = {(finding.kind, finding.split) for finding in findings if finding.level != "note"}

    def explained(finding: Finding) -> bool:
        causes: dict[str, Sequence[str]] = {
            "turned": ("exchanged",),
            "untranslated": ("same file", "equal", "exchanged"),
            "script": ("exchanged",),
            "scripts": ("exchanged", "turned"),
            "test script": ("exchanged", "script"),
            "equal": ("same file",),
            "other language": ("exchanged", "script", "encoding", "zawgyi", "message", "key"),
            "ratio": ("message",),
            "new characters": ("exchanged", "script", "prepared"),
            "mojibake": ("encoding",),
            "damaged": ("encoding",),
            "unrelated": ("encoding",),
        }
        return any((cause, finding.split) in serious for cause in causes.get(finding.kind, ()))

    return [finding for finding in findings if not explained(finding)]


def of_settings(name: str, corpus: CorpusSettings, encoding: str = "") -> Diagnosis:
    """The diagnosis of the files that a reader's settings name."""
    tags = corpus.source_language, corpus.target_language
    splits = [
        of_files(split, getattr(corpus, split), tags, encoding)
        for split in FILES
        if getattr(corpus, split)
    ]
    diagnosis = diagnose(name, splits, tags)
    missing = [split for split in ("train", "validation") if split not in diagnosis.surveys]
    diagnosis.findings += [Finding("no split", split, detail=f"no {split}") for split in missing]
    diagnosis.findings = sorted_findings(diagnosis.findings)
    return diagnosis


def of_corpus(corpus: Corpus) -> Diagnosis:
    """The diagnosis of a corpus in memory."""
    splits: Mapping[str, Sequence] = {s: getattr(corpus, s) for s in (*FILES, "challenge")}
    tags = corpus.source_language, corpus.target_language
    opened = [of_pairs(name, pairs) for name, pairs in splits.items() if pairs]
    diagnosis = diagnose(corpus.name, opened, tags)
    if corpus.vocabularies and any(map(MARKED, (t for side in corpus.vocabularies for t in side))):
        for finding in diagnosis.findings:
            if finding.kind == "marks":
                finding.level_given = "note"
                finding.todo = "so are the vocabularies that it is published with"
    diagnosis.findings = sorted_findings(diagnosis.findings)
    return diagnosis
