"""A training that is killed at any file operation can be taken up, to the same result.

At a commit two of the operations are tried, at night each tenth.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from nightly import some

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "benchmarks" / "results" / "kills.json"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="a killed process is a forked one")
@pytest.mark.parametrize("every", some([60, 10]))
def test_a_killed_training_is_taken_up(tmp_path, every):
    result = tmp_path / "kills.json"
    script = str(ROOT / "benchmarks" / "kills.py")
    command = [sys.executable, script, "--every", str(every), "--first", "7"]
    command += ["--again", "100"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, "--out", str(result)], env=environment, capture_output=True)
    found = json.loads(result.read_text("utf-8"))
    assert (found["stuck"], found["stale"]) == ([], [])
    assert found["recovered"] == found["points"] >= 4


def test_the_committed_result_is_of_all_points():
    found = json.loads(RESULT.read_text("utf-8"))
    assert found["recovered"] == found["points"] >= sum(found["operations"].values())
