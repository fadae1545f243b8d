"""Whatever code does in the other process, this one learns of it and lives on."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from nmtcheck import Adapter, run_checks
from nmtcheck.report import apart
from nmtcheck.report.apart import Child, Ended, Process, Thread, computed, shortened

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a copied process")


def acts(request):
    """Everything that somebody's code may do."""
    if request == "exit":
        os._exit(3)
    if request == "crash":
        ctypes.string_at(0)
    if request == "sleep":
        time.sleep(600)
    if request == "freeze":  # stopped for far longer than its limit, as a busy machine may do
        subprocess.Popen(["sh", "-c", f"sleep 1.5; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
    if request == "child":
        subprocess.run([sys.executable, "-c", "while True: pass"], check=True)
    if "/" in request and not Path(request).exists():  # too slow the first time only
        Path(request).touch()
        sum(range(10**11))
    if request == "spin":
        until = time.process_time() + 2  # a thread cannot be ended
        while time.process_time() < until:
            pass
    if request == "spin in C":
        sum(range(10**11))
    if request == "print":
        print("out"), print("err", file=sys.stderr)
        subprocess.run(["echo", "child"], check=True)
        os.write(2, b"raw\n")
    return request, os.getpid()


@pytest.mark.slow
@LINUX
def test_a_process_answers_and_says_how_it_ended():
    other = Process(acts)
    try:
        (said, pid), printed, ended = other.ask("print", 5)
        assert said == "print" and pid != os.getpid() and not ended
        assert printed.split() == ["out", "err", "child", "raw"]
        assert other.ask("hello", 5).value == ["hello", pid], "one process for all requests"
        assert other.ask("exit", 5).ended == "exit 3"
        assert other.ask("crash", 5).ended == "signal 11"
        before = computed(os.getpid())
        assert other.ask("spin in C", 0.3).ended == "limit"
        assert computed(os.getpid()) - before < 3, "two tries of 0.3 s of computing, and no more"
        assert other.ask("hello", 5).value[1] not in (pid, os.getpid())
    finally:
        other.close()


@LINUX
def test_only_computing_counts_and_that_of_children_too(tmp_path):
    other = Process(acts)
    try:
        assert other.ask("freeze", 0.3).value[0] == "freeze", "it was stopped for 1.5 s"
        assert other.ask("child", 0.5).ended == "limit"
        path = str(tmp_path / "asked")
        assert other.ask(path, 0.3).value[0] == path, "tried again"
    finally:
        other.close()


@pytest.mark.parametrize("kind", [pytest.param(Process, marks=LINUX), Thread])
def test_what_computes_nothing_for_minutes_is_asleep(kind, monkeypatch):
    monkeypatch.setattr(apart, "ASLEEP", 0.5)
    other = kind(acts)
    assert other.ask("sleep", 5).ended == "asleep"
    other.close()


@LINUX
def test_closing_leaves_no_process_behind():
    other = Process(acts)
    _, pid = other.ask("hello", 5).value
    other.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def orphan(place):
    """Leave a process that has a session of its own and no parent; gives its id."""
    if os.fork() == 0:
        os.setsid()
        if other := os.fork():
            Path(place).write_text(str(other))
            os._exit(0)
        time.sleep(600)
    os.wait()
    yield int(Path(place).read_text())


@LINUX
def test_the_orphans_of_a_process_end_with_it_and_nothing_else_does(tmp_path):
    with Child(orphan) as child:
        (pid,) = child.messages(str(tmp_path / "pid"))
        assert psutil.Process(pid).ppid() == child.process.pid
        mine = subprocess.Popen(["sleep", "600"])
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert mine.poll() is None, "it was started meanwhile, and is none of the child's"
    mine.kill()
    mine.wait()


def steps(request):
    """Two steps that compute, and a child of the code that comes back."""
    for seconds in (0.3, 60):
        yield {"seconds": seconds}
        if os.fork():
            os.wait()
            until = time.process_time() + seconds
            while time.process_time() < until:
                pass


def garbage(request):
    """Bytes that are no data, to all that asks."""
    yield 1
    for number in range(3, 64):
        with contextlib.suppress(OSError):
            socket.socket(fileno=number).sendall(b"[1]\n{]\n")
    time.sleep(600)


def flood(request):
    """More than an answer may have."""
    while True:
        yield "x" * 2**20


@LINUX
@pytest.mark.parametrize(
    ("work", "limit", "most", "how"),
    [(steps, 2, 2, "limit"), (garbage, 60, 2, "damaged"), (flood, 60, 17, "damaged")],
)
def test_messages_come_until_a_process_is_ended(work, limit, most, how):
    came = []
    with Child(work) as child, pytest.raises(Ended, match=how):
        for message in child.messages(limit=limit):
            came.append(message)
    assert 1 <= len(came) <= most


def test_a_thread_takes_its_place():
    other = Thread(acts)
    (said, pid), _, ended = other.ask("hello", 5)
    assert (said, pid, ended) == ("hello", os.getpid(), "")
    assert other.ask("spin", 0.05).ended == "limit"
    other.close()


@pytest.mark.slow
@LINUX
def test_a_crash_is_a_finding_and_the_other_checks_go_on():
    def logits(model, source, target):
        print("before the end")
        os.abort()

    made = Adapter(make_model=lambda sizes: torch.nn.Linear(2, 2), logits=logits)
    report = run_checks(made, only=["model.shape", "masks", "layers.one_parameter"])
    (finding,) = report.findings
    assert finding.measured == "the process ended within logits: signal 6"
    assert finding.printed == "before the end" and len(report.followers(finding)) >= 4
    assert [result.check.id for result in report.passed] == ["layers.one_parameter"]


def test_a_long_text_is_cut():
    assert shortened(" a ") == "a" and len(shortened("x" * 10**6)) < 5_000
