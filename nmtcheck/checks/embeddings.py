"""Checks of the embedding and the positions as parts of their own."""

from __future__ import annotations

import torch

from nmtcheck.adapter import Adapter
from nmtcheck.checks.anatomy import OFF, rotates
from nmtcheck.measure.helpers import close, of_the_part, tensor
from nmtcheck.registry import Finding, check


@check("embedding.scale", "embedding", "scaled_embedding")
def embedding_scale(adapter: Adapter, seed: int) -> str:
    """Embeddings are multiplied by the root of d_model."""
    module, ids = adapter.embedding(11, 36).eval(), torch.arange(4, 11)[None]
    tables = [p for p in module.parameters() if tuple(p.shape) == (11, 36)]
    if len(tables) != 1:
        raise Finding(f"the embedding holds {len(tables)} tables of the shape (11, 36), expected 1")
    rows = tables[0][ids]
    found = tensor(module(ids), "the result of the embedding", (1, 7, 36))
    factor = float(((found * rows).sum() / (rows * rows).sum()).detach())
    if abs(factor - 6) > 0.01:
        raise Finding(f"embeddings are multiplied by {factor:.3f}, expected sqrt(36) = 6")
    off = close(found, 6 * rows, "the embedding is not 6 times the row of its id")
    return f"row of the id, times {factor:.3f} (within {off:.0e})"


@check("embedding.pad_gradient", "embedding")
def pad_gradient(adapter: Adapter, seed: int) -> str:
    """The PAD row of the embedding gets no gradient."""
    if adapter.pad in (adapter.bos, adapter.eos):
        raise NotImplementedError("PAD has a second meaning, so its vector is trained")
    module = adapter.embedding(11, 8)
    module(torch.tensor([[5, 6, adapter.pad, adapter.pad]])).pow(2).sum().backward()
    table = next(p for p in module.parameters() if p.dim() == 2)
    if table.grad is None or not table.grad[5].any():
        cause = "The embedding is frozen or detached."
        raise Finding("the row of a word gets no gradient", cause)
    if table.grad[adapter.pad].any():
        most = table.grad[adapter.pad].abs().max()
        found = Finding(f"the PAD row gets a gradient of up to {most:.2g}, expected 0")
        raise of_the_part(adapter, found, "inside.padding")
    return "words get a gradient, PAD gets none"


@check("positions.shift_is_rotation", "positions", "fixed_positions")
def shift_is_rotation(adapter: Adapter, seed: int) -> str:
    """One rotation takes every position to the one a few steps on."""
    made, shape = adapter.positions(16, 60).eval(), (1, 60, 16)
    with torch.no_grad():  # what is added to zeros
        table = tensor(made(torch.zeros(shape)), "the sentence with its positions", shape)[0]
    off = rotates(table)
    if off > OFF:
        raise Finding(f"no linear map takes each position p to p + 7: the best is off by {off:.2f}")
    return f"one matrix takes each of 53 positions p to p + 7, within {off:.0e}"


@check("positions.follow_the_model", "positions")
def follow_the_model(adapter: Adapter, seed: int) -> str:
    """The position table moves with the model to a different dtype or device."""
    for dtype in (torch.bfloat16, torch.float64):
        made = adapter.positions(16, 60).eval()
        result = made.to(dtype)(torch.zeros(1, 4, 16, dtype=dtype))
        if result.dtype != dtype:
            raise Finding(f"after .to({dtype}) the module returns {result.dtype}")
    return "follows .to(bfloat16) and .to(float64), as it would follow .to(device)"
