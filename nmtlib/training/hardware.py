"""What the machine at hand does best (device, number format, the way of a batch to it), and what a
step needs there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import accumulate

import torch
from torch.profiler import ProfilerActivity, profile

from nmtlib.data.batching import Batch


def choose_device(name: str = "auto") -> torch.device:
    """The named device, cpu or cuda; 'auto' is the GPU where there is one.

    Of the processes that torchrun starts on one machine each gets its own GPU.  Raises ValueError
    for a device of another kind (sums are kept in float64, which not all have) and for one that is
    not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type not in ("cpu", "cuda"):
            raise ValueError(f"device {name!r} cannot be used here: nmtlib runs on cpu and cuda")
        if device.type == "cuda" and int(os.environ.get("WORLD_SIZE", 1)) > 1:
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(device)  # before anything is made on another process's GPU
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"device {name!r} cannot be used here: {str(error).splitlines()[0]}"
        ) from None
    return device


def choose_precision(device: torch.device, name: str = "auto") -> torch.dtype:
    """The type of the large matrix products; weights, sums and the optimizer stay in float32.

    'auto' is bfloat16 where the hardware multiplies it natively: recent GPUs, and CPUs with
    AVX512-BF16 or AMX.
    """
    if name != "auto":
        return {"fp32": torch.float32, "bf16": torch.bfloat16}[name]
    if device.type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = device.type == "cpu" and any(
            getattr(torch.cpu, probe, bool)()
            for probe in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        )
    return torch.bfloat16 if native else torch.float32


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch on the device.  Nobody waits for the copy to a GPU: it runs while the next
    operations are queued.
    """
    if (
        device.type == "cuda"
    ):  # the GPU fetches by itself only from memory that the system may not move
        batch = Batch(batch.source.pin_memory(), batch.target.pin_memory())
    return batch.to(device)


def peak_memory(work: Callable[[], object], device: torch.device) -> int:
    """The most bytes of tensors that `work` had at one moment, beyond those that were there before."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    # torch keeps no account of a CPU's memory, but the profiler writes down whatever is taken and
    # given back.
    os.environ.setdefault(
        "KINETO_LOG_LEVEL", "6"
    )  # else it says on stderr that it starts and stops
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        work()
    events = [e for e in recorded.profiler.kineto_results.events() if e.name() == "[memory]"]
    changes = (e.nbytes() for e in sorted(events, key=lambda e: e.start_ns()))
    return max(accumulate(changes, initial=0))
