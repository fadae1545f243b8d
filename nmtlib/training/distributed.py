"""Data parallelism: several processes, one model, the same updates as one process would make."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist

from nmtlib.errors import require
from nmtlib.training.hardware import environment_number

Value = TypeVar("Value")


class LostProcess(ConnectionError):
    """A process has ended or does not answer; the others cannot continue."""


class Processes:
    """The processes that train together: `rank` is the number of this one, `count` of all.

    Started with `torchrun --nproc-per-node=N -m nmtlib train ...` they find each other; otherwise
    there is one, and every method is a no-op.  Collective operations raise LostProcess if another
    process has ended or takes longer than NMTLIB_TIMEOUT seconds (environment, default 600).
    """

    def __init__(self, device: torch.device):
        self.rank = environment_number("RANK", 0)
        self.count = environment_number("WORLD_SIZE", 1)
        require(0 <= self.rank < self.count, "RANK", f"below WORLD_SIZE ({self.count})", self.rank)
        self.device, self.lost = device, False
        if self.count > 1 and not dist.is_initialized():
            # What is exchanged besides gradients stays on the CPU: no GPU waits for it.
            backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
            seconds = environment_number("NMTLIB_TIMEOUT", 600, float)
            require(0 < seconds < 1e9, "NMTLIB_TIMEOUT", "a number of seconds", seconds)
            self.collective(dist.init_process_group, backend, timeout=timedelta(seconds=seconds))

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and reports."""
        return self.rank == 0

    def shard(self, items: Any) -> Any:
        """Every `count`-th item: the part of this process."""
        return items[self.rank :: self.count]

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process; all of them get the same answer."""
        return flag if self.count == 1 else bool(self.all_reduce(torch.tensor([float(flag)])))

    def all_reduce(self, values: Tensor) -> Tensor:
        """The sum of a tensor over all processes, in place."""
        if self.count > 1:
            self.collective(dist.all_reduce, values)
        return values

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Give every process the sum of all gradients, in one message."""
        if self.count == 1:
            return
        parameters = list(parameters)
        # Zeros where this process had no sentence in the batch.
        own = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = self.all_reduce(torch.cat([gradient.flatten() for gradient in own]))
        sums = flat.split([p.numel() for p in parameters])
        for p, gradient, total in zip(parameters, own, sums, strict=True):
            p.grad = gradient.copy_(total.view_as(p))

    def broadcast(self, value: Value) -> Value:
        """Rank 0's value, in every process."""
        shared = [value]
        if self.count > 1:
            self.collective(dist.broadcast_object_list, shared)
        return shared[0]

    def wait(self) -> None:
        """Block until every process is here."""
        if self.count > 1:
            self.collective(dist.barrier)

    def collective(self, operation: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        """Run an operation that all processes run at once.  Raises LostProcess if one is gone."""
        try:
            operation(*arguments, **options)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # the backends raise nothing narrower
            # torchrun ends this process, too, as soon as it sees that the other one has ended.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self.lost = True
            raise LostProcess(
                f"another process has ended or does not answer ({str(error).splitlines()[0]}); "
                f"process {self.rank} cannot train without it"
            ) from error

    def close(self) -> None:
        """Leave the group; from one that has lost a process there is no orderly way out."""
        if self.count > 1 and dist.is_initialized() and not self.lost:
            dist.destroy_process_group()


@contextmanager
def stop_on_signal(asked: threading.Event) -> Iterator[None]:
    """In this block the first Ctrl-C (or SIGTERM) sets the flag, the second interrupts at once."""

    def handle(number: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    old = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        asked.clear()
        for number, handler in old.items():
            if signal.getsignal(number) is handle:  # and not something that the block has set since
                signal.signal(number, handler)
