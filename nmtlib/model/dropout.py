"""Dropout, the same as torch's but several times faster on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each value with probability p; scale the rest to keep the mean.  Srivastava et al. 2014.

    On a CPU torch draws one random number a value, one after the other, which about doubles the
    time of a training step.  One 64-bit number holds eight random bytes, so here a value costs one
    byte, and p is rounded to a multiple of 1/256.
    """
    if p == 0:
        return x
    dropped = round(p * 256)
    if x.device.type != "cpu" or not 0 < dropped < 256:
        return F.dropout(x, p)
    eights = -(-x.numel() // 8)
    numbers = torch.empty(eights, dtype=torch.int64).random_(-(2**63), None)  # 64 random bits each
    values = numbers.view(torch.uint8)[: x.numel()].view(x.shape)
    # 1 or 0, at once in the type of x: a product of numbers and bools is several times slower.
    kept = torch.ge(values, dropped, out=torch.empty(x.shape, dtype=x.dtype))
    return x * kept * (256 / (256 - dropped))


class Dropout(nn.Dropout):
    """`dropout` as a module: acts in train mode only."""

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training else x
