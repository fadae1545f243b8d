"""Checks of the training loop, on small batches."""

from __future__ import annotations

import torch
from torch import nn

from nmtcheck.adapter import Adapter
from nmtcheck.connect.loops import train
from nmtcheck.measure.helpers import build, pairs, silence
from nmtcheck.measure.tape import Run, recording
from nmtcheck.registry import Finding, check


def quiet(adapter: Adapter, seed: int) -> nn.Module:
    """A model without dropout, so that its gradients can be compared."""
    return silence(build(adapter, seed))


@check("training.epoch_end", "make_model", "epoch")
def epoch_end(adapter: Adapter, seed: int) -> str:
    """Every backward pass of an epoch is used by an optimizer step."""
    counts = (12, 14, 20)  # six, seven and ten batches, where two pairs make one
    for count in counts:
        one = of_epochs(adapter, seed, count, 1)
        if one.left and not one.updates and not one.returned:
            raise Finding(f"{len(one.left)} backward passes change no parameter: no step is made")
        if not one.updates:
            raise NotImplementedError("one epoch made no step of an optimizer")
        if one.left:
            two = of_epochs(adapter, seed, count, 2)
            if len(two.updates) > 2 * len(one.updates):
                return "the last batches of an epoch are accumulated with the next epoch's first"
            after = f"after the last of {len(one.updates)} steps of an epoch"
            message = f"{after} come {len(one.left)} more backward passes, and no step uses them"
            raise Finding(message)
    return f"epochs of {', '.join(map(str, counts))} pairs leave no unused gradient"


def of_epochs(adapter: Adapter, seed: int, count: int, epochs: int) -> Run:
    """A run of some epochs on `count` pairs; it returned whether a parameter was changed."""
    model, examples = quiet(adapter, seed), pairs(adapter, seed, [(4, 4)] * count)
    before = [p.detach().clone() for p in model.parameters()]
    with recording() as run:
        train(adapter, model, examples, pairs(adapter, seed + 1, [(4, 4)] * 3), epochs)
    run.returned = not all(map(torch.equal, before, model.parameters()))
    return run
