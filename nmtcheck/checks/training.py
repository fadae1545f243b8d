"""Checks of what an update learns, read at the logits: which labels, how much, divided by what."""

from __future__ import annotations

import math

import torch

from nmtcheck.adapter import Adapter, IdPair
from nmtcheck.checks.optimisation import NO_CLIP, quiet
from nmtcheck.connect.broad import trained
from nmtcheck.measure.helpers import build, nll, pairs, silence
from nmtcheck.measure.labels import EXACT, Rows
from nmtcheck.measure.tape import Run, recording
from nmtcheck.registry import Finding, check

ON_PURPOSE = "some toolkits do so on purpose"
UNREAD = "the loss could not be read: it is no cross-entropy of logits that torch sees"
PADDED = "The sum is divided by the number of positions, PAD included."


def uneven_pairs(adapter: Adapter, seed: int) -> list[IdPair]:
    """Two pairs of different lengths."""
    return pairs(adapter, seed, [(5, 6), (4, 2)])


def seen_of(adapter: Adapter, seed: int, examples: list[IdPair], epochs: int = 1) -> Run:
    """What is seen of a run on these pairs, by whichever loop the adapter has."""
    model = quiet(adapter, seed)
    with recording() as run:
        if adapter.train is not None:
            adapter.train(model, [[examples[:3], examples[:3]]], NO_CLIP)
        else:
            trained(adapter, model, examples, examples[:2], epochs)
    return run


def first_update(adapter: Adapter, seed: int) -> list[Rows]:
    """The passes of the first update of a run.  NotImplementedError where they cannot be read."""
    seen = seen_of(adapter, seed, uneven_pairs(adapter, seed) * 6)
    if not seen.updates:
        raise NotImplementedError("no optimizer step on the given model was seen")
    passes = seen.updates[0].passes
    rows = [each.rows for each in passes if each.rows is not None and each.rows.off <= EXACT]
    if not rows or len(rows) < len(passes):
        raise NotImplementedError(UNREAD)
    return rows


@check("training.scale", "make_model", "train|fit|epoch")
def scale(adapter: Adapter, seed: int) -> str:
    """Before clipping, the gradient of an update is that of the mean loss over its tokens."""
    passes = first_update(adapter, seed)
    weights = torch.cat([rows.weight for rows in passes])
    tokens, positions = len(weights), sum(math.prod(rows.shape) for rows in passes)
    total, divisor = float(weights.sum()), len(weights) / float(weights.sum())
    summed = f"the gradients of {tokens} tokens are summed and divided by {divisor:.3g}"
    if near(total, 1):
        return within_sentences(passes) or f"{summed}, their number"
    if near(divisor, positions):
        raise Finding(f"{summed}, expected {tokens}", PADDED)
    sentences = sum(int((rows.label == adapter.eos).sum()) for rows in passes)
    for value, purpose in ((1, "by nothing"), (sentences, "the number of sentences")):
        if near(divisor, value):
            reason = f"{summed}, {purpose}: {ON_PURPOSE}"
            raise NotImplementedError(f"{reason}, and adapt rate and clipping")
    power = math.log2(total) if total > 0 else 0.0
    if power > 6 and abs(power - round(power)) < 0.02:
        raise NotImplementedError(f"{summed}: the loss is scaled, as for half precision")
    raise Finding(f"{summed}, expected {tokens}")


def near(value: float, expected: float) -> bool:
    """Whether two numbers agree within 2 %."""
    return abs(value / expected - 1) < 0.02


def within_sentences(passes: list[Rows]) -> str:
    """'' if all tokens of a batch weigh alike; a Finding, or what batches weigh, where not."""
    for rows in passes:
        least, most = float(rows.weight.min()), float(rows.weight.max())
        if not near(most, least):
            message = f"within one batch a token weighs {least:.3g} to {most:.3g}"
            cause = "Means of sentences are averaged: tokens of short sentences weigh more."
            raise Finding(message, possible=cause)
    means = {round(float(rows.weight.mean()), 5) for rows in passes}
    return f"means of {len(passes)} batches of unequal size are averaged" * (len(means) > 1)


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
            raise Finding(
                f"{after} come {len(one.left)} more backward passes, and no step uses them"
            )
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
