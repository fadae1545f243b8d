"""The instruments of notebook 12 see what happens; each is shown the defect it is there for."""

import json

import pytest
import torch
from torch.profiler import record_function

from nmtcourse.teaching import hardware_lab as lab
from nmtcourse.teaching.cost import peak_memory
from nmtcourse.teaching.show import Shown
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


def test_blocks_that_an_optimizer_opens_are_not_ours():
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)

    def work():
        with record_function("step"):
            torch.optim.Adam([parameter]).step()

    assert list(lab.timeline(work).marks) == ["step"]


def test_a_peak_outside_all_blocks_belongs_to_none():
    with pytest.raises(ValueError, match="record_function"):
        lab.timeline(lambda: torch.ones(10)).phase_of_peak()


def test_a_profile_counts_calls_and_sorts_by_share():
    a = torch.randn(200, 200)

    def work():
        for _ in range(3):
            a @ a

    rows = lab.profile_rows(work)
    assert {row.name: row.calls for row in rows}["mm"] == 3
    assert [row.share for row in rows] == sorted((row.share for row in rows), reverse=True)
    assert 0.99 < sum(row.share for row in lab.profile_rows(work, most=100)) < 1.01
    assert len(lab.profile_rows(work, most=1)) == 1


def test_a_ledger_counts_products_and_their_operations():
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    book = lab.ledger(lambda: a @ b)
    assert book.operations == {"mm": 1} and book.flops == 2 * 3 * 4 * 5
    assert book.float32 == 1 and book.waits == book.searches == 0


def test_views_are_no_operations():
    a = torch.randn(3, 4)
    assert lab.ledger(lambda: a.T.reshape(2, 6)[0]).started == 1  # the copy that reshape makes
    assert lab.ledger(lambda: a.T[1:].unsqueeze(0)).started == 0


def test_each_culprit_leaves_its_print():
    a, words = torch.randn(4, 4), list("abcdef")
    healthy = lab.ledger(lambda: a @ a)
    assert lab.ledger(lambda: (a @ a).sum().item()).waits == 1 > healthy.waits
    assert lab.ledger(lambda: [words.index(word) for word in words]).searches == 6
    assert lab.ledger(lambda: a.bfloat16() @ a.bfloat16()).float32 == 0 < healthy.float32
    loop = lab.ledger(lambda: [a[i, i] * 2 for i in range(4)])
    assert loop.started == 4 and loop.operations["mul"] == 4


def test_products_under_autocast_are_not_in_float32():
    layer, x = torch.nn.Linear(4, 4), torch.randn(2, 4)

    def work():
        with torch.autocast("cpu", torch.bfloat16):
            layer(x).sum().backward()

    book = lab.ledger(work)
    assert book.dtypes[torch.bfloat16] == book.dtypes.total() > 0 == book.float32


def test_seconds_are_the_least_after_a_first_run_that_does_not_count(monkeypatch):
    # A start for each run, and an end for each that counts: 3, 1 and 2 seconds.
    clock = iter([0.0, 10.0, 13.0, 20.0, 21.0, 30.0, 32.0])
    monkeypatch.setattr(lab.time, "perf_counter", lambda: next(clock))
    ran = []
    assert lab.seconds(lambda: ran.append(1), times=3) == 1.0 and len(ran) == 4


def test_works_that_are_compared_take_turns():
    ran = []
    found = lab.compare({"a": lambda: ran.append("a"), "b": lambda: ran.append("b")}, rounds=2)
    assert ran == list("ababab") and set(found) == {"a", "b"} and min(found.values()) >= 0


def test_what_was_recorded_is_read_and_what_was_not_is_none(tmp_path, monkeypatch):
    assert lab.recorded("operations")["operations_an_update"] > 0
    monkeypatch.setattr(lab, "RECORDED", tmp_path)
    assert lab.recorded("operations") is None


def test_a_problem_folds_its_solution(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    lab.worked_problem("How much?", {"floor": "16 bytes"})
    (page,) = shown
    assert isinstance(page, Shown) and "floor: 16 bytes" in page.plain
    question, solution = page.text.split("<details>")
    assert "How much?" in question and "16 bytes" not in question and "16 bytes" in solution


@pytest.mark.parametrize(
    ("count", "told"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (252_477_984, "252 MB")]
)
def test_numbers_are_written_with_three_digits(count, told):
    assert lab.human(count) == told


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


@pytest.mark.slow
def test_processes_that_fail_say_why():
    with pytest.raises(RuntimeError, match="No module named nmtlib.nothing"):
        lab.start_processes(1, "nmtlib.nothing")
