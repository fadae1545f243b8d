"""Checks of the training loop: its rates, its gradients, its validation, and what it keeps."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from nmtlib.checks.adapter import Adapter
from nmtlib.checks.helpers import build, close, nll, pairs
from nmtlib.checks.registry import Finding, check

SCHEDULE = "08_label_smoothing_and_noam"
TRAINING = "09_training"
NO_CLIP = 1e6  # a gradient norm that is never reached


@dataclass
class Step:
    """One step of the optimizer as it was about to be made: the gradients and weights as vectors,
    rate, and mode.
    """

    gradient: Tensor
    weights: Tensor
    rate: float
    training: bool


@contextmanager
def recorded(model: nn.Module) -> Iterator[list[Step]]:
    """Record every optimizer step made on `model` while the block runs, whichever optimizer makes
    it.
    """
    steps: list[Step] = []
    own = [p for p in model.parameters() if p.requires_grad]

    def record(optimizer: torch.optim.Optimizer, args, kwargs) -> None:
        given = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if any(id(p) in given for p in own):
            gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in own]
            vectors = (
                torch.cat([x.detach().flatten() for x in xs]).clone() for xs in (gradients, own)
            )
            steps.append(Step(*vectors, float(optimizer.param_groups[0]["lr"]), model.training))

    handle = register_optimizer_step_pre_hook(record)
    try:
        yield steps
    finally:
        handle.remove()


def train(adapter: Adapter, model: nn.Module, updates, clip: float = NO_CLIP) -> list[Step]:
    """Run the adapter's loop, and find as many steps as there are updates."""
    with recorded(model) as steps:
        adapter.train(model, updates, clip)
    if len(steps) != len(updates):
        raise Finding(
            f"{len(updates)} updates of {len(updates[0])} micro-batches made {len(steps)} optimizer steps",
            "The optimizer must step once for each update.",
        )
    return steps


def micro_batches(adapter: Adapter, seed: int) -> list[list]:
    """Two micro-batches with very different numbers of tokens."""
    return [pairs(adapter, seed, [(5, 7), (4, 8)]), pairs(adapter, seed + 1, [(2, 1), (1, 1)])]


@check(
    "schedule.first_rate",
    cause="The warm-up counts from 0: the first rate is zero, or divides by zero.",
    notebook=SCHEDULE,
    needs=("schedule",),
)
def first_rate(adapter: Adapter, seed: int) -> str:
    """The learning rate is a positive number from the first update on."""
    try:
        rates = [float(adapter.schedule(update)) for update in range(1, 21)]
    except ZeroDivisionError:
        raise Finding("the schedule divides by zero within the first 20 updates") from None
    wrong = [n for n, rate in enumerate(rates, start=1) if not (math.isfinite(rate) and rate > 0)]
    if wrong:
        raise Finding(f"update {wrong[0]} has the rate {rates[wrong[0] - 1]}")
    return f"update 1 has the rate {rates[0]:.2g}, update 20 {rates[-1]:.2g}"


@check(
    "training.schedule_per_update",
    cause="It is stepped for every micro-batch, or starts at 0, or its rate never "
    "reaches the optimizer.",
    notebook=TRAINING,
    needs=("make_model", "train", "schedule"),
)
def schedule_per_update(adapter: Adapter, seed: int) -> str:
    """The schedule advances once for each update, whatever it is made of."""
    update = micro_batches(adapter, seed)
    rates = [step.rate for step in train(adapter, build(adapter, seed), [update] * 4)]
    expected = [float(adapter.schedule(number)) for number in range(1, 5)]
    if not all(math.isclose(a, b, rel_tol=1e-4) for a, b in zip(rates, expected, strict=True)):
        shown = ", ".join(f"{rate:.3g}" for rate in rates)
        skipping = math.isclose(rates[1], float(adapter.schedule(4)), rel_tol=1e-4)
        raise Finding(
            f"four updates had the rates {shown}; expected {', '.join(f'{r:.3g}' for r in expected)}",
            "The schedule is stepped for every micro-batch." if skipping else "",
        )
    return f"four updates of two micro-batches had the rates {', '.join(f'{rate:.3g}' for rate in rates)}"


