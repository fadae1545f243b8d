"""What the benchmarks of training share: one step as the trainer makes it, and its time."""

from __future__ import annotations

import time
from collections.abc import Callable

import nmtlib  # noqa: F401  (before torch: it chooses how threads wait)

# isort: split
import torch

from nmtlib.data.batching import Batch
from nmtlib.model.transformer import Transformer
from nmtlib.training.loss import autocast, compute_loss

Step = Callable[[Batch], None]


def make_step(
    model: Transformer, precision: torch.dtype, called: Transformer | None = None
) -> Step:
    """One update of the model with Adam, as `Trainer.update` makes it; `called` is it, compiled."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    called = model if called is None else called
    model.train()

    def step(batch: Batch) -> None:
        with autocast(batch.source.device, precision):
            loss, _ = compute_loss(called, batch, 0.1)
        (loss / batch.labels.numel()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def seconds(work: Callable[[], object], device: torch.device | None = None) -> float:
    """Seconds that `work` takes, all that it has queued on a GPU included."""
    queued = device is not None and device.type == "cuda"
    if queued:
        torch.cuda.synchronize(device)  # what was asked for before does not count
    started = time.perf_counter()
    work()
    if queued:
        torch.cuda.synchronize(device)
    return time.perf_counter() - started
