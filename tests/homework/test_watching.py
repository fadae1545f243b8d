"""Limits are of processor time, and nothing that a child starts is left."""

import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from nmtcourse.homework import watching
from nmtcourse.homework.watching import watched

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are forked")


def compute(send):
    send({"number": 1})
    while True:
        pass


def sleep(send):
    send({"number": 1})
    time.sleep(1000)


def answer(send, seconds):
    started = time.process_time()
    while time.process_time() < started + seconds:
        pass
    send({"number": 7})


def leave_children(send, place):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            place.write_text(str(os.getpid()))
            time.sleep(1000)
        os._exit(0)
    while not place.exists():
        time.sleep(0.1)
    send({"number": 3})


def write_garbage(send):
    for number in range(3, 64):
        try:
            os.write(number, b"[1]\n{]\n")
        except OSError:
            pass
    time.sleep(1000)


def test_a_child_that_computes_too_long_is_overdue():
    ended = watched(compute, limit=1)
    assert ended.how == "overdue" and ended.messages == [{"number": 1}]


def test_a_child_that_does_not_compute_is_asleep(monkeypatch):
    monkeypatch.setattr(watching, "ASLEEP", 2)
    ended = watched(sleep, limit=1)
    assert ended.how == "asleep" and ended.messages == [{"number": 1}]


def test_what_ran_before_is_neither_counted_nor_ended():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        while sum(psutil.Process(other.pid).cpu_times()[:2]) < 1.5:
            time.sleep(0.1)
        assert watched(answer, 0.2, limit=1).how == "done" and other.poll() is None
        other.kill()


def test_a_step_has_a_limit_of_its_own():
    def two_steps(send):
        for number in (1, 2):
            send({"step": number, "limit": 1})
            answer(send, 0.7 if number == 1 else 9)

    ended = watched(two_steps, limit=100)
    assert ended.how == "overdue" and ended.messages[-1] == {"step": 2, "limit": 1}


def test_a_child_that_has_to_wait_for_the_machine_answers_all_the_same():
    """It is frozen for longer than its limit, as on a machine with other things to do."""

    def freeze():
        while not (own := psutil.Process().children()):
            time.sleep(0.05)
        own[0].send_signal(signal.SIGSTOP)
        time.sleep(3)
        own[0].send_signal(signal.SIGCONT)

    thread = threading.Thread(target=freeze)
    thread.start()
    ended = watched(answer, 0.5, limit=2)
    thread.join()
    assert ended.how == "done" and ended.messages == [{"number": 7}]


def test_what_a_child_leaves_is_ended(tmp_path):
    watching.become_subreaper()
    assert watched(leave_children, tmp_path / "pid", limit=60).messages == [{"number": 3}]
    left = int((tmp_path / "pid").read_text())
    assert not psutil.pid_exists(left)


def test_what_is_no_message_ends_the_child():
    assert watched(write_garbage, limit=60).how == "damaged"


def test_children_are_those_that_live():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert process.pid in watching.children()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert process.pid not in watching.children()
    finally:
        process.communicate()
