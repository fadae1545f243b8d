"""Processes that train together: shares, sums, and what is said when one of them is lost.

Two real processes under torchrun are the subject of test_processes.py.
"""

import os
import signal
import socket
import subprocess
import sys
import textwrap
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from limits import NO_PROGRESS
from torch import distributed as dist

from nmtlib.data.batching import NOTHING, make_example
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.settings import TrainingSettings
from nmtlib.training.hardware import LostProcess, Processes
from nmtlib.training.parallel import make_engine
from nmtlib.training.trainer import Trainer

CPU = torch.device("cpu")


@pytest.fixture
def second_of_three(monkeypatch):
    """Process 1 of three, whose messages are recorded and not sent."""
    sent = []
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    begin = lambda backend, timeout: sent.append((backend, timeout))  # noqa: E731
    monkeypatch.setattr(dist, "init_process_group", begin)
    # A process that ignores SIGTERM here would ignore it for the rest of the tests.
    monkeypatch.setattr("nmtlib.training.hardware.signal.signal", lambda *a: sent.append(a))
    return Processes(CPU), sent


def test_one_process_alone_talks_to_nobody(monkeypatch):
    groups = ("init_process_group", "destroy_process_group")
    for name in ("all_reduce", "broadcast_object_list", "barrier", *groups):
        monkeypatch.setattr(dist, name, lambda *a, **k: pytest.fail("there is nobody to talk to"))
    processes = Processes(CPU)
    model = torch.nn.Linear(2, 2)
    assert make_engine(model, processes) is model and processes.is_main
    assert processes.all_reduce(torch.ones(2)).tolist() == [1, 1]
    assert processes.broadcast("runs/x") == "runs/x"
    processes.wait()
    processes.close()


class Noted(list):
    """Examples that note which of them were read."""

    def __getitem__(self, number):
        self.read.append(int(number))
        return super().__getitem__(number)


@pytest.mark.parametrize("count", [2, 7])
def test_each_process_reads_its_own_rows_and_together_they_read_the_batch(count):
    train = Noted(make_example([4] * n, [5 + n] * n) for n in range(1, 11))
    layers = {"n_encoder_layers": 1, "n_decoder_layers": 1}
    model = Transformer(TransformerConfig(20, 20, d_model=8, n_heads=2, d_ff=8, **layers))
    batches, read, rows = [np.array([3, 0, 4, 1, 2]), np.array([9])], [], []
    for rank in range(count):
        processes = Processes(CPU)
        processes.rank, processes.count = rank, count
        processes.broadcast = lambda value: value  # the others are not there to be asked
        trainer = Trainer(model, train, train, TrainingSettings(max_tokens=50), processes=processes)
        train.read = []
        shares = trainer.loader.load(batches)
        assert sorted(train.read) == sorted(i for batch in batches for i in batch[rank::count])
        assert len(shares) == 2, "a share of nothing too, or the others would wait for it"
        read += train.read
        targets = [row for share in shares for row in share.target.tolist()]
        rows += [[i for i in row if i] for row in targets if row != list(NOTHING.target)]
    assert sorted(read) == [0, 1, 2, 3, 4, 9]
    assert sorted(rows) == sorted(list(list.__getitem__(train, i).target) for i in read)


@pytest.mark.parametrize(("seconds", "expected"), [(None, 600), ("7.5", 7.5)])
def test_no_wait_is_without_end(seconds, expected, monkeypatch, request):
    monkeypatch.delenv("NMTLIB_TIMEOUT", raising=False)
    if seconds:
        monkeypatch.setenv("NMTLIB_TIMEOUT", seconds)
    _, sent = request.getfixturevalue("second_of_three")
    (backend, timeout), *_ = sent
    assert backend == "gloo" and timeout.total_seconds() == expected


def test_a_variable_that_cannot_be_is_named(second_of_three, monkeypatch):
    Processes(CPU)  # as it is, all is well
    ranks = [("WORLD_SIZE", "two"), ("WORLD_SIZE", "0"), ("RANK", "one"), ("RANK", "3")]
    for name, value in [*ranks, *(("NMTLIB_TIMEOUT", v) for v in ("x", "0", "inf", "1e300"))]:
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            with pytest.raises(ValueError, match=name):
                Processes(CPU)


def test_a_lost_process_is_one_clear_error(second_of_three, monkeypatch):
    processes, sent = second_of_three

    def reset(*arguments):
        raise RuntimeError("Connection reset by peer\nand more")

    left = []
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: left.append("left"))
    processes.close()
    assert left == ["left"], "in peace, a process leaves the group"
    for name, method in (
        ("all_reduce", lambda: processes.all_reduce(torch.ones(1))),
        ("barrier", processes.wait),
        ("broadcast_object_list", lambda: processes.broadcast("x")),
    ):
        monkeypatch.setattr(dist, name, reset)
        message = r"^another process has ended or does not answer \(Connection .*process 1 cannot"
        with pytest.raises(LostProcess, match=message):
            method()
    assert (signal.SIGTERM, signal.SIG_IGN) in sent, "or torchrun would end it before it can speak"
    processes.close()
    assert left == ["left"], "a group that has lost a process is not waited for"


def test_too_little_memory_is_no_lost_process(second_of_three, monkeypatch):
    processes, _ = second_of_three
    full = Mock(side_effect=torch.OutOfMemoryError("full"))
    monkeypatch.setattr(dist, "barrier", full)
    with pytest.raises(torch.OutOfMemoryError, match="full"):
        processes.wait()


MUTE = """
    import os, sys, time, torch
    from nmtlib.training.hardware import LostProcess, Processes
    print("ready", flush=True)
    input()
    processes = Processes(torch.device("cpu"))
    if processes.rank == 1:
        sys.stdin.read()  # it lives, but does not answer
    try:
        processes.wait()
    except LostProcess as error:
        print(error)
"""


@pytest.mark.nightly
def test_a_process_that_does_not_answer_is_not_waited_for_for_ever(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = os.environ | {"OMP_NUM_THREADS": "1", "NMTLIB_TIMEOUT": "3", "WORLD_SIZE": "2"}
    world |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, "-c", textwrap.dedent(MUTE)]
    how = {"text": True, **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)}
    waiting, mute = (subprocess.Popen(command, env=world | {"RANK": r}, **how) for r in "01")
    for process in (waiting, mute):
        assert process.stdout.readline() == "ready\n"
    for process in (waiting, mute):  # both at once, or the slower start would be taken for silence
        process.stdin.write("go\n")
        process.stdin.flush()
    out, _ = waiting.communicate(timeout=NO_PROGRESS)
    mute.kill()
    mute.communicate()
    assert "does not answer" in out and "process 0 cannot train without it" in out
