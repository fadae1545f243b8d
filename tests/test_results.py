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
        found = json.loads(text)
        assert found["command"].startswith("nmtlib ")
        assert found["training"]["command"].startswith(("nmtlib train ", "time_to_bleu.py "))
        assert isinstance(found["training"]["seed"], int) and found["machine"]["torch"]
        assert "tok:" in found["scores"]["signature"] and "version:" in found["scores"]["signature"]
        assert (
            '"/' not in text and "/tmp" not in text and "/work" not in text and "/home" not in text
        )
