"""Checks of the training loop: rates, gradients, modes, and the selected model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from nmtcheck.adapter import Adapter, IdPair, Updates
from nmtcheck.connect.broad import trained
from nmtcheck.measure.helpers import TOLERANCE, build, distance, nll, pairs, silence, still
from nmtcheck.measure.tape import Run, recording
from nmtcheck.registry import Finding, check

NO_CLIP = 1e6  # a gradient norm that is never reached


class Step(NamedTuple):
    """One step of the optimizer as it was about to be made."""

    gradient: Tensor  # all gradients as one vector
    rate: float


@contextmanager
def recorded(model: nn.Module) -> Iterator[list[Step]]:
    """Record every step made on `model` while the block runs, whichever optimizer makes it."""
    steps: list[Step] = []
    own = [p for p in model.parameters() if p.requires_grad]

    def record(optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
        given = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if any(id(p) in given for p in own):
            gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in own]
            vector = torch.cat([x.detach().flatten() for x in gradients])
            steps.append(Step(vector, float(optimizer.param_groups[0]["lr"])))

    with register_optimizer_step_pre_hook(record):
        yield steps


def train(adapter: Adapter, model: nn.Module, updates: Updates) -> list[Step]:
    """Run the adapter's loop, and find as many steps as there are updates."""
    with still(), recorded(model) as steps:
        adapter.train(model, updates, NO_CLIP)
    if len(steps) != len(updates):
        given = f"{len(updates)} updates of {len(updates[0])} micro-batches"
        cause = "The optimizer must step once for each update."
        if len(steps) == sum(map(len, updates)):
            cause = "The optimizer steps after every micro-batch."
        raise Finding(f"{given} made {len(steps)} optimizer steps", cause)
    return steps


def quiet(adapter: Adapter, seed: int) -> nn.Module:
    """A model without dropout, so that its gradients can be compared."""
    return silence(build(adapter, seed))


def first_gradient(adapter: Adapter, seed: int, update: list, draw: int = 0) -> Tensor:
    """The gradient of one update of a new model; `draw` is added to the seed of what is random."""
    model = quiet(adapter, seed)
    torch.manual_seed(seed + draw)
    return train(adapter, model, [update])[0].gradient


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


@check("training.schedule_per_update", "make_model", "train", "schedule")
def schedule_per_update(adapter: Adapter, seed: int) -> str:
    """The schedule advances once for each update, however many micro-batches it has."""
    update = micro_batches(adapter, seed)
    rates = [step.rate for step in train(adapter, build(adapter, seed), [update] * 4)]
    expected = [float(adapter.schedule(number)) for number in range(1, 5)]
    shown, wanted = (", ".join(f"{r:.3g}" for r in side[:4]) for side in (rates, expected))
    if not all(math.isclose(*pair, rel_tol=1e-4) for pair in zip(rates, expected, strict=True)):
        raise Finding(f"four updates had the rates {shown}; expected {wanted}")
    return f"four updates of two micro-batches had the rates {shown}"


@check("training.accumulation", "make_model", "train")
def accumulation(adapter: Adapter, seed: int) -> str:
    """Accumulated micro-batches give the same gradient as one large batch."""
    first, second = micro_batches(adapter, seed)
    together, again = (first_gradient(adapter, seed, [first + second], draw) for draw in (0, 1))
    if distance(again, together) > TOLERANCE / 10:
        raise NotImplementedError("one update has two different gradients: something is random")
    apart = first_gradient(adapter, seed, [first, second])
    if not together.any():
        cause = "Gradients are cleared between backward and step."
        raise Finding("the gradient of an update is zero", cause)
    if distance(apart, together) > TOLERANCE:
        size = float(apart.norm() / together.norm())
        message = f"the gradient of two micro-batches has {size:.2f} times the norm of one batch's"
        raise Finding(message)
    norm = float(together.norm())
    return f"two micro-batches and one batch have the same gradient, of norm {norm:.2f}"


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
