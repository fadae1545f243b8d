"""The measurements for a GPU run to their end on a CPU, and a row that fails is told as that."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_each_row_is_measured_in_a_process_of_its_own(tmp_path):
    output = tmp_path / "gpu.json"
    command = [sys.executable, "benchmarks/gpu.py", "--device", "cpu", "--quick"]
    rows = ["ceiling", "nn.Transformer", "recorded"]
    subprocess.run([*command, "--rows", *rows, "--output", str(output)], check=True)
    measured = json.loads(output.read_text("utf-8"))["rows"]
    assert [*measured] == rows
    assert all(measured[row]["mfu"] > 0 < measured[row]["busy"] for row in rows[1:])
    subprocess.run([*command, "--minutes", "0", "--output", str(output)], check=True)
    late = json.loads(output.read_text("utf-8"))["rows"]
    assert all(row == {"not_reached": "within 0 minutes"} for row in late.values())
