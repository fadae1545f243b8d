"""What the machine at hand does best: device, precision, and the copy of a batch to it."""

from __future__ import annotations

import os
import time
from functools import cache
from typing import Any

import torch

from nmtlib.data.batching import Batch


def environment_number(name: str, default: float, kind: type = int) -> Any:
    """The number in an environment variable.  Raises ValueError naming it where it is none."""
    given = os.environ.get(name, default)
    try:
        return kind(given)
    except ValueError:
        raise ValueError(f"{name} (in the environment) must be a number, not {given!r}") from None


def choose_device(name: str = "auto") -> torch.device:
    """The named device, cpu or cuda; 'auto' is the GPU where there is one.

    Under torchrun each process of a machine gets its own GPU.  Raises ValueError for a device that
    is absent or of another kind (not all have float64, in which totals are kept).
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type not in ("cpu", "cuda"):
            raise ValueError(f"device {name!r} cannot be used here: nmtlib runs on cpu and cuda")
        if device.type == "cuda" and environment_number("WORLD_SIZE", 1) > 1:
            device = torch.device("cuda", environment_number("LOCAL_RANK", 0))
            torch.cuda.set_device(device)  # before anything is made on another process's GPU
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device {name!r} cannot be used here: {reason}") from None
    return device


def choose_precision(device: torch.device, name: str = "auto") -> torch.dtype:
    """The type of large matrix multiplications; weights, sums and the optimizer stay in float32.

    'auto' is bfloat16 where the hardware is faster in it: recent GPUs, and CPUs that show it.
    """
    if name != "auto":
        return {"fp32": torch.float32, "bf16": torch.bfloat16}[name]
    if device.type == "cuda":
        quicker = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        quicker = quicker_in_bfloat16()
    return torch.bfloat16 if quicker else torch.float32


@cache
def quicker_in_bfloat16() -> bool:
    """Whether the CPU multiplies two matrices faster in bfloat16 than in float32, by measurement.

    Its list of instructions does not tell: an Intel Xeon whose AMX is hidden, as in some virtual
    machines, has some for bfloat16 and takes twice as long with them.
    """
    times: dict[torch.dtype, list[float]] = {torch.float32: [], torch.bfloat16: []}
    for _ in range(6):  # the least of these counts: other programs only add to it
        for dtype, seconds in times.items():
            matrix = torch.ones(256, 256, dtype=dtype)
            start = time.perf_counter()
            matrix @ matrix
            seconds.append(time.perf_counter() - start)
    return min(times[torch.bfloat16]) < min(times[torch.float32])


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch on the device; the copy to a GPU runs while the next operations are queued."""
    # A GPU fetches by itself only from memory that the system cannot move.
    if device.type == "cuda" and not batch.source.is_cuda:
        batch = Batch(batch.source.pin_memory(), batch.target.pin_memory())
    return batch.to(device)
