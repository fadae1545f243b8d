"""Two processes make the updates that one would make."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOML = """
[corpus]
source_language = "de"
target_language = "en"
train = ["pairs.tsv"]
validation = ["pairs.tsv"]
[tokenizer]
kind = "whitespace"
[model]
d_model = 16
n_heads = 2
n_encoder_layers = 1
n_decoder_layers = 1
d_ff = 32
dropout = 0.0
[training]
epochs = 3
max_tokens = 48
warmup = 5
precision = "fp32"
device = "cpu"
"""


@pytest.fixture(scope="module")
def preset(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("distributed")
    rows = [
        f"{'a b c d e f'[: 2 * (i % 5) + 3]} x{i % 7}\t{'u v w x y z'[: 2 * (i % 6) + 1]} y{i % 7}" for i in range(41)
    ]
    (folder / "pairs.tsv").write_text("\n".join(rows) + "\n")
    (folder / "own.toml").write_text(TOML)
    return folder / "own.toml"


def train(launcher, preset, out, *options):
    command = [*launcher, "-m", "nmtlib", "train", str(preset), "--out", str(out), *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    with open(out / "history.csv", newline="") as file:
        return list(csv.DictReader(file)), done.stdout


def test_two_processes_have_the_loss_curve_of_one_and_one_of_them_reports(preset, tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    alone, _ = train([sys.executable], preset, tmp_path / "one")
    together, out = train(torchrun, preset, tmp_path / "two")
    assert len(alone) == len(together) == 3
    for one, two in zip(alone, together, strict=True):
        for column in ("updates", "train_loss", "train_accuracy", "validation_nll", "validation_accuracy"):
            assert float(two[column]) == pytest.approx(float(one[column]), rel=1e-4), column
    assert out.count("the run lies in") == 1 and out.count("epoch   1/3") == 1
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == sorted(p.name for p in (tmp_path / "two").iterdir())