@check(
    "training.accumulation",
    cause="Each micro-batch is averaged by itself: sum first, then divide by the tokens "
    "of all of them.",
    notebook=TRAINING,
    needs=("make_model", "train"),
)
def accumulation(adapter: Adapter, seed: int) -> str:
    """Accumulated micro-batches make the same gradient as one large batch."""
    first, second = micro_batches(adapter, seed)
    together, apart = (
        train(adapter, build(adapter, seed), [update])[0].gradient
        for update in ([first + second], [first, second])
    )
    if not together.any():
        raise Finding(
            "the gradient of an update is zero", "Gradients are cleared between backward and step."
        )
    size = float(apart.norm() / together.norm())
    close(
        apart,
        together,
        f"the gradient of two micro-batches has {size:.2f} times the norm of that of one batch",
        "Accumulated gradients are not divided."
        if size > 1.4
        else "Short micro-batches weigh more: the mean of "
        "their means is not the mean over their tokens.",
    )
    return f"two micro-batches and one batch have the same gradient, of norm {float(together.norm()):.2f}"


@check(
    "training.gradients_cleared",
    cause="zero_grad is not called between updates.",
    notebook=TRAINING,
    needs=("make_model", "train"),
)
def gradients_cleared(adapter: Adapter, seed: int) -> str:
    """Every update starts from empty gradients."""
    model, update = build(adapter, seed), micro_batches(adapter, seed)
    second = train(adapter, model, [update, update])[1]
    fresh = build(adapter, seed)
    nn.utils.vector_to_parameters(
        second.weights, [p for p in fresh.parameters() if p.requires_grad]
    )
    again = train(adapter, fresh, [update])[0]
    off = close(
        second.gradient, again.gradient, "the second gradient and a fresh one at the same weights"
    )
    return f"the second gradient and a fresh one at the same weights agree within {off:.0e}"


@check(
    "training.clipping",
    cause="Clipping comes after the step, clips each value, or is missing.",
    notebook=TRAINING,
    needs=("make_model", "train"),
)
def clipping(adapter: Adapter, seed: int) -> str:
    """Gradients are clipped as one vector before the step."""
    update = micro_batches(adapter, seed)
    free = train(adapter, build(adapter, seed), [update])[0].gradient
    clipped = train(adapter, build(adapter, seed), [update], clip=0.01)[0].gradient
    if not 0 < float(clipped.norm()) < 0.0101:
        raise Finding(f"with clip 0.01 the gradient has the norm {float(clipped.norm()):.3g}")
    cosine = float(torch.nn.functional.cosine_similarity(free, clipped, dim=0))
    if cosine < 0.999:
        raise Finding(f"clipping turns the gradient: only {cosine:.3f} of its direction is kept")
    return (
        f"norm {float(free.norm()):.2f} becomes {float(clipped.norm()):.3f}, in the same direction"
    )


@check(
    "training.train_mode",
    cause="Validation leaves the model in eval mode: from the second epoch on there is no dropout.",
    notebook=TRAINING,
    needs=("make_model", "fit"),
)
def train_mode(adapter: Adapter, seed: int) -> str:
    """Every update is made in train mode."""
    model = build(adapter, seed)
    with recorded(model) as steps:
        adapter.fit(
            model, pairs(adapter, seed, [(4, 4)] * 12), pairs(adapter, seed + 1, [(4, 4)] * 4), 3
        )
    if not steps:
        raise Finding("three epochs made no optimizer step on the model that was given")
    if wrong := [n for n, step in enumerate(steps, start=1) if not step.training]:
        raise Finding(f"update {wrong[0]} of {len(steps)} was made in eval mode")
    return f"all {len(steps)} updates of three epochs were made in train mode"


