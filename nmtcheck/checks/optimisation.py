"""Checks of the training loop: rates, gradients, modes, and the selected model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.optimizer import register_optimizer_step_pre_hook

from nmtcheck.adapter import Adapter, IdPair, Updates
from nmtcheck.connect.broad import batch_of, trained
from nmtcheck.connect.standins import Loader
from nmtcheck.measure.helpers import (
    TOLERANCE,
    build,
    distance,
    logits,
    nll,
    pairs,
    prepare,
    silence,
    still,
)
from nmtcheck.registry import Finding, check

NO_CLIP = 1e6  # a gradient norm that is never reached


@dataclass
class Step:
    """One step of the optimizer as it was about to be made."""

    gradient: Tensor  # all gradients as one vector
    weights: Tensor  # all weights as one vector
    rate: float
    training: bool  # whether the model was in train mode


@contextmanager
def recorded(model: nn.Module) -> Iterator[list[Step]]:
    """Record every step made on `model` while the block runs, whichever optimizer makes it."""
    steps: list[Step] = []
    own = [p for p in model.parameters() if p.requires_grad]

    def record(optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
        given = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if any(id(p) in given for p in own):
            gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in own]
            vectors = (torch.cat([x.detach().flatten() for x in xs]) for xs in (gradients, own))
            steps.append(Step(*vectors, float(optimizer.param_groups[0]["lr"]), model.training))

    handle = register_optimizer_step_pre_hook(record)
    try:
        yield steps
    finally:
        handle.remove()


def train(
    adapter: Adapter, model: nn.Module, updates: Updates, clip: float = NO_CLIP
) -> list[Step]:
    """Run the adapter's loop, and find as many steps as there are updates."""
    with still(), recorded(model) as steps:
        if adapter.train is not None:
            adapter.train(model, updates, clip)
        else:
            adapter.epoch(model, Loader(batch_of(adapter, each[0]) for each in updates), True)
    if len(steps) < len(updates) and adapter.train is None:
        raise NotImplementedError("the loop accumulates batches, or steps on a different model")
    if len(steps) != len(updates):
        given = f"{len(updates)} updates of {len(updates[0])} micro-batches"
        cause = "The optimizer must step once for each update."
        if len(steps) == sum(map(len, updates)):
            cause = "The optimizer steps after every micro-batch."
        raise Finding(f"{given} made {len(steps)} optimizer steps", possible=cause)
    return steps


def quiet(adapter: Adapter, seed: int) -> nn.Module:
    """A model without dropout, so that its gradients can be compared."""
    return silence(build(adapter, seed))


def first_gradient(adapter: Adapter, seed: int, update: list, clip: float = NO_CLIP) -> Tensor:
    """The gradient of one update of a new model."""
    return train(adapter, quiet(adapter, seed), [update], clip)[0].gradient


def certain_gradient(adapter: Adapter, seed: int, update: list) -> Tensor:
    """The gradient, computed twice: if the results differ, nothing can be measured."""
    found, model = first_gradient(adapter, seed, update), quiet(adapter, seed)
    torch.manual_seed(seed + 1)
    again = train(adapter, model, [update])[0].gradient
    if distance(again, found) > TOLERANCE / 10:
        raise NotImplementedError("one update has two different gradients: something is random")
    return found


def micro_batches(adapter: Adapter, seed: int) -> list[list[IdPair]]:
    """Two micro-batches with very different numbers of tokens."""
    return [pairs(adapter, seed, [(5, 7), (4, 8)]), pairs(adapter, seed + 1, [(2, 1), (1, 1)])]


@check("schedule.first_rate", "schedule")
def first_rate(adapter: Adapter, seed: int) -> str:
    """The learning rate is a positive number from the first update on."""
    try:
        rates = [float(adapter.schedule(update)) for update in range(1, 21)]
    except ZeroDivisionError:
        raise Finding("the schedule divides by zero within the first 20 updates") from None
    for update, rate in enumerate(rates, start=1):
        if not (math.isfinite(rate) and rate > 0):
            raise Finding(f"update {update} has the rate {rate}")
    return f"update 1 has the rate {rates[0]:.2g}, update 20 {rates[-1]:.2g}"


