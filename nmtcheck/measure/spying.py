"""Observe any training or search while it runs, however it is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode


@dataclass
class Backwards:
    """The backward passes between two steps of the optimizer, and what they added up to."""

    weights: Tensor  # all weights as one vector, as they were at the step
    gradient: Tensor  # all gradients as one vector, as backward left them: not clipped yet
    passes: int
    dtypes: set[torch.dtype]  # of the weights


@dataclass
class Watched:
    """What was seen of a training: its steps, and the passes in train mode that none followed."""

    steps: list[Backwards] = field(default_factory=list)
    left: int = 0


@contextmanager
def watch_gradients(model: nn.Module) -> Iterator[Watched]:
    """See each gradient of `model` before it is clipped, and each step, while the block runs."""
    own = [p for p in model.parameters() if p.requires_grad]
    sums, counts, seen = [torch.zeros_like(p) for p in own], [0] * len(own), Watched()

    def added(place: int) -> None:
        sums[place] = own[place].grad.detach().clone()
        counts[place] += model.training
        seen.left = max(counts)

    def stepped(optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
        given = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if any(id(p) in given for p in own):
            weights, gradient = (
                torch.cat([x.detach().flatten() for x in xs]) for xs in (own, sums)
            )
            dtypes = {p.dtype for p in own}
            seen.steps.append(Backwards(weights, gradient, seen.left, dtypes))
            counts[:], seen.left = [0] * len(own), 0

    def hook(place: int) -> torch.utils.hooks.RemovableHandle:
        return own[place].register_post_accumulate_grad_hook(lambda _: added(place))

    handles = [hook(place) for place in range(len(own))]
    handles.append(register_optimizer_step_pre_hook(stepped))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


@dataclass
class Call:
    """One call of a module in a search: what it read, and what it made of it."""

    module: nn.Module
    read: Tensor
    made: Tensor

    def rows(self) -> list[list[int]]:
        """The rows of ids that an embedding read, and the columns: some put time first."""
        if self.read.is_floating_point() or not self.read.dim():
            return []
        table = self.read.reshape(-1, self.read.size(-1))
        return [*table.tolist(), *table.t().tolist()]


@contextmanager
def watch_calls() -> Iterator[list[Call]]:
    """See what every embedding reads, and every linear map makes, while the block runs."""
    calls: list[Call] = []

    def called(module: nn.Module, given: tuple, made: object) -> None:
        kinds = isinstance(module, nn.Embedding) or "Linear" in type(module).__name__
        if kinds and given and isinstance(given[0], Tensor) and isinstance(made, Tensor):
            calls.append(Call(module, given[0].detach().clone(), made.detach().clone()))

    handle = register_module_forward_hook(called)
    try:
        yield calls
    finally:
        handle.remove()


class Tables(TorchFunctionMode):
    """Keeps a copy of every table of real numbers of one width that torch makes."""

    def __init__(self, width: int):
        super().__init__()
        self.width, self.kept = width, list[Tensor]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor) and made.is_floating_point() and made.dim():
            if made.size(-1) == self.width and made.numel() and len(self.kept) < 300:
                self.kept.append(made.detach().clone())
        return made


@contextmanager
def watch_tables(width: int) -> Iterator[list[Tensor]]:
    """See every table (..., width) of real numbers that is made while the block runs."""
    with Tables(width) as seen:
        yield seen.kept
