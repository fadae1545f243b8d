"""Observe any search while it runs, however it is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode


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

    with register_module_forward_hook(called):
        yield calls


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
