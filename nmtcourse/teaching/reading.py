"""A task for heads: at each position, find the words at given offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional as F

MEAN_OF = 20  # steps whose accuracies give one number


def learn_to_read(
    make: Callable[[int], nn.Module],
    offsets: Sequence[int],
    seed: int = 0,
    steps: int = 300,
    words: int = 24,
    length: int = 10,
    d_model: int = 16,
) -> list[float]:
    """Train the attention `make(d_model)` to fetch the words at these offsets: its accuracies.

    Sentences are random words.  Queries know only their position; keys and values hold words and
    positions; a linear layer reads the words off what attention brings.  Each number is the mean
    accuracy of 20 steps.
    """
    torch.manual_seed(seed)
    embedding, positions = nn.Embedding(words, d_model), nn.Embedding(length, d_model)
    attention, read = make(d_model), nn.Linear(d_model, len(offsets) * words)
    parts = nn.ModuleList([embedding, positions, attention, read])
    optimizer = torch.optim.Adam(parts.parameters(), lr=3e-3)
    history, edge = [], max(map(abs, offsets))  # at the edges a neighbour is missing
    for _ in range(steps):
        ids = torch.randint(words, (64, length))  # (B, S)
        x = embedding(ids) + positions.weight  # (B, S, D)
        output = attention(positions.weight.expand(64, -1, -1), x, x)  # (B, S, D)
        logits = read(output[:, edge : length - edge]).unflatten(-1, (len(offsets), words))
        targets = [ids[:, edge + offset : length - edge + offset] for offset in offsets]
        labels = torch.stack(targets, dim=-1)  # (B, inner positions, offsets)
        loss = F.cross_entropy(logits.flatten(0, 2), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append((logits.argmax(dim=-1) == labels).float().mean().item())
    return [sum(history[i : i + MEAN_OF]) / MEAN_OF for i in range(0, steps, MEAN_OF)]
