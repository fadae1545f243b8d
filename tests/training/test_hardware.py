"""The choice of device and precision can be automatic or forced, never silently different."""

import pytest
import torch

from nmtlib.training.hardware import choose_device, choose_precision

CPU = torch.device("cpu")


def test_a_forced_choice_is_kept():
    assert choose_device("cpu") == CPU
    assert choose_precision(CPU, "fp32") == torch.float32
    assert choose_precision(CPU, "bf16") == torch.bfloat16


def test_the_automatic_choice_is_bfloat16_only_where_the_processor_multiplies_it(monkeypatch):
    for probe in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, probe, lambda: False, raising=False)
    assert choose_precision(CPU) == torch.float32
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    assert choose_precision(CPU) == torch.bfloat16


def test_an_absent_or_unknown_device_is_refused():
    with pytest.raises(ValueError, match="device 'toaster' cannot be used here"):
        choose_device("toaster")
    if not torch.cuda.is_available():
        assert choose_device() == CPU
        with pytest.raises(ValueError, match="device 'cuda' cannot be used here"):
            choose_device("cuda")
