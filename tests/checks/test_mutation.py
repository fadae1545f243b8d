"""MUTATION.md shows the result of benchmarks/mutation.py."""

import json
from pathlib import Path

import mutation

ROOT = Path(__file__).parents[2]


def test_the_page_shows_the_committed_result():
    result = json.loads(mutation.RESULT.read_text("utf-8"))
    assert mutation.table(result) == (ROOT / "benchmarks" / "MUTATION.md").read_text("utf-8")
