"""The GPU benchmark says that it needs a GPU; its path also runs on a CPU with a tiny model."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.slow  # each test starts the script
SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu.py"


def gpu(*arguments):
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_ends_with_a_message_and_writes_nothing(tmp_path):
    done = gpu("--output", str(tmp_path / "gpu.json"))
    assert (
        done.returncode == 1
        and "needs a GPU" in done.stderr
        and "--device cpu --quick" in done.stderr
    )
    assert "Traceback" not in done.stderr and not list(tmp_path.iterdir())


@pytest.mark.nightly
def test_the_same_path_runs_on_a_cpu(tmp_path):
    names = [
        "float32",
        "bfloat16, attention in steps",
        "bfloat16, checkpointed",
        "nn.Transformer bfloat16, compiled",
    ]
    output = str(tmp_path / "gpu.json")
    done = gpu("--device", "cpu", "--quick", "--bleu", "--output", output, "--candidates", *names)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "gpu.json").read_text("utf-8"))
    found = result["candidates"]
    assert list(found) == names and result["machine"]["device"] == "cpu"
    assert all(figures["target_tokens_per_second"] > 0 for figures in found.values())
    ours = [figures for name, figures in found.items() if "nn.Transformer" not in name]
    assert all(
        figures["predicted_mib"] == pytest.approx(figures["peak_mib"], rel=0.15) for figures in ours
    )
    peaks = [figures["peak_mib"] for figures in ours]
    assert peaks[0] > peaks[1] > peaks[2], "bfloat16 and checkpointing save memory"
    rungs, ways = result["rungs"], result["decoding"]
    for rung in rungs.values():
        assert rung["target_tokens_per_second"] > 0 < rung["predicted_tokens_per_second"]
    started = [rung["operations_started"] for rung in rungs.values()]
    assert started[-1] == started[-2] < started[0] / 2, "a recorded model is started at once"
    assert all(way["beam_5_sentences_per_second"] > 0 for way in ways.values()) and len(ways) == 2
    assert "seconds of training to reach a BLEU of" in done.stdout
