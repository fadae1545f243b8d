"""Watch torch's operations while an answer runs: what a page forbids or demands."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nmtcourse.homework.compare import Finding

PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "linear")


class Operations(TorchDispatchMode):
    """The names of torch's operations while this mode is active, in `seen`; `touched` has those
    that read a tensor `of`, or what was made from it without a product.
    """

    def __init__(self, of: torch.Tensor | None = None) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.touched: list[str] = []
        # Tensors, not addresses: as long as they live, no other tensor gets their storage.
        self.derived: list[torch.Tensor] = []
        if of is not None:
            self.derived.append(of)

    def __torch_dispatch__(
        self, called: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = called.overloadpacket.__name__
        self.seen.append(name)
        result = called(*args, **(kwargs or {}))
        storages = {tensor.untyped_storage().data_ptr() for tensor in self.derived}
        arguments = tensors_in((args, kwargs))
        if any(tensor.untyped_storage().data_ptr() in storages for tensor in arguments):
            self.touched.append(name)
            if name not in PRODUCTS and not name.startswith("new_") and not name.endswith("_like"):
                self.derived += tensors_in(result)
        return result

    def products(self) -> int:
        """How many of the operations are matrix products."""
        return sum(name in PRODUCTS for name in self.seen)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in a container of any depth."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


class Without(TorchFunctionMode):
    """While this mode is active, some functions of torch raise Finding."""

    def __init__(self, forbidden: tuple[str, ...]):
        super().__init__()
        self.forbidden = forbidden

    def __torch_function__(
        self, called: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(called, "__name__", "").lstrip("_").removeprefix("special_")
        if name in self.forbidden:
            cause = "Write it with simpler operations; the task says which are allowed."
            raise Finding(f"torch's `{name}` was called", "an answer without it", cause)
        return called(*args, **(kwargs or {}))


@contextlib.contextmanager
def sealing(modules: tuple[str, ...]) -> Iterator[None]:
    """Raise Finding if a function of these modules, or of their submodules, is called."""
    inside = tuple(f"{module}." for module in modules)

    def look(frame: FrameType, event: str, arg: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and f"{module}.".startswith(inside) and not importing(frame):
            cause = "Write it yourself; the task says what is allowed."
            called = f"`{frame.f_code.co_name}` of {module.partition('.')[0]} was called"
            raise Finding(called, "an answer without it", cause)

    if not modules:
        yield
        return
    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)


def importing(frame: FrameType | None) -> bool:
    """Whether a frame runs because a module is being imported."""
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False
