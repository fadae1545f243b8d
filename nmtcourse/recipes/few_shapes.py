"""Batches of few shapes: a compiled model, or a recorded CUDA graph, serves each shape again."""

from __future__ import annotations

from torch.nn import functional as F

from nmtlib.data.batching import Batch
from nmtlib.specials import BOS, EOS, PAD

WIDTHS = 8  # each width is a multiple of it
STEPS = 4  # the rows of a width are a multiple of a fourth of what fits into a batch


def few_shapes(batch: Batch, max_tokens: int, longest: int) -> Batch:
    """A batch filled up to the next of few shapes, none of them wider than `longest`."""
    rows, width = len(batch.source), max(batch.source.size(1), batch.target.size(1))
    width = max(width - 1, min(rounded_up(width, WIDTHS), longest, max_tokens))
    return filled(batch, rounded_up(rows, max(max_tokens // width // STEPS, 1)), width)


def rounded_up(number: int, step: int) -> int:
    """The next multiple of a step."""
    return -(-number // step) * step


def filled(batch: Batch, rows: int, width: int) -> Batch:
    """A batch filled up to (rows, width), on the target side (rows, width + 1): the same loss.

    The new rows read one token and have no label, so that no query is without a key.
    """
    B, S = batch.source.shape
    T = batch.target.size(1)
    source = F.pad(batch.source, (0, width - S, 0, rows - B), value=PAD)  # (rows, width)
    target = F.pad(batch.target, (0, width + 1 - T, 0, rows - B), value=PAD)  # (rows, width + 1)
    source[B:, 0], target[B:, 0] = EOS, BOS
    return Batch(source, target)
