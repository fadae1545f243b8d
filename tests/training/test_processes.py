"""torchrun with two processes: the updates of one, one writer, no work lost when one is killed."""

import csv
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from limits import NO_PROGRESS

from nmtcourse.main import main
from nmtlib.data.batching import plan_batches
from nmtlib.training.checkpoint import read_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.nightly]  # test_parallel.py has one for each commit
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
EPOCHS, UPDATES = 3, 8  # in an epoch
COLUMNS = ("updates", "train_loss", "train_accuracy", "validation_nll", "validation_accuracy")


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
save_updates = 2
precision = "fp32"
device = "cpu"
"""
# Every Python process imports `sitecustomize` when it starts.  This one notes what a process writes
# in the run folder, and at an update it sends a signal, to its own process or to torchrun.
WATCH = """
import os, signal, sys

if "RANK" in os.environ:
    note = os.open(os.environ["NOTES"] + os.environ["RANK"], os.O_WRONLY | os.O_CREAT)

    def hook(event, arguments):
        changing = event in ("open", "os.rename", "os.remove", "os.mkdir")
        if changing and os.environ["RUN"] in str(arguments[0]):
            if event != "open" or not isinstance(arguments[1], str) or arguments[1].strip("rbt"):
                os.write(note, f"{event} {arguments[0]}\\n".encode())

    sys.addaudithook(hook)
    from nmtlib.training.trainer import Trainer
    plain = Trainer.update

    def update(trainer, *arguments):
        name, rank, number = os.environ["DISTURB"].split()
        if trainer.progress.updates == int(number) and rank in (os.environ["RANK"], "torchrun"):
            if rank != "torchrun":
                os.kill(os.getpid(), getattr(signal, name))
            elif os.environ["RANK"] == "0":
                os.kill(os.getppid(), getattr(signal, name))
        return plain(trainer, *arguments)

    if "DISTURB" in os.environ:
        Trainer.update = update
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A folder with a preset, its corpus, and the module that watches the processes."""
    folder = tmp_path_factory.mktemp("processes")
    rows = [
        f"{'a b c d e f'[: 2 * (i % 5) + 3]} x{i % 7}\t{'u v w x y z'[: 2 * (i % 6) + 1]} y{i % 7}"
        for i in range(41)
    ]
    rows.append(" ".join("abcdef" * 5) + "\t" + " ".join("uvwxyz" * 5))  # a batch of its own
    (folder / "pairs.tsv").write_text("\n".join(rows) + "\n")
    (folder / "own.toml").write_text(TOML)
    (folder / "sitecustomize.py").write_text(WATCH)
    return folder


def train(home, run, *arguments, disturb="", preset=True):
    """Run `nmtlib train` in `home` with two processes; returns the finished process."""
    named = ["own.toml"] if preset else []
    command = [*TORCHRUN, "-m", "nmtcourse", "train", *named, "--out", run, *arguments]
    paths = [str(home), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    environment |= {"RUN": run, "NOTES": f"{run}-notes-"} | (
        {"DISTURB": disturb} if disturb else {}
    )
    how = {"env": environment, "cwd": home, "timeout": NO_PROGRESS}
    return subprocess.run(command, capture_output=True, text=True, **how)


def history(run: Path) -> list[dict[str, str]]:
    with open(run / "history.csv", newline="") as file:
        return list(csv.DictReader(file))


def assert_same_curve(one, other, rel):
    assert len(one) == len(other) == EPOCHS
    for a, b in zip(one, other, strict=True):
        for column in COLUMNS:
            assert float(a[column]) == pytest.approx(float(b[column]), rel=rel), column


@pytest.fixture(scope="module")
def two(home) -> subprocess.CompletedProcess:
    """An undisturbed training by two processes, in the folder `two`."""
    done = train(home, "two")
    assert done.returncode == 0, done.stderr
    return done


def test_the_corpus_has_batches_that_two_processes_cannot_share_evenly(home):
    lengths = [
        [len(side.split()) + extra for side, extra in zip(row.split("\t"), (1, 2), strict=True)]
        for row in (home / "pairs.tsv").read_text().splitlines()
    ]
    sizes = [len(batch) for batch in plan_batches(torch.tensor(lengths).numpy(), 48)]
    assert 1 in sizes, "a batch of which one process has nothing"
    assert any(size % 2 and size > 1 for size in sizes) and len(sizes) == UPDATES


def test_two_processes_have_the_loss_curve_of_one(home, two, monkeypatch):
    monkeypatch.chdir(home)
    assert main(["train", "own.toml", "--out", "one"]) == 0
    assert_same_curve(history(home / "one"), history(home / "two"), rel=1e-4)
    one, two = ({path.name for path in (home / run).iterdir()} for run in ("one", "two"))
    assert one == two


def test_one_of_them_writes_and_reports(home, two):
    written = [(home / f"two-notes-{rank}").read_text() for rank in (0, 1)]
    for (
        name
    ) in "state.safetensors settings.json log.txt history.csv curves.png samples.txt".split():
        assert name in written[0], f"the watch sees {name}"
    assert written[1] == "", "the other writes nothing"
    log = (home / "two" / "log.txt").read_text().splitlines()
    assert sum(line.startswith("epoch ") for line in log) == EPOCHS
    spoken = [line for line in log if not line.startswith(" ")]  # two epochs may translate alike
    assert max(Counter(spoken).values()) == 1
    first, *shown = two.stdout.splitlines()
    assert first.startswith("settings that follow your text")
    assert shown[1 : len(log) + 1] == [*log[1:], "the run is in two"]


def test_when_one_is_killed_all_end_and_the_resumed_run_arrives_where_the_undisturbed_one_did(
    home, two
):
    killed = train(home, "killed", disturb="SIGKILL 1 12")
    assert killed.returncode != 0
    message = next(line for line in killed.stderr.splitlines() if line.startswith("nmtlib: "))
    for text in ("another process has ended", "process 0 cannot", "--resume --out killed"):
        assert text in message
    assert "rank0]: Traceback" not in killed.stderr
    progress = read_checkpoint(home / "killed" / "state.safetensors").header.state.progress
    assert progress.updates == 12 and 0 < progress.batches < UPDATES, "within an epoch"

    resumed = train(home, "killed", "--resume", preset=False)
    assert resumed.returncode == 0, resumed.stderr
    assert "resuming after 1 epochs and 12 updates" in resumed.stdout
    assert_same_curve(history(home / "killed"), history(home / "two"), rel=1e-6)
    for name in ("state", "best", "model"):
        files = [home / run / f"{name}.safetensors" for run in ("killed", "two")]
        first, second = (read_checkpoint(file).tensors for file in files)
        assert first.keys() == second.keys()
        assert all(torch.equal(first[k], second[k]) for k in first), name


def test_sharded_processes_have_the_same_curve_also_when_one_was_killed(home, two):
    shard = ("--set", "training.shard=true")
    done = train(home, "sharded", *shard)
    assert done.returncode == 0, done.stderr
    assert_same_curve(history(home / "sharded"), history(home / "two"), rel=1e-4)
    one, other = ({path.name for path in (home / run).iterdir()} for run in ("sharded", "two"))
    assert one == other
    shown = [line for line in done.stdout.splitlines() if "→" in line]
    assert len(shown) == EPOCHS, "process 0 translates with the whole model"

    killed = train(home, "parted", *shard, disturb="SIGKILL 1 12")
    assert killed.returncode != 0 and "another process has ended" in killed.stderr
    resumed = train(home, "parted", "--resume", preset=False)
    assert resumed.returncode == 0, resumed.stderr
    assert "resuming after 1 epochs and 12 updates" in resumed.stdout
    assert_same_curve(history(home / "parted"), history(home / "sharded"), rel=1e-6)


@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM"])
def test_ctrl_c_for_torchrun_saves_and_stops_both(home, signal):
    stopped = train(home, signal, "--set", "epochs=100000", disturb=f"{signal} torchrun 12")
    assert stopped.returncode != 0, "torchrun itself says that it was stopped"
    text = r"stopped in epoch (\d+) after (\d+) updates; --resume goes on from here"
    ((epoch, updates),) = re.findall(text, stopped.stdout)
    assert "cannot train" not in stopped.stderr
    progress = read_checkpoint(home / signal / "state.safetensors").header.state.progress
    assert progress.updates == int(updates) >= 13 and progress.epoch == int(epoch) - 1
    assert (home / signal / "model.safetensors").is_file()