@check("schedule.shape", "schedule")
def shape(adapter: Adapter, seed: int) -> str:
    """The rate rises to one peak, and falls from there."""
    updates = [1, 2, 3, *range(4, 400), *range(400, 5001, 100)]
    rates = torch.tensor([float(adapter.schedule(n)) for n in updates], dtype=torch.float64)
    peak = int(rates.argmax())
    text = f"{rates[0]:.3g} at update 1, {rates[peak]:.3g} at {updates[peak]}"
    text += f", {rates[-1]:.3g} at {updates[-1]}"
    if not bool((rates > 0).all()) or peak in (0, len(updates) - 1):
        return text
    fall = math.log(float(rates[-1] / rates[-20])) / math.log(updates[-1] / updates[-20])
    linear = abs(float(rates[1] / rates[0]) - 2) < 1e-3
    if not linear or abs(fall + 0.5) > 1e-2:
        return text
    # n s before the peak and c / sqrt(n) after it: they meet at a whole number of updates.
    meet = (float(rates[-1]) * math.sqrt(updates[-1]) / float(rates[0])) ** (2 / 3)
    if abs(meet - round(meet)) > 1e-2 and meet < 100:
        cause = f"The exponent of the warm-up is -0.5, not -1.5: {meet**3:.0f} updates are meant."
        raise Finding(f"rise and fall meet at update {meet:.2f}, no whole number", cause)
    return f"{text}: rises evenly, falls as n^-0.5"


@check("training.schedule_per_update", "make_model", "train", "schedule")
def schedule_per_update(adapter: Adapter, seed: int) -> str:
    """The schedule advances once for each update, however many micro-batches it has."""
    update = micro_batches(adapter, seed)
    rates = [step.rate for step in train(adapter, build(adapter, seed), [update] * 4)]
    expected = [float(adapter.schedule(number)) for number in range(1, 9)]
    shown, wanted = (", ".join(f"{r:.3g}" for r in side[:4]) for side in (rates, expected))

    def equal(found: list[float], these: list[float]) -> bool:
        return all(math.isclose(a, b, rel_tol=1e-4) for a, b in zip(found, these, strict=True))

    if not equal(rates, expected[:4]):
        causes = {
            "The schedule is stepped for every micro-batch.": equal(rates[:2], expected[1:4:2])
            or equal(rates[:3], expected[:5:2]),
            "The rate never changes: the schedule does not reach the optimizer.": equal(
                rates[1:], rates[:3]
            ),
            "The schedule is one update early.": equal(rates, expected[1:5]),
            "The schedule is one update late.": equal(rates[1:], expected[:3]),
        }
        cause = next((text for text, so in causes.items() if so), "")
        raise Finding(f"four updates had the rates {shown}; expected {wanted}", possible=cause)
    return f"four updates of two micro-batches had the rates {shown}"


@check("training.accumulation", "make_model", "train")
def accumulation(adapter: Adapter, seed: int) -> str:
    """Accumulated micro-batches give the same gradient as one large batch."""
    first, second = micro_batches(adapter, seed)
    together = certain_gradient(adapter, seed, [first + second])
    apart = first_gradient(adapter, seed, [first, second])
    if not together.any():
        cause = "Gradients are cleared between backward and step."
        raise Finding("the gradient of an update is zero", possible=cause)
    if distance(apart, together) > TOLERANCE:
        alone = (first_gradient(adapter, seed, [part]) for part in (first, second))
        size = float(apart.norm() / together.norm())
        message = f"the gradient of two micro-batches has {size:.2f} times the norm of one batch's"
        raise Finding(message, possible=accumulation_cause(apart, together, *alone))
    norm = float(together.norm())
    return f"two micro-batches and one batch have the same gradient, of norm {norm:.2f}"


def accumulation_cause(apart: Tensor, together: Tensor, first: Tensor, second: Tensor) -> str:
    """How the gradient of two micro-batches came about, told by those of each alone."""
    added = "The gradients of micro-batches are added up and not divided."
    means = "Short micro-batches weigh more: the mean of means is not the mean over the tokens."
    directions = {
        "Only the first micro-batch counts: the step follows it directly (a counter that starts "
        "at 0?), or only it calls backward.": first,
        "Only the last micro-batch counts: gradients are cleared before each of them.": second,
        added if apart.norm() > 0.75 * (first + second).norm() else means: first + second,
        "Each token has the same weight, but the sum is divided by the wrong number.": together,
    }
    likeness = {text: F.cosine_similarity(apart, g, dim=0) for text, g in directions.items()}
    best = max(likeness, key=lambda text: likeness[text])
    return best if likeness[best] > 0.999 else ""


