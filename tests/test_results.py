"""The pages show the figures of the result files, and those say where they come from."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
EVALUATIONS = [path for path in RESULTS if "-beam" in path.name]


def readme(*arguments):
    command = [sys.executable, str(ROOT / "benchmarks" / "readme.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
def test_the_pages_show_the_results_that_are_committed():
    done = readme("--check")
    assert done.returncode == 0, done.stderr


def test_a_result_names_command_seed_machine_and_signature_and_no_path_of_its_machine():
    for path in EVALUATIONS:
        text = path.read_text("utf-8")
        result, training = json.loads(text), json.loads(text)["training"]
        assert result["command"].startswith("nmtlib ")
        assert training["command"].startswith(("nmtlib train ", "time_to_bleu.py "))
        assert isinstance(training["seed"], int) and result["machine"]["torch"]
        assert all(part in result["scores"]["signature"] for part in ("tok:", "version:"))
        assert not any(place in text for place in ('"/', "/tmp", "/work", "/home"))
