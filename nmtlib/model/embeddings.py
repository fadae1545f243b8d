"""Token embeddings, the two kinds of position tables, and a dropout that is quick on a CPU."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


class TokenEmbedding(nn.Embedding):
    """Look up one vector per token id and scale it by sqrt(d_model).  Vaswani et al. 2017, 3.4.

    ids (B, S) -> (B, S, D).  The PAD row is zero and is never trained through the lookup.
    Raises ValueError for an id outside the vocabulary.
    """

    def __init__(self, vocab_size: int, d_model: int, pad: int = 0):
        super().__init__(vocab_size, d_model, padding_idx=pad)
        self.scale = math.sqrt(d_model)

    def forward(self, ids: Tensor) -> Tensor:
        # On a GPU the comparison would synchronise, and torch itself checks there.
        if ids.device.type == "cpu" and ids.numel():
            low, high = int(ids.min()), int(ids.max())
            if low < 0 or high >= self.num_embeddings:
                raise ValueError(
                    f"token ids are in {low}..{high}, but this embedding has "
                    f"{self.num_embeddings} rows; was the text encoded with another vocabulary?"
                )
        return super().forward(ids) * self.scale  # (B, S, D)


def sinusoidal_table(length: int, d_model: int) -> Tensor:
    """The fixed position table, (length, D).  Vaswani et al. 2017, 3.5.

    Dimension pairs (2i, 2i+1) hold sin and cos of position / 10000^(2i/D): each pair turns at its
    own speed, from one turn in 2 pi positions (i = 0) to one in nearly 10000 * 2 pi.
    """
    if d_model % 2:
        raise ValueError(f"sinusoidal positions are pairs: d_model must be even, not {d_model}")
    position = torch.arange(length, dtype=torch.float64)[:, None]  # (length, 1)
    speed = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)  # (D/2,)
    angle = position * speed  # (length, D/2)
    table = torch.stack([angle.sin(), angle.cos()], dim=-1).reshape(length, d_model)
    return table.to(torch.get_default_dtype())


class Positions(nn.Module):
    """Add to each embedding the vector of its position: a fixed sinusoid or a learned table.

    embedded (B, S, D) -> (B, S, D); `start` is the position of the first token: in step-by-step
    decoding the number of tokens before it.  Raises ValueError beyond the end of the table.
    """

    def __init__(self, d_model: int, max_length: int, kind: str = "sinusoidal"):
        super().__init__()
        if kind == "sinusoidal":
            # A buffer follows .to(device); one that can be computed stays out of the checkpoint.
            self.register_buffer("table", sinusoidal_table(max_length, d_model), persistent=False)
        elif kind == "learned":
            self.table = nn.Parameter(torch.empty(max_length, d_model))
        else:
            raise ValueError(f"positions are 'sinusoidal' or 'learned', not {kind!r}")

    def forward(self, embedded: Tensor, start: int = 0) -> Tensor:
        end = start + embedded.size(1)
        if end > len(self.table):
            raise ValueError(
                f"a sentence of {end} tokens is longer than the position table of "
                f"{len(self.table)}; split it, or train a model with a larger max_length"
            )
        return embedded + self.table[start:end]  # (B, S, D)


# Where a training draws from.  Each thread has its own value; torch has one generator for the whole
# process, and another thread that draws from it would change what is dropped here.
GENERATOR: ContextVar[torch.Generator | None] = ContextVar("generator", default=None)


@contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[None]:
    """In this block, and in this thread alone, dropout on a CPU draws from a generator."""
    token = GENERATOR.set(generator)
    try:
        yield
    finally:
        GENERATOR.reset(token)


def drawing_again(
    generator: torch.Generator | None,
) -> tuple[AbstractContextManager, AbstractContextManager]:
    """Contexts for `checkpoint`: one for a layer now, one in which it draws the same once more."""
    if generator is None:  # torch does so for its own generator
        return nullcontext(), nullcontext()
    return nullcontext(), _replaying(generator, generator.get_state())


@contextmanager
def _replaying(generator: torch.Generator, state: Tensor) -> Iterator[None]:
    """Draw what was drawn after a state; then go on as if nothing had been drawn."""
    now = generator.get_state()
    generator.set_state(state)
    try:
        with drawing_from(generator):
            yield
    finally:
        generator.set_state(now)


class DrawingFrom(TorchFunctionMode):
    """In this block, and in this thread alone, new weights are drawn from a generator.

    A layer of torch draws its first weights from torch's own generator, and has no other argument.
    """

    def __init__(self, generator: torch.Generator):
        super().__init__()
        self.generator = generator

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        if "generator" in options:  # of torch.nn.init and what it calls: None unless given
            options["generator"] = self.generator
        return function(*args, **options)


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each value with probability p; scale the rest to keep the mean.  Srivastava et al. 2014.

    On a CPU torch draws a random number for each value.  Here a 64-bit number gives eight of a byte
    each, and p is rounded to a multiple of 1/256: training steps take 1.1 times as long with
    torch's own (torch 2.13, one thread, D 128 and 256).
    """
    if p == 0:
        return x
    if x.device.type != "cpu" or p == 1:
        return F.dropout(x, p)
    dropped, generator = round(p * 256), GENERATOR.get()
    if not 0 < dropped < 256:
        return x * torch.empty_like(x).bernoulli_(1 - p, generator=generator).div_(1 - p)
    # For x of 20 values: 3 numbers, read as 24 bytes, of which 20 are used.  With p = 0.1,
    # `dropped` is 26, and a value is dropped where its byte is one of 0 .. 25.
    eights = -(-x.numel() // 8)
    numbers = torch.empty(eights, dtype=torch.int64)  # 64 random bits each
    numbers.random_(-(2**63), None, generator=generator)
    values = numbers.view(torch.uint8)[: x.numel()].view(x.shape)
    # 1 or 0, at once in the type of x: a product of numbers and bools is several times slower.
    mask = torch.ge(values, dropped, out=torch.empty(x.shape, dtype=x.dtype))
    return x * mask * (256 / (256 - dropped))


class Dropout(nn.Dropout):
    """`dropout` as a module: acts in train mode only."""

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training else x
