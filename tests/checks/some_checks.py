"""The checks that run on a healthy model at a commit, where nothing of them has changed."""

from __future__ import annotations

import mutation
from sampling import sampled

from nmtcheck import CHECKS


def some_subjects(key: str) -> list[str]:
    """A quarter of the subjects of checks; all where a room of the core or a check has changed."""
    subjects = sorted({check.subject for check in CHECKS.values()})
    return sampled(subjects, key, share=0.25, enough=mutation.is_recorded())


def share_of(subjects: list[str]) -> float:
    """How large a part of all checks those of the subjects are."""
    return sum(check.subject in subjects for check in CHECKS.values()) / len(CHECKS)
