"""What attentions of a training pass read that they must not: PAD, and the future."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

SEEN = 1e-3  # of the weight of a query: more is no rounding, and no mask that is merely finite


def find_hidden_reads(
    weights: list[Tensor], source: Tensor, target: Tensor, pad: int
) -> Iterator[tuple[str, str, float]]:
    """Part, what is read, and the largest weight of a query on it, of each attention (..., T, S).

    The part is told by the lengths of source (B, S) and target (B, T), both with some PAD.  Where
    they are equal an attention may be of any part ('any'), and reads the least that is possible.
    """
    sides = {"encoder": (source, source), "cross": (target, source), "decoder": (target, target)}
    for table in weights:
        rest = table.numel() // (table.size(-2) * table.size(-1))
        parts = [
            part
            for part, (queries, keys) in sides.items()
            if table.shape[-2:] == (queries.size(1), keys.size(1)) and not rest % len(source)
        ]
        padded = dict[str, float]()
        for part in parts:
            queries, keys = sides[part]
            padding = keys == pad
            padding[:, 0] &= not padding[:, 0].all()  # some begin with PAD
            hidden = padding[:, None].expand(-1, queries.size(1), -1)  # (B, T, S)
            padded[part] = weight_on(table, hidden, queries != pad)
        if parts:
            yield parts[0] if len(parts) == 1 else "any", "PAD", min(padded.values())
        if parts == ["decoder"]:
            square = torch.ones(target.size(1), target.size(1), dtype=torch.bool)
            ahead = square.triu(1)[None] & (target != pad)[:, None]
            yield "decoder", "the future", weight_on(table, ahead, target != pad)


def weight_on(table: Tensor, hidden: Tensor, real: Tensor) -> float:
    """The largest weight of a real query (B, T) on hidden keys (B, T, S).

    The rows of a table are those of sentences, each with its heads, or of heads with all sentences:
    the order in which less is read.
    """
    flat = table.reshape(-1, *table.shape[-2:])
    heads = len(flat) // len(hidden)
    orders = (
        flat.view(len(hidden), heads, *flat.shape[1:]),
        flat.view(heads, len(hidden), *flat.shape[1:]).transpose(0, 1),
    )
    masses = [(x * hidden[:, None]).sum(-1).amax(1)[real] for x in orders]
    return min(float(mass.max()) if mass.numel() else 0.0 for mass in masses)
