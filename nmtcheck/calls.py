"""Ways to call a model whose forward does not take two padded tables of ids.

>>> import torch
>>> model = lambda source, target, lengths: (source + 0.0 * lengths[:, None], None)
>>> logits = called(lengths=True)
>>> logits(model, torch.tensor([[5, 6, 0]]), torch.tensor([[1, 5]]))
tensor([[5., 6.]])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import functional as F


def called(
    *,
    pad: int = 0,
    time_major: bool = False,
    lengths: bool = False,
    shifts: bool = False,
    fixed: int = 0,
    first: int = 0,
) -> Callable[[Any, Tensor, Tensor], Tensor]:
    """`Adapter.logits` for a model that is called otherwise than `model(source, target)`.

    `time_major`: it wants and returns time first.  `lengths`: its third argument is the number of
    tokens (B,) of each source that are not `pad`.  `shifts`: it is given the whole target and cuts
    its last place off itself.  `fixed`: it wants exactly so many positions on both sides.  Where it
    returns a tuple, the logits stand at `first`.
    """

    def logits(model: Any, source: Tensor, target: Tensor) -> Tensor:
        length, counts = target.size(1), (source != pad).sum(1)
        if fixed and max(source.size(1), length) > fixed:
            given = f"{source.size(1)} source and {length} target positions"
            raise ValueError(f"the model takes at most {fixed} positions, not {given}")
        if fixed:
            source, target = (F.pad(x, (0, fixed - x.size(1)), value=pad) for x in (source, target))
        if shifts:
            target = F.pad(target, (0, 1), value=pad)
        if time_major:
            source, target = source.t(), target.t()
        found = model(source, target, counts) if lengths else model(source, target)
        found = found[first] if isinstance(found, tuple | list) else found
        return (found.transpose(0, 1) if time_major else found)[:, :length]

    return logits