@check("training.gradients_cleared", "make_model", "train|epoch")
def gradients_cleared(adapter: Adapter, seed: int) -> str:
    """Every update starts without gradients."""
    update = micro_batches(adapter, seed)[: 2 if adapter.train else 1]
    certain_gradient(adapter, seed, update)
    first, second = train(adapter, quiet(adapter, seed), [update, update])
    fresh = quiet(adapter, seed)
    own = [p for p in fresh.parameters() if p.requires_grad]
    nn.utils.vector_to_parameters(second.weights, own)
    again = train(adapter, fresh, [update])[0]
    left = second.gradient - again.gradient
    whole = F.cosine_similarity(left, first.gradient, dim=0).item() > 0.999
    part = "A micro-batch after the last step is left over: see training.accumulation."
    what = "the second gradient and a fresh one at the same weights"
    if distance(second.gradient, again.gradient) > TOLERANCE:
        cause = "zero_grad is not called between updates." if whole else part
        raise Finding(f"{what} differ" + ", by the first gradient" * whole, possible=cause)
    return f"{what} agree"


@check("training.clipping", "make_model", "train")
def clipping(adapter: Adapter, seed: int) -> str:
    """Gradients are clipped as one vector before the step."""
    update = micro_batches(adapter, seed)
    free = certain_gradient(adapter, seed, update)
    clipped = first_gradient(adapter, seed, update, clip=0.01)
    before, after = float(free.norm()), float(clipped.norm())
    if not 0 < after < 0.0101:
        other = first_gradient(adapter, seed, [pairs(adapter, seed + 2, [(3, 9), (2, 6)])])
        if math.isclose(before, after, rel_tol=1e-3) and math.isclose(
            before, float(other.norm()), rel_tol=1e-3
        ):
            raise NotImplementedError(f"gradients have the norm {after:.3g} whatever `clip` is")
        raise Finding(f"with clip 0.01 the gradient has the norm {after:.3g}")
    cosine = float(F.cosine_similarity(free, clipped, dim=0))
    if cosine < 0.999:
        raise Finding(f"clipping turns the gradient: only {cosine:.3f} of its direction is kept")
    return f"norm {before:.2f} becomes {after:.3f}, in the same direction"


def heeds_mode(adapter: Adapter, seed: int) -> bool:
    """Whether two passes of the model in train mode differ, with the dropout that is asked for."""
    model, source, target = prepare(adapter, seed, dropout=0.5)
    passes = [logits(adapter, model.train(), source, target) for _ in range(2)]
    return distance(*passes) > TOLERANCE


@check("training.train_mode", "make_model", "fit|epoch")
def train_mode(adapter: Adapter, seed: int) -> str:
    """Every update is made in train mode."""
    model, training = build(adapter, seed), pairs(adapter, seed, [(4, 4)] * 12)
    with recorded(model) as steps:
        kept = trained(adapter, model, training, pairs(adapter, seed + 1, [(4, 4)] * 4), 3)
    if not steps and kept is not model:
        raise NotImplementedError("`fit` trains a different model than the given one")
    if not steps:
        raise Finding("three epochs made no optimizer step on the given model")
    for number, step in enumerate(steps, start=1):
        if not step.training:
            if not heeds_mode(adapter, seed):
                raise NotImplementedError("the model is the same in both modes")
            raise Finding(f"update {number} of {len(steps)} was made in eval mode")
    return f"all {len(steps)} updates of three epochs were made in train mode"


@check("training.best_kept", "make_model", "fit")
def best_kept(adapter: Adapter, seed: int) -> str:
    # In validation the same sources have other targets: what is learned by heart is wrong there.
    """The selected model is the one with the best validation result."""
    training = pairs(adapter, seed, [(4, 3)] * 16 + [(3, 4)] * 8)
    others = pairs(adapter, seed + 1, [(4, 3)] * 24)
    validation = [(a[0], b[1]) for a, b in zip(training[::2], others[::2], strict=True)]
    for epochs in (8, 24):
        model = build(adapter, seed, noise=0.0)
        kept, history = adapter.fit(model, training, validation, epochs)
        best, last = min(history), history[-1]
        if last > 1.05 * best:
            break
    else:
        raise NotImplementedError(f"validation never got worse in {epochs} epochs: undecided")
    measured = adapter.validate or (lambda *given: math.exp(nll(adapter, *given)))
    found = float(measured(kept, validation))
    epochs_said = f"best epoch {best:.2f}, last {last:.2f}"
    if found > best * 1.01:
        if not any(math.isclose(found, each, rel_tol=0.01) for each in history):
            raise NotImplementedError("the history contains a measure other than perplexity")
        raise Finding(f"the selected model has perplexity {found:.2f}; {epochs_said}")
    return f"selected: perplexity {found:.2f}; {epochs_said}"
