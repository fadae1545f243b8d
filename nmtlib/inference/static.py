"""A decoder's cache whose tensors never change their shape: what a GPU or a compiler likes best."""

from __future__ import annotations

import torch
from torch import Tensor

from nmtlib.model.layers import DecoderState, LayerCache
from nmtlib.model.transformer import Transformer

LOOK_EVERY = 8  # steps between two looks at whether anything is left to do


class StaticCache(LayerCache):
    """Keys and values with room for `longest` positions from the start, of which a mask hides what
    is still to come.

    `place` (1,) is where the newest token stands; all layers share it.
    """

    keys: Tensor
    values: Tensor

    def __init__(self, cache: LayerCache, place: Tensor, longest: int):
        super().__init__(cache.memory_keys, cache.memory_values)
        B, H, _, K = cache.memory_keys.shape
        self.keys, self.values = cache.memory_keys.new_zeros(2, B, H, longest, K).unbind()
        self.place = place

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Put the newest position, (N, H, 1, K) each, into its place."""
        self.keys.index_copy_(2, self.place, keys)
        self.values.index_copy_(2, self.place, values)
        past = torch.arange(self.keys.size(2), device=keys.device) <= self.place  # (longest,)
        return self.keys, self.values, past[None]


def keeps_shapes(device: torch.device) -> bool:
    """Whether a search keeps its shapes: not on a CPU, which saves time with every row that ends.

    A GPU would have to be asked at each step which rows have ended, and wait.
    """
    return device.type != "cpu"


def start(model: Transformer, source: Tensor, longest: int) -> DecoderState:
    """`model.start`, for up to `longest` steps in the way of the device."""
    state = model.start(source)
    if not keeps_shapes(source.device):
        return state
    place = torch.zeros(1, dtype=torch.long, device=source.device)  # `step` moves it for all layers
    layers: list[LayerCache] = [StaticCache(cache, place, longest) for cache in state.layers]
    return DecoderState(layers, state.memory_mask, place)


def going_on(done: Tensor, length: int) -> Tensor:
    """Which rows a search goes on with after `length` steps: (n',), none when all are done.

    `done` is (n,), bool.  Where shapes are kept all rows stay until all are done, and even that is
    asked only now and then.
    """
    if not keeps_shapes(done.device):
        return (~done).nonzero().squeeze(1)
    over = length % LOOK_EVERY == 0 and bool(done.all())
    return torch.arange(0 if over else len(done), device=done.device)
