"""Checks of the end of an epoch, and of the history."""

from __future__ import annotations

import math

import torch

from nmtcheck.adapter import Adapter
from nmtcheck.checks.optimisation import quiet
from nmtcheck.connect.broad import trained
from nmtcheck.measure.helpers import build, nll, pairs, silence
from nmtcheck.measure.tape import Run, recording
from nmtcheck.registry import Finding, check


@check("training.epoch_end", "make_model", "fit|epoch")
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
        trained(adapter, model, examples, pairs(adapter, seed + 1, [(4, 4)] * 3), epochs)
    run.returned = not all(map(torch.equal, before, model.parameters()))
    return run


@check("training.history", "make_model", "fit")
def history(adapter: Adapter, seed: int) -> str:
    """The history holds the validation perplexity of the model at that time."""
    model = silence(build(adapter, seed, noise=0.5))
    training, validation = (pairs(adapter, seed + n, [(4, 3)] * 8) for n in (0, 1))
    best, values = adapter.fit(model, training, validation, 1)
    if not values:
        raise Finding("one epoch leaves an empty history")
    value, loss = float(values[-1]), nll(adapter, best, validation)
    if any(abs(value / math.exp(nll(adapter, m, validation)) - 1) < 0.01 for m in (best, model)):
        return f"perplexity {value:.2f} after one epoch, that of the model that is kept"
    if abs(value / loss - 1) < 0.01:
        raise NotImplementedError(f"the history contains the loss ({loss:.2f} nats), no perplexity")
    raise Finding(f"the history says {value:.3f}; the model has {math.exp(loss):.3f}")
