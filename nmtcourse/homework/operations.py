"""Watch torch's operations while an answer runs: what a page forbids or demands."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "linear")


class Operations(TorchDispatchMode):
    """The names of torch's operations while this mode is active, in `seen`; `touched` has those
    that read a tensor `of`, or what was made from it without a product.
    """

    def __init__(self, of: torch.Tensor | None = None) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.touched: list[str] = []
        self.made = [] if of is None else [of]  # kept, so that no storage is used again

    def __torch_dispatch__(
        self, called: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = called.overloadpacket.__name__
        self.seen.append(name)
        found = called(*args, **(kwargs or {}))
        places = {each.untyped_storage().data_ptr() for each in self.made}
        given = (x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor))
        if any(each.untyped_storage().data_ptr() in places for each in given):
            self.touched.append(name)
            if name not in PRODUCTS and not name.startswith("new_") and not name.endswith("_like"):
                self.made += [x for x in tree_leaves(found) if isinstance(x, torch.Tensor)]
        return found

    def products(self) -> int:
        """How many of the operations are matrix products."""
        return sum(name in PRODUCTS for name in self.seen)
