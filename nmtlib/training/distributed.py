"""Data parallelism: several processes, one model, the same updates as one process would make."""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
from torch import Tensor
from torch import distributed as dist


class Processes:
    """The processes that train together: `rank` is this one's number, `count` how many there are.

    Started with `torchrun --nproc-per-node=N -m nmtlib train ...` they find each other; otherwise there is one,
    and every method is a no-op.
    """

    def __init__(self, device: torch.device):
        self.rank = int(os.environ.get("RANK", 0))
        self.count = int(os.environ.get("WORLD_SIZE", 1))
        self.device = device
        if device.type == "cuda" and self.count > 1:
            self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(self.device)
        if self.count > 1 and not dist.is_initialized():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and reports."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum of a tensor over all processes, in place."""
        if self.count > 1:
            dist.all_reduce(values)
        return values

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Give every process the sum of all gradients, as one message."""
        if self.count == 1:
            return
        parameters = list(parameters)
        for p in parameters:
            if p.grad is None:  # this process had no sentence in the batch
                p.grad = torch.zeros_like(p)
        flat = torch.cat([p.grad.flatten() for p in parameters])
        dist.all_reduce(flat)
        for p, gradient in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
            p.grad.copy_(gradient.view_as(p))

    def agree(self, text: str) -> str:
        """The text of the first process, for all."""
        shared = [text]
        if self.count > 1:
            dist.broadcast_object_list(shared)
        return shared[0]

    def wait(self) -> None:
        """Block until every process is here."""
        if self.count > 1:
            dist.barrier()

    def close(self) -> None:
        """Leave the group."""
        if self.count > 1 and dist.is_initialized():
            dist.destroy_process_group()
