"""Checks of validation: what it reports, in which mode, and what it changes."""

from __future__ import annotations

import copy
import math

import torch
from torch.nn import functional as F

from nmtcheck.adapter import Adapter, IdPair
from nmtcheck.checks.optimisation import quiet, recorded
from nmtcheck.connect.broad import batches_of, validated
from nmtcheck.connect.standins import Batch
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


# What is reported so is a fact and no mistake, as long as nobody compares it with other numbers.
MEANT = ("Means of batches", "The loss is smoothed")


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
        raise Finding(f"perplexity {found:.3f} is reported; {expected}", possible=cause)
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
        raise Finding(
            f"{said}; with dropout 0 the same weights give {expected:.2f}", possible=cause
        )
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


def reports(adapter: Adapter, model: torch.nn.Module, batches: list[Batch]) -> dict[str, float]:
    """What an epoch may report for its loss, by cause; the first is right."""
    sums, counts = list[dict[str, float]](), list[int]()
    for batch in batches:
        logp = logits(adapter, model, batch.source, batch.decoder_input).log_softmax(-1)
        whole = logits(adapter, model, batch.source, batch.target)
        real, size = batch.labels != adapter.pad, logp.size(-1)
        each = -logp.gather(-1, batch.labels[..., None])[..., 0]
        copied = F.cross_entropy(whole.flatten(0, 1), batch.target.flatten(), reduction="none")
        tables = {"": each, "even": -logp.mean(-1), "specials": -logp[..., adapter.pad]}
        sums.append({name: float(x[real].sum()) for name, x in tables.items()})
        sums[-1] |= {"PAD": float(each.mean()), "copied": float(copied.mean())}
        counts.append(int(real.sum()))
    total, number = sum(counts), len(batches)
    summed = {name: sum(each[name] for each in sums) for name in sums[0]}
    mean = {name: value / total for name, value in summed.items()}
    apart = {n: sum(s[n] / c for s, c in zip(sums, counts, strict=True)) / number for n in mean}
    found = {
        "": mean[""],
        "Means of batches are averaged; short batches weigh more: sum first.": apart[""],
        "The losses of the batches are added up and never divided.": apart[""] * number,
        "PAD counts as a word: without ignore_index the loss is too low.": summed["PAD"] / number,
        "The labels are not shifted: they are what the decoder reads.": summed["copied"] / number,
        "The sum over all tokens is never divided by their number.": summed[""],
        "The sum over tokens is divided by the number of batches.": summed[""] / number,
        "The sum over tokens is divided by the number of sentences.": summed[""]
        / sum(len(batch.source) for batch in batches),
    }
    for share in (0.05, 0.1, 0.2):
        text = f"The loss is smoothed by {share}: report the one without smoothing, too."
        for kind, how in ((mean, ""), (apart, " (the mean of the batches)")):
            found[text + how] = (1 - share) * kind[""] + share * kind["even"]
            others = size * kind["even"] - kind["specials"] - kind[""]
            spread = (1 - share) * kind[""] + share * others / (size - 2)
            found[f"{text} (PAD gets no share){how}"] = spread
            entropy = (1 - share) * math.log(1 - share) + share * math.log(share / (size - 2))
            found[f"{text} (a divergence){how}"] = spread + entropy
    return found


@check("validation.mean", "make_model", "epoch")
def mean(adapter: Adapter, seed: int) -> str:
    """The loss of an epoch is the mean negative log-likelihood of all its tokens."""
    examples = pairs(adapter, seed, [(6, 9), (5, 8), (2, 1), (1, 1), (1, 2), (3, 1)])
    model, batches = build(adapter, seed), batches_of(adapter, examples)
    found = float(adapter.epoch(model, batches, False))
    known = reports(adapter, model.eval(), batches)
    right, value = known[""], f"{found:.3f} nats"
    if abs(found / right - 1) < 1e-3:
        return f"{value}, the mean over the tokens of {len(batches)} batches"
    cause = min(known, key=lambda cause: abs(found / known[cause] - 1))
    if abs(found / known[cause] - 1) < 1e-3:
        if cause.startswith(MEANT):
            raise NotImplementedError(f"the reported loss is {found:.3f}, not {right:.3f}: {cause}")
        raise Finding(
            f"the reported loss is {found:.3f}; over all tokens {right:.3f}", possible=cause
        )
    raise NotImplementedError(f"{value} is no mean of {right:.3f} nats that is known")


@check("validation.padding", "make_model", "validate|epoch")
def padding(adapter: Adapter, seed: int) -> str:
    """The validation loss of a sentence does not depend on its padding."""
    model = quiet(adapter, seed)

    def loss(*examples: IdPair) -> float:
        found = validated(adapter, model, list(examples))
        return math.log(max(found, 1e-9)) if adapter.validate else found

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
