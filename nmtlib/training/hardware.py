"""What the machine at hand does best: device and number format."""

from __future__ import annotations

import torch


def choose_device(name: str = "auto") -> torch.device:
    """The named device; 'auto' is the GPU where there is one.  Raises ValueError for one that is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {name!r} cannot be used here: {str(error).splitlines()[0]}") from None
    return device


def choose_precision(device: torch.device, name: str = "auto") -> torch.dtype:
    """The type of the large matrix products; weights, sums and the optimizer stay in float32.

    'auto' is bfloat16 where the hardware multiplies it natively: recent GPUs, and CPUs with AVX512-BF16 or AMX.
    """
    if name != "auto":
        return {"fp32": torch.float32, "bf16": torch.bfloat16}[name]
    if device.type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = device.type == "cpu" and any(
            getattr(torch.cpu, probe, bool)() for probe in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        )
    return torch.bfloat16 if native else torch.float32
