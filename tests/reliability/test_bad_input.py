"""Whatever is given to the command line gets one line that explains, and nothing is lost.

At a commit one case of each error path is tried, at night all of them.
"""

import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from case import Case
from cases import CASES
from error_paths import error_path
from sampling import sampled
from workplace import Workplace


@pytest.fixture(scope="session")
def workplace(tmp_path_factory) -> Workplace:
    return Workplace(tmp_path_factory.mktemp("workplace"))


def marked(case: Case):
    """A case that starts a process is slow."""
    return pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.slow else [])


TRIED = [marked(case) for case in sampled(CASES, "bad inputs", by=error_path)]


@pytest.mark.parametrize("case", TRIED)
def test_a_bad_input_is_explained_and_nothing_is_lost(case: Case, workplace: Workplace):
    _, wrong = workplace.play(case)
    assert not wrong, "\n".join(wrong)


def test_an_error_path_is_the_answer_without_its_particulars():
    """Other values out of range are on one path; another setting or kind of error is on another."""

    given = {case.arguments[-1]: error_path(case) for case in CASES if case.arguments}
    assert given["training.epochs=0"] == given["training.epochs=-1"]
    assert given["training.epochs=0"] != given["tokenizer.min_count=0"]
    assert given["training.epochs=0"] != given["training.epochs=five"]
    paths = {error_path(case) for case in CASES}
    assert 200 < len(paths) < len(CASES), "one for each case would leave nothing to the night"


def test_there_are_enough_cases_and_none_stands_twice():
    assert len(CASES) >= 600
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere some cases cannot be tried")
def test_the_page_lists_every_case():
    page = Path(__file__).parents[2].joinpath("docs", "reliability.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| ([^|]+?): [^|]+ \| ([\d,]+) \|$", page, re.MULTILINE))
    counts = Counter(case.category for case in CASES)
    assert rows == {name: f"{count:,}" for name, count in counts.items()}
    assert f"**{len(CASES):,}**" in page
    assert len(re.findall(r"^- .+: `nmtlib.*` → `.+`$", page, re.MULTILINE)) == len(CASES)
