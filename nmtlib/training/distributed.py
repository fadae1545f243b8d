"""Data parallelism: several processes, one model, the same updates as one process would make."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist

from nmtlib.errors import require
from nmtlib.training.hardware import environment_number
from nmtlib.training.measure import Sums
from nmtlib.training.signals import ignore_sigterm

Value = TypeVar("Value")


class LostProcess(ConnectionError):
    """A process has ended or does not answer; those that train with it cannot go on."""


class Processes:
    """The processes that train together: `rank` is this one's number, `count` how many there are.

    Started with `torchrun --nproc-per-node=N -m nmtlib train ...` they find each other; otherwise
    there is one, and every method is a no-op.  Methods that wait for the others raise LostProcess
    where one of them has ended or takes longer than NMTLIB_TIMEOUT seconds (an environment
    variable, 600 if not set).  On GPUs only that time tells that a process has ended; but torchrun
    sees it at once and ends the others within half a minute.
    """

    def __init__(self, device: torch.device):
        self.rank = environment_number("RANK", 0)
        self.count = environment_number("WORLD_SIZE", 1)
        require(0 <= self.rank < self.count, "RANK", f"below WORLD_SIZE ({self.count})", self.rank)
        self.device = device
        self.lost = False
        self.places = [("", 0)] * self.count  # machine and process id of each
        if self.count > 1:
            if not dist.is_initialized():
                # What processes say beside gradients stays on the CPU: no GPU waits for it.
                backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
                seconds = environment_number("NMTLIB_TIMEOUT", 600, float)
                require(0 < seconds < 1e9, "NMTLIB_TIMEOUT", "a number of seconds", seconds)
                wait = timedelta(seconds=seconds)
                self.together(dist.init_process_group, backend, timeout=wait)
            self.together(dist.all_gather_object, self.places, (socket.gethostname(), os.getpid()))

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and reports."""
        return self.rank == 0

    def share(self, items: Any) -> Any:
        """Every `count`-th item: the part of this process."""
        return items[self.rank :: self.count]

    def any(self, asked: bool) -> bool:
        """Whether any process says so; all of them learn it at the same time."""
        return asked if self.count == 1 else bool(self.sum(torch.tensor([float(asked)])))

    def sum(self, values: Tensor) -> Tensor:
        """The sum of a tensor over all processes, in place."""
        if self.count > 1:
            self.together(dist.all_reduce, values)
        return values

    def total(self, sums: Sums) -> Sums:
        """The sums of all processes, as floats."""
        mine = torch.tensor(sums.floats(), dtype=torch.float64)
        return Sums(*self.sum(mine).tolist())

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Give every process the sum of all gradients, as one message."""
        if self.count == 1:
            return
        parameters = list(parameters)
        # Zeros stand where this process had no sentence in the batch.
        own = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = self.sum(torch.cat([gradient.flatten() for gradient in own]))
        sums = flat.split([p.numel() for p in parameters])
        for p, gradient, total in zip(parameters, own, sums, strict=True):
            p.grad = gradient.copy_(total.view_as(p))

    def agree(self, value: Value) -> Value:
        """What the first process says, for all."""
        shared = [value]
        if self.count > 1:
            self.together(dist.broadcast_object_list, shared)
        return shared[0]

    def wait(self) -> None:
        """Block until every process is here."""
        if self.count > 1:
            self.together(dist.barrier)

    def together(self, operation: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        """Do what all processes do at once.  Raises LostProcess, naming it, where one is gone."""
        try:
            operation(*arguments, **options)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # the backends raise nothing narrower
            ignore_sigterm()  # torchrun now ends this process, too; it shall say why first
            self.lost = True
            reason = f"another process has ended or does not answer ({str(error).splitlines()[0]})"
            if gone := ", ".join(map(str, self.gone())):
                reason = f"process {gone} has ended (killed, out of memory, or by an error)"
            raise LostProcess(f"{reason}; process {self.rank} cannot train without it") from error

    def gone(self, seconds: float = 1.0) -> list[int]:
        """The ranks that have ended on this machine; waits at most some seconds for the first."""
        deadline, here = time.monotonic() + seconds, socket.gethostname()
        while True:
            places = enumerate(self.places)
            ended = [rank for rank, (host, pid) in places if host == here and not is_running(pid)]
            if ended or time.monotonic() > deadline:
                return ended
            time.sleep(0.01)  # a process closes its connections a moment before it has ended

    def close(self) -> None:
        """Leave the group; from one that has lost a process there is no orderly way out."""
        if self.count > 1 and dist.is_initialized() and not self.lost:
            dist.destroy_process_group()


def is_running(pid: int) -> bool:
    """Whether a process of this machine has not ended; True where the system (no Linux) is mute."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return not Path("/proc/self/stat").exists()
    return state not in "ZX"  # ended, but torchrun has not yet asked how
