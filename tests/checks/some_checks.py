"""The checks that run on a healthy model at a commit."""

import pytest

from nmtcheck import CHECKS

SUBJECTS = sorted({check.subject for check in CHECKS.values()})
QUARTER = SUBJECTS[::4]
# Parameters of a test: a quarter of the subjects at a commit, all checks at night.
ONLY = [
    pytest.param(QUARTER, id="a quarter"),
    pytest.param(None, id="all", marks=pytest.mark.nightly),
]