@check(
    "training.best_kept",
    cause="The last weights are saved, when the model has already learned the training data "
    "by heart, or the best ones are not copied and go on changing.",
    notebook=TRAINING,
    needs=("make_model", "fit"),
)
def best_kept(adapter: Adapter, seed: int) -> str:
    # In validation the same sources have other targets: whatever is learned by heart is wrong
    # there.
    """The model that is kept is the one that validates best."""
    train_pairs = pairs(adapter, seed, [(4, 3)] * 16 + [(3, 4)] * 8)
    others = pairs(adapter, seed + 1, [(4, 3)] * 24)
    validation = [
        (source, target)
        for (source, _), (_, target) in zip(train_pairs[::2], others[::2], strict=True)
    ]
    for epochs in (8, 24):
        kept, history = adapter.fit(
            build(adapter, seed, noise=0.0), train_pairs, validation, epochs
        )
        found, best, last = math.exp(nll(adapter, kept, validation)), min(history), history[-1]
        if last > 1.05 * best:
            break
    else:
        raise NotImplementedError(
            f"validation never got worse in {len(history)} epochs, so nothing can be told"
        )
    if found > best * 1.01:
        raise Finding(
            f"the model kept has the validation perplexity {found:.2f}; the best epoch had {best:.2f}, the "
            f"last {last:.2f}"
        )
    return f"kept: perplexity {found:.2f}; best epoch {best:.2f}, last {last:.2f}"


@check(
    "validation.perplexity",
    cause="The smoothed training loss is reported, means of batches are averaged, PAD "
    "counts, or dropout is on.",
    notebook=TRAINING,
    needs=("make_model", "validate"),
)
def perplexity(adapter: Adapter, seed: int) -> str:
    """Perplexity is exp of the unsmoothed loss, a mean over all tokens."""
    model = build(adapter, seed)
    examples = pairs(adapter, seed, [(6, 9), (5, 8), (4, 8), (2, 1), (1, 1), (1, 2)])
    found, expected = (
        float(adapter.validate(model, examples)),
        math.exp(nll(adapter, model, examples)),
    )
    if not abs(found / expected - 1) < 1e-3:
        raise Finding(
            f"perplexity {found:.3f} is reported; exp of the mean negative log-likelihood is {expected:.3f}"
        )
    return f"{found:.2f}, exp of {math.log(expected):.3f} nats a token"


@check(
    "validation.eval_mode",
    cause="model.eval() is not called: dropout spoils the validation loss.",
    notebook=TRAINING,
    needs=("make_model", "validate"),
)
def eval_mode(adapter: Adapter, seed: int) -> str:
    """Validation is done in eval mode."""
    model, examples = (
        build(adapter, seed, dropout=0.5).train(),
        pairs(adapter, seed, [(4, 5), (3, 4)]),
    )
    found = [float(adapter.validate(model.train(), examples)) for _ in range(2)]
    expected = math.exp(nll(adapter, model, examples))
    if abs(found[0] / found[1] - 1) > 1e-3 or abs(found[0] / expected - 1) > 1e-3:
        raise Finding(
            f"with dropout 0.5 two validations give {found[0]:.2f} and {found[1]:.2f}; without dropout it is "
            f"{expected:.2f}"
        )
    return f"two validations of a model with dropout 0.5 give {found[0]:.2f}, as without dropout"


@check(
    "validation.trains_nothing",
    cause="backward() or step() is called in validation too; use torch.no_grad() there.",
    notebook=TRAINING,
    needs=("make_model", "validate"),
)
def trains_nothing(adapter: Adapter, seed: int) -> str:
    """Validation leaves weights and gradients alone."""
    model, examples = build(adapter, seed), pairs(adapter, seed, [(4, 5), (3, 4)])
    before = copy.deepcopy(model.state_dict())
    with recorded(model) as steps:
        adapter.validate(model, examples)
    if steps:
        raise Finding(f"validation made {len(steps)} optimizer steps")
    if changed := [
        name for name, value in model.state_dict().items() if not torch.equal(value, before[name])
    ]:
        raise Finding(f"validation changed {changed[0]!r}")
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    if left := [name for name, gradient in gradients.items() if gradient.any()]:
        raise Finding(
            f"validation leaves a gradient in {left[0]!r}, which the next update would add to its own"
        )
    return "no weight changed, no gradient left"
