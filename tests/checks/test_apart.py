"""Whatever code does in the other process, this one learns of it and lives on."""

import ctypes
import os
import subprocess
import sys
import time

import pytest
import torch

from nmtcheck import Adapter, run_checks
from nmtcheck.apart import Process, Thread, shortened

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a copied process")


def acts(request):
    """Everything that somebody's code may do."""
    if request == "exit":
        os._exit(3)
    if request == "crash":
        ctypes.string_at(0)
    if request == "sleep":
        time.sleep(60)
    if request == "spin in C":
        sum(range(10**11))
    if request == "print":
        print("out"), print("err", file=sys.stderr)
        subprocess.run(["echo", "child"], check=True)
        os.write(2, b"raw\n")
    return request, os.getpid()


@LINUX
def test_a_process_answers_and_says_how_it_ended():
    other = Process(acts)
    try:
        (said, pid), printed, ended = other.ask("print", 5)
        assert said == "print" and pid != os.getpid() and not ended
        assert printed.split() == ["out", "err", "child", "raw"]
        assert other.ask("hello", 5).value == ("hello", pid), "one process for all requests"
        assert other.ask("exit", 5).ended == "exit 3"
        assert other.ask("crash", 5).ended == "signal 11"
        for hanging in ("sleep", "spin in C"):
            started = time.monotonic()
            assert other.ask(hanging, 0.3).ended == "limit" and time.monotonic() - started < 20
        assert other.ask("hello", 5).value[1] not in (pid, os.getpid())
    finally:
        other.close()


@LINUX
def test_closing_leaves_no_process_behind():
    other = Process(acts)
    _, pid = other.ask("hello", 5).value
    other.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_thread_takes_its_place():
    other = Thread(acts)
    (said, pid), _, ended = other.ask("hello", 5)
    assert (said, pid, ended) == ("hello", os.getpid(), "")
    assert other.ask("sleep", 0.05).ended == "limit"
    other.close()


@LINUX
def test_a_crash_is_a_finding_and_the_other_checks_go_on():
    def logits(model, source, target):
        print("before the end")
        os.abort()

    made = Adapter(
        make_model=lambda sizes: torch.nn.Linear(2, 2),
        logits=logits,
        schedule=lambda update: 0.1,
    )
    report = run_checks(made, only=["model.shape", "masks", "schedule"])
    (finding,) = report.findings
    assert finding.measured == "the process ended within logits: signal 6"
    assert finding.printed == "before the end" and len(report.followers(finding)) >= 4
    assert [result.check.id for result in report.passed] == ["schedule.first_rate"]


def test_a_long_text_is_cut():
    assert shortened(" a ") == "a" and len(shortened("x" * 10**6)) < 5_000
