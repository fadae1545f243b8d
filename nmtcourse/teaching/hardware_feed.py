"""What a GPU is fed, in counts that need no GPU: the rungs of the ladder in notebook 12."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple
from unittest import mock

import torch

from nmtcourse.recipes.losses import losses_in_blocks
from nmtcourse.teaching.cost import training_flops, training_memory
from nmtcourse.teaching.hardware_lab import ledger
from nmtcourse.teaching.hardware_steps import random_batch
from nmtlib.model.transformer import Transformer, TransformerConfig

LENGTH = 16  # tokens of a caption


@contextmanager
def loss_in_blocks(rows: int) -> Iterator[None]:
    """In this block the loss takes so many positions at a time."""
    with mock.patch("nmtcourse.recipes.losses.rows_at_once", lambda *_: rows):
        yield


def loss_starts(positions: int, rows: int) -> int:
    """Operations that the loss of so many positions starts, and its gradient."""
    logits = torch.zeros(positions, 8, requires_grad=True)
    labels = torch.full((positions,), 5)
    with loss_in_blocks(rows):
        return ledger(lambda: losses_in_blocks(logits, labels, 0.1)[0].backward()).started


class Starts(NamedTuple):
    """Operations that an update starts: in the model, forward and backward, and outside it."""

    model: int
    outside: int


def starts_of_update(config: TransformerConfig, tokens: int, rows: int) -> Starts:
    """Count an update on a batch of so many target tokens, the loss taken `rows` at a time.

    Widths change no count, so the model that is counted is as deep as `config` and very narrow.
    """
    narrow = {"d_model": 8, "n_heads": 2, "d_ff": 8}
    config = replace(config, source_vocab_size=50, target_vocab_size=50, **narrow)
    torch.manual_seed(0)
    model, batch = Transformer(config).train(), random_batch(tokens // LENGTH, LENGTH, config)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def forward() -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return model(batch.source, batch.decoder_input)

    def update() -> None:
        losses_in_blocks(forward(), batch.labels, 0.1)[0].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    def alone() -> None:
        logits = forward()
        logits.backward(logits.detach())
        model.zero_grad()

    with loss_in_blocks(rows):
        update()  # makes Adam's moments
        whole = ledger(update).started
    inside = ledger(alone).started
    return Starts(inside, whole - inside)


class Device(NamedTuple):
    """Seconds of a start, FLOP/s that a training achieves, bytes/s of the memory."""

    launch: float
    rate: float
    bandwidth: float


def seconds_of_update(
    config: TransformerConfig, tokens: int, started: int, device: Device
) -> dict[str, float]:
    """What an update on so many target tokens would take for each thing that it may wait for.

    The longest of the three is the least that it takes.  Of the memory it is taken that what is
    kept for backward is written and read once, and that Adam moves 28 bytes for each parameter.
    """
    sizes = (tokens // LENGTH, LENGTH, LENGTH)
    memory = training_memory(config, *sizes, precision=torch.bfloat16, device="cuda")
    moved = 2 * (memory.activations + memory.logits) + 28 * memory.weights / 4
    return {
        "starts": started * device.launch,
        "arithmetic": training_flops(config, *sizes) / device.rate,
        "memory": moved / device.bandwidth,
    }
