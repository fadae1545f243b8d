"""Device and precision are chosen or forced, never silently different; batches travel well."""

import time

import pytest
import torch

from nmtlib.data.batching import collate, make_example, to_device
from nmtlib.training.hardware import choose_device, choose_precision

CPU = torch.device("cpu")


def test_a_forced_choice_is_kept():
    assert choose_device("cpu") == CPU
    assert choose_precision(CPU, "fp32") == torch.float32
    assert choose_precision(CPU, "bf16") == torch.bfloat16


EPYC = {"cpu_name": "AMD EPYC", "avx512_bf16": True, "amx_bf16": False}
XEON = {"cpu_name": "Intel Xeon", "avx512_bf16": True, "amx_bf16": True}
ARM = {"cpu_name": "Neoverse", "bf16": True}


def test_the_processor_decides_the_precision_and_no_clock(monkeypatch):
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    for clock in ("perf_counter", "monotonic", "time", "process_time"):
        monkeypatch.setattr(time, clock, lambda: pytest.fail("a stopwatch"))
    plain_xeon = XEON | {"amx_bf16": False}
    for has, quick in ((EPYC, True), (XEON, True), (plain_xeon, False), (ARM, False)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda has=has: has, raising=False)
        assert choose_precision(CPU) == (torch.bfloat16 if quick else torch.float32)
        assert choose_precision(CPU, "fp32") == torch.float32


def test_a_processor_whose_bfloat16_is_switched_off_computes_in_float32(monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: XEON, raising=False)
    for limit, expected in (
        ("AVX512_CORE", torch.float32),
        ("sse41", torch.float32),
        ("ALL", torch.bfloat16),
        ("AVX512_CORE_AMX", torch.bfloat16),
    ):
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
        assert choose_precision(CPU) == expected
        assert choose_precision(CPU, "bf16") == torch.bfloat16


def test_a_gpu_decides_by_its_own_kind(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    assert choose_precision(torch.device("cuda")) == torch.bfloat16


def test_an_absent_or_unknown_device_is_refused():
    with pytest.raises(ValueError, match="device 'toaster' cannot be used here"):
        choose_device("toaster")
    if not torch.cuda.is_available():
        assert choose_device() == CPU
        with pytest.raises(ValueError, match="device 'cuda' cannot be used here"):
            choose_device("cuda")
    for name in ("mps", "meta"):
        with pytest.raises(ValueError, match=f"'{name}' cannot be used here: nmtlib runs on cpu"):
            choose_device(name)


def test_each_process_of_a_machine_takes_its_own_gpu_before_it_uses_one(monkeypatch):
    done = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: done.append(("set", device)))
    monkeypatch.setattr(torch, "empty", lambda *_, device: done.append(("used", device)))
    assert choose_device("cuda") == torch.device("cuda", 1)
    assert done == [("set", torch.device("cuda", 1)), ("used", torch.device("cuda", 1))]


def test_a_batch_on_a_cpu_is_not_pinned(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda x: pytest.fail("pinned without a GPU"))
    batch = collate([make_example([4], [5])])
    assert to_device(batch, CPU).source.equal(batch.source)
