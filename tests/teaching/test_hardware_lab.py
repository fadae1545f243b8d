"""The instruments of notebook 12 see what happens; each is shown the defect it is there for."""

import json

import pytest
import torch
from torch.profiler import record_function

from nmtcourse.teaching import hardware_lab as lab
from nmtcourse.teaching.cost import peak_memory
from nmtcourse.teaching.two_processes import losses_of_updates
from nmtlib.training.hardware import Processes

CPU = torch.device("cpu")
MODULE = "nmtcourse.teaching.two_processes"


def two_blocks(early: int, late: int):
    """Work in two blocks that hold so many float32 numbers each."""

    def work():
        with record_function("early"):
            torch.ones(early)
        with record_function("late"):
            torch.ones(late)

    return work


def test_a_timeline_follows_memory_and_says_where_it_was_highest():
    seen = lab.timeline(two_blocks(1000, 5000))
    assert seen.peak == 20_000 == peak_memory(two_blocks(1000, 5000), CPU)
    assert seen.phase_of_peak() == "late" and seen.levels[-1] == 0
    assert lab.timeline(two_blocks(5000, 1000)).phase_of_peak() == "early"
    assert list(seen.marks) == ["early", "late"] and seen.marks["early"] < seen.marks["late"]


def test_a_ledger_counts_products_and_their_operations():
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    book = lab.ledger(lambda: a @ b)
    assert book.operations == {"mm": 1} and book.flops == 2 * 3 * 4 * 5
    assert book.float32 == 1 and book.waits == book.searches == 0


def test_one_process_makes_the_same_curve_each_time():
    one, again = (losses_of_updates(Processes(CPU)) for _ in range(2))
    assert one == again and one["drift"] == 0
    assert one["losses"][-1] < one["losses"][0] - 0.2 and len(one["losses"]) == 8


@pytest.mark.slow
@pytest.mark.nightly
def test_two_processes_make_the_curve_of_one_unless_gradients_stay_apart():
    one = losses_of_updates(Processes(CPU))["losses"]
    found = json.loads(lab.start_processes(2, MODULE).splitlines()[-1])
    assert found["summed"]["losses"] == pytest.approx(one, abs=1e-5)
    assert found["summed"]["drift"] == 0 < 1e-3 < found["apart"]["drift"]
    assert found["apart"]["losses"][-1] > found["summed"]["losses"][-1] + 1e-3


def test_a_ledger_counts_the_bytes_that_operations_read_and_write():
    x, rows = torch.ones(100), torch.ones(4, 8)
    assert lab.ledger(lambda: x + x).moved == 3 * 400  # two inputs and a result
    assert lab.ledger(lambda: rows.T).moved == 0  # a view moves nothing
    assert lab.ledger(lambda: rows @ rows.T).moved == 2 * 128 + 64
