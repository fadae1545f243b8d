"""A decoder whose tensors keep their shapes from step to step: best for a GPU or a compiler.

The search of the core drops sentences as soon as they have finished, and asks for them after each
step.  For the answer a GPU has to wait, and a compiler sees new shapes all the time.  Here every
row stays until all have finished, and the question comes only now and then.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from nmtlib.model.layers import DecoderState, LayerCache
from nmtlib.model.transformer import Transformer

LOOK_EVERY = 8  # steps between two questions whether every sentence has finished


class FixedCache(LayerCache):
    """Keys and values with room for `room` positions; a mask hides those that are still to come.

    `place` (1,) is the position of the newest token; all layers share it.
    """

    keys: Tensor
    values: Tensor

    def __init__(self, cache: LayerCache, place: Tensor, room: int):
        super().__init__(cache.memory_keys, cache.memory_values)
        B, H, _, d_k = cache.memory_keys.shape
        self.keys, self.values = cache.memory_keys.new_zeros(2, B, H, room, d_k).unbind()
        self.place = place

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Put the newest position, (N, H, 1, d_k) each, into its place; the mask comes third."""
        self.keys.index_copy_(2, self.place, keys)
        self.values.index_copy_(2, self.place, values)
        past = torch.arange(self.keys.size(2), device=keys.device) <= self.place  # (room,)
        return self.keys, self.values, past[None]

    def grow(self, more: int) -> None:
        """Make room for `more` positions."""
        self.keys = F.pad(self.keys, (0, 0, 0, more))
        self.values = F.pad(self.values, (0, 0, 0, more))


class FixedState(DecoderState):
    """A `DecoderState` whose length is a tensor (1,), and in which every row stays to the end."""

    layers: list[FixedCache]
    length: Tensor

    def __init__(self, state: DecoderState, room: int):
        place = torch.zeros(1, dtype=torch.long, device=state.memory_mask.device)
        layers = [FixedCache(cache, place, room) for cache in state.layers]
        super().__init__(layers, state.memory_mask, place)
        self.room, self.steps = room, 0

    def active_rows(self, done: Tensor) -> Tensor:
        """All rows (n,), or none if all are `done`, which is asked every few steps."""
        self.steps += 1
        if self.steps == self.room:  # a search with a greater max_length than usual
            for layer in self.layers:
                layer.grow(self.room)
            self.room *= 2
        over = self.steps % LOOK_EVERY == 0 and bool(done.all())
        return torch.arange(0 if over else len(done), device=done.device)


class FixedShapes(Transformer):
    """A view of a Transformer, for `greedy_search` and `beam_search`; all modules are shared."""

    def __init__(self, model: Transformer):
        self.__dict__.update(model.__dict__)

    def start(self, source: Tensor) -> FixedState:
        """Encode the source (B, S), with room for the longest translation that is usual for it."""
        longest = min(2 * source.size(1) + 10, self.config.max_length)  # as in `length_limits`
        return FixedState(super().start(source), longest)

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """The newest token (N,) of each hypothesis -> logits (N, V) for the next; moves `state`."""
        x = self.target_embedding(tokens[:, None]) + self.target_positions.table[state.length]
        for layer, cache in zip(self.decoder, state.layers, strict=True):
            x = layer.step(x, cache, state.memory_mask)  # type: ignore[operator]
        state.length += 1
        return self.output(self.decoder_norm(x)).squeeze(1)  # (N, V)
