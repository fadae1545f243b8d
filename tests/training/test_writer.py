"""What is written behind a GPU's back is what was there when it was asked for, in order."""

import threading

import pytest

from nmtlib.training.writer import Writer


def test_in_the_background_work_is_done_in_order_and_nobody_waits():
    writer, done, gate = Writer(background=True), [], threading.Event()
    writer.do(lambda: gate.wait(10) and done.append(1))
    writer.do(lambda: done.append(2))
    assert not done
    gate.set()
    writer.wait()
    assert done == [1, 2]
    Writer(background=False).do(lambda: done.append(3))
    assert done == [1, 2, 3]


def test_what_goes_wrong_is_raised_where_it_is_waited_for():
    writer = Writer(background=True)
    writer.do(lambda: open("/no/such/folder/file", "w"))
    done: list[int] = []
    writer.do(lambda: done.append(1))
    with pytest.raises(FileNotFoundError):
        writer.wait()
    writer.wait()
    assert not done, "what was to follow a save that failed is left undone"
