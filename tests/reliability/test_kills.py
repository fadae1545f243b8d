"""A training that is killed at any file operation can be taken up, to the same result."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(os, "fork"), reason="a killed process is a forked one")
def test_a_killed_training_is_taken_up(tmp_path):
    result = tmp_path / "kills.json"
    script = str(ROOT / "benchmarks" / "kills.py")
    command = [sys.executable, script, "--every", "10", "--again", "100"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, "--out", str(result)], env=environment, capture_output=True)
    found = json.loads(result.read_text("utf-8"))
    assert (found["stuck"], found["stale"]) == ([], [])
    assert found["recovered"] == found["points"] >= 4
