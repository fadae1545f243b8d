"""Device and precision are chosen or forced, never silently different; batches travel well."""

import timeit

import pytest
import torch

from nmtlib.data.batching import collate, make_example, to_device
from nmtlib.training import hardware
from nmtlib.training.hardware import choose_device, choose_precision

CPU = torch.device("cpu")


def test_a_forced_choice_is_kept():
    assert choose_device("cpu") == CPU
    assert choose_precision(CPU, "fp32") == torch.float32
    assert choose_precision(CPU, "bf16") == torch.bfloat16


@pytest.mark.parametrize("quicker", [torch.float32, torch.bfloat16])
def test_the_automatic_choice_is_what_multiplies_sooner(quicker, monkeypatch):
    clock = {"now": 0.0, "step": 0.0}

    def ones(*size, dtype):
        clock["step"] = 1.0 if dtype == quicker else 2.0
        return torch.eye(*size, dtype=dtype)

    def now():
        clock["now"] += clock["step"]
        return clock["now"]

    monkeypatch.setattr(hardware.torch, "ones", ones)
    monkeypatch.setattr(hardware.time, "perf_counter", now)
    assert hardware.quicker_in_bfloat16.__wrapped__() == (quicker == torch.bfloat16)


def test_the_automatic_choice_does_not_lose_half_of_the_speed_of_this_machine():
    chosen, times = choose_precision(CPU), {}
    for dtype in (torch.float32, torch.bfloat16):
        matrix = torch.ones(512, 512, dtype=dtype)
        matrix @ matrix
        times[dtype] = min(timeit.repeat(lambda matrix=matrix: matrix @ matrix, number=1))
    assert times.pop(chosen) < 1.5 * min(times.values()), times


def test_a_gpu_and_a_forced_choice_need_no_trial(monkeypatch):
    monkeypatch.setattr(hardware, "quicker_in_bfloat16", lambda: pytest.fail("tried"))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    assert choose_precision(torch.device("cuda")) == torch.bfloat16
    assert choose_precision(CPU, "fp32") == torch.float32


def test_an_absent_or_unknown_device_is_refused():
    with pytest.raises(ValueError, match="device 'toaster' cannot be used here"):
        choose_device("toaster")
    if not torch.cuda.is_available():
        assert choose_device() == CPU
        with pytest.raises(ValueError, match="device 'cuda' cannot be used here"):
            choose_device("cuda")


@pytest.mark.parametrize("name", ["mps", "meta"])
def test_a_device_of_a_kind_that_cannot_train_is_refused_by_name(name):
    with pytest.raises(
        ValueError, match=f"device '{name}' cannot be used here: nmtlib runs on cpu and cuda"
    ):
        choose_device(name)


def test_each_process_of_a_machine_takes_its_own_gpu_before_it_uses_one(monkeypatch):
    done = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: done.append(("set", device)))
    monkeypatch.setattr(torch, "empty", lambda *_, device: done.append(("used", device)))
    assert choose_device("cuda") == torch.device("cuda", 1)
    assert done == [("set", torch.device("cuda", 1)), ("used", torch.device("cuda", 1))]


def test_a_batch_goes_to_a_gpu_through_pinned_memory_without_waiting(monkeypatch):
    batch = collate([make_example([4, 5], [6]), make_example([7], [8, 9])])
    pinned, copies = [], []
    monkeypatch.setattr(
        torch.Tensor, "pin_memory", lambda x: pinned.append(x.clone()) or pinned[-1]
    )
    monkeypatch.setattr(
        torch.Tensor, "to", lambda x, *how, **more: copies.append((x, how, more)) or x
    )
    there = to_device(batch, torch.device("cuda"))
    assert [x is y for x, y in zip(pinned, (there.source, there.target), strict=True)] == [
        True,
        True,
    ]
    assert [(x is y, *how) for (x, *how), y in zip(copies, pinned, strict=True)] == [
        (True, (torch.device("cuda"),), {"non_blocking": True})
    ] * 2
    assert torch.equal(there.source, batch.source) and torch.equal(there.target, batch.target)


def test_a_batch_on_a_cpu_is_not_pinned(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda x: pytest.fail("pinned without a GPU"))
    batch = collate([make_example([4], [5])])
    assert to_device(batch, CPU).source.equal(batch.source)
