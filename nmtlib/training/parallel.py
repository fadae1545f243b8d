"""One model in several processes: how torch's own engine exchanges their gradients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from nmtlib.training.hardware import Processes


class Replicas(DistributedDataParallel):
    """The model, equal in every process; its backward pass averages the gradients.

    It is called as the model is, and has its attributes, so that a loss need not know of it.
    """

    def __init__(self, model: nn.Module, processes: Processes):
        devices = None if processes.device.type == "cpu" else [processes.device]
        # Our buffers are tables that are computed alike everywhere.  Gradients that live in the
        # messages themselves are not copied into them.
        super().__init__(
            model, device_ids=devices, forward_sync_buffers=False, gradient_as_bucket_view=True
        )

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)


def make_engine(model: nn.Module, processes: Processes) -> nn.Module:
    """What computes the loss of a `Trainer`: the model, in several processes its `Replicas`."""
    if processes.count == 1:
        return model
    with processes.exchange():  # of all weights: those of process 0 become everyone's
        return Replicas(model, processes)


@contextmanager
def backward_pass(engine: Any, processes: Processes, last: bool) -> Iterator[None]:
    """A block with a forward and a backward pass; after the `last` one gradients are exchanged.

    Before it they are only added up here: one message an update, however many batches it has.
    Raises LostProcess where another process has ended.
    """
    if processes.count == 1:
        yield
        return
    quiet = nullcontext() if last else engine.no_sync()
    with processes.exchange(is_of_messages), quiet:
        yield


def is_of_messages(error: Exception) -> bool:
    """Whether an error of a backward pass is of the exchange, not of the model or the loss.

    NCCL's errors have a class; those of gloo, for CPUs, name the file of gloo that raised them.
    """
    return isinstance(error, dist.DistError) or "gloo" in str(error)
