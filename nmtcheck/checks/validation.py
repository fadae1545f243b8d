"""Checks of validation: what it reports, in which mode, and what it changes."""

from __future__ import annotations

import copy

import torch

from nmtcheck.adapter import Adapter, IdPair
from nmtcheck.checks.training import quiet
from nmtcheck.connect.loops import batches_of, validate
from nmtcheck.measure.helpers import (
    TOLERANCE,
    build,
    distance,
    logits,
    pairs,
    prepare,
    silence,
)
from nmtcheck.measure.tape import recording
from nmtcheck.registry import Finding, check


def alike(*values: float) -> bool:
    """Whether perplexities agree within 0.1 %."""
    return max(values) - min(values) <= 1e-3 * abs(min(values))


@check("validation.eval_mode", "make_model", "epoch")
def eval_mode(adapter: Adapter, seed: int) -> str:
    """Validation is done in eval mode."""
    examples = pairs(adapter, seed, [(4, 5), (3, 4)])
    (model, source, target), still = prepare(adapter, seed, dropout=0.5), build(adapter, seed)
    still.load_state_dict(model.state_dict())
    silence(still)
    expected, again = (validate(adapter, still.eval(), examples) for _ in range(2))
    if not alike(expected, again):
        raise NotImplementedError("two validations differ even without dropout")
    first, second = (validate(adapter, model.train(), examples) for _ in range(2))
    if not alike(first, second, expected):
        said = f"with dropout 0.5 two validations give {first:.2f} and {second:.2f}"
        scaled = "Dropout must divide what it keeps by 1 - p, or eval mode differs in scale."
        cause = scaled if alike(first, second) else ""
        message = f"{said}; with dropout 0 the same weights give {expected:.2f}"
        raise Finding(message, cause)
    if distance(*(logits(adapter, model.train(), source, target) for _ in range(2))) < TOLERANCE:
        raise NotImplementedError("the model applies no dropout in train mode")
    return f"two validations of a model with dropout 0.5 give {first:.2f}, as with dropout 0"


@check("validation.trains_nothing", "make_model", "epoch")
def trains_nothing(adapter: Adapter, seed: int) -> str:
    """Validation does not change weights or gradients."""
    model, examples = build(adapter, seed), pairs(adapter, seed, [(4, 5), (3, 4)])
    before = copy.deepcopy(model.state_dict())
    with recording() as run:
        validate(adapter, model, examples)
    if run.updates:
        raise Finding(f"validation made {len(run.updates)} optimizer steps")
    for name, value in model.state_dict().items():
        if not torch.equal(value, before[name]):
            raise Finding(f"validation changed {name!r}")
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and parameter.grad.any():
            raise Finding(f"validation leaves a gradient in {name!r}: the next update would add it")
    return "no weight changed, no gradient left"


@check("validation.mean", "make_model", "epoch")
def mean(adapter: Adapter, seed: int) -> str:
    """The loss of an epoch weighs each token alike, in whichever batch it stands."""
    model, tokens = silence(build(adapter, seed)), [9, 8, 1, 1, 2, 1]
    examples = pairs(adapter, seed, [(6, n) for n in tokens])

    def reported(some: list[IdPair]) -> float:
        return float(adapter.epoch(model, batches_of(adapter, some), False))

    counts = [sum(tokens[n : n + 2]) + 2 for n in (0, 2, 4)]  # EOS included
    each = [reported(examples[n : n + 2]) for n in (0, 2, 4)]
    found = reported(examples)
    expected = sum(x * n for x, n in zip(each, counts, strict=True)) / sum(counts)
    if abs(found / expected - 1) > 1e-3:
        said = ", ".join(f"{x:.3f} ({n} tokens)" for x, n in zip(each, counts, strict=True))
        raise Finding(f"three batches have the losses {said}; together {found:.3f}")
    return f"{found:.3f}, the mean over the tokens of three batches"


@check("validation.padding", "make_model", "epoch")
def padding(adapter: Adapter, seed: int) -> str:
    """The validation loss of a sentence does not depend on its padding."""
    model = quiet(adapter, seed)

    def loss(*examples: IdPair) -> float:
        return validate(adapter, model, list(examples))

    for lengths, side in (([(9, 4), (2, 4)], "source"), ([(4, 9), (4, 1)], "target")):
        long, short = pairs(adapter, seed, lengths)
        apart, together = (loss(long), loss(short)), loss(long, short)
        sizes = [len(long[1]) + 1, len(short[1]) + 1]
        # A mean over tokens (BOS may be one of them) or over batches, or a sum: any will do.
        known = [sum(apart), sum(apart) / 2]
        for more in (-1, 0, 1):
            weights = [size + more for size in sizes]
            known.append((weights[0] * apart[0] + weights[1] * apart[1]) / sum(weights))
        if min(abs(together - value) for value in known) > 1e-3:
            told = f"{apart[0]:.3f} and {apart[1]:.3f} nats, but {together:.3f} together"
            raise Finding(f"two pairs whose {side}s differ in length have the losses {told}")
    return "two pairs have the same losses apart and padded to one length"
