"""Checks of validation: what it reports, in which mode, and what it changes."""

from __future__ import annotations

import copy
import math

import torch

from nmtcheck.adapter import Adapter
from nmtcheck.checks.optimisation import recorded
from nmtcheck.connect.broad import validated
from nmtcheck.measure.helpers import (
    TOLERANCE,
    build,
    distance,
    logits,
    nll,
    pairs,
    prepare,
    silence,
)
from nmtcheck.registry import Finding, check


def alike(*values: float) -> bool:
    """Whether perplexities agree within 0.1 %."""
    return max(values) - min(values) <= 1e-3 * abs(min(values))


@check("validation.perplexity", "make_model", "validate")
def perplexity(adapter: Adapter, seed: int) -> str:
    """Perplexity is exp of the unsmoothed loss, a mean over all tokens."""
    model = silence(build(adapter, seed))
    examples = pairs(adapter, seed, [(6, 9), (5, 8), (4, 8), (2, 1), (1, 1), (1, 2)])
    found, loss = validated(adapter, model, examples), nll(adapter, model, examples)
    if not alike(found, math.exp(loss)):
        each = [nll(adapter, model, [pair]) for pair in examples]
        causes = {
            "The loss is reported: perplexity is its exp.": loss,
            "The loss is in nats: perplexity is its exp, not a power of 2.": 2**loss,
            "The loss is averaged over sentences, not over tokens.": math.exp(sum(each) / 6),
            "Perplexities are averaged: take the mean of the loss, then exp.": sum(
                map(math.exp, each)
            )
            / 6,
        }
        cause = next((text for text, value in causes.items() if alike(found, value)), "")
        expected = f"exp of the mean negative log-likelihood is {math.exp(loss):.3f}"
        raise Finding(f"perplexity {found:.3f} is reported; {expected}", cause)
    return f"{found:.2f}, exp of {loss:.3f} nats a token"


@check("validation.eval_mode", "make_model", "validate|epoch")
def eval_mode(adapter: Adapter, seed: int) -> str:
    """Validation is done in eval mode."""
    examples = pairs(adapter, seed, [(4, 5), (3, 4)])
    (model, source, target), still = prepare(adapter, seed, dropout=0.5), build(adapter, seed)
    still.load_state_dict(model.state_dict())
    silence(still)
    expected, again = (validated(adapter, still.eval(), examples) for _ in range(2))
    if not alike(expected, again):
        raise NotImplementedError("two validations differ even without dropout")
    first, second = (validated(adapter, model.train(), examples) for _ in range(2))
    if not alike(first, second, expected):
        said = f"with dropout 0.5 two validations give {first:.2f} and {second:.2f}"
        scaled = "Dropout must divide what it keeps by 1 - p, or eval mode differs in scale."
        cause = scaled if alike(first, second) else ""
        raise Finding(f"{said}; with dropout 0 the same weights give {expected:.2f}", cause)
    if distance(*(logits(adapter, model.train(), source, target) for _ in range(2))) < TOLERANCE:
        raise NotImplementedError("the model applies no dropout in train mode")
    return f"two validations of a model with dropout 0.5 give {first:.2f}, as with dropout 0"


@check("validation.trains_nothing", "make_model", "validate|epoch")
def trains_nothing(adapter: Adapter, seed: int) -> str:
    """Validation does not change weights or gradients."""
    model, examples = build(adapter, seed), pairs(adapter, seed, [(4, 5), (3, 4)])
    before = copy.deepcopy(model.state_dict())
    with recorded(model) as steps:
        validated(adapter, model, examples)
    if steps:
        raise Finding(f"validation made {len(steps)} optimizer steps")
    for name, value in model.state_dict().items():
        if not torch.equal(value, before[name]):
            raise Finding(f"validation changed {name!r}")
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and parameter.grad.any():
            raise Finding(f"validation leaves a gradient in {name!r}: the next update would add it")
    return "no weight changed, no gradient left"
