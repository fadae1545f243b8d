"""Checks of the gradients that an optimizer gets, before Adam and clipping hide their scale."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from nmtcheck.adapter import Adapter, IdPair
from nmtcheck.checks.optimisation import NO_CLIP, quiet
from nmtcheck.connect.broad import trained, validated
from nmtcheck.measure.helpers import batch, build, logits, nll, pairs, silence, still
from nmtcheck.measure.spying import Backwards, Watched, watch_calls, watch_gradients
from nmtcheck.registry import Finding, check


def first_update(adapter: Adapter, model: nn.Module, pair: IdPair) -> tuple[Backwards, int]:
    """The first update of a training on one pair, repeated, and the rows of its backward passes.

    All batches are alike then, however the loop makes them.
    """
    with still(), watch_calls() as calls, watch_gradients(model) as seen:
        if adapter.train is not None:
            adapter.train(model, [[[pair] * 3, [pair] * 3]], NO_CLIP)
        else:
            trained(adapter, model, [pair] * 24, [pair] * 2, 1)
    if not seen.steps or not seen.steps[0].gradient.any():
        raise NotImplementedError("no optimizer step with gradients of this model was seen")
    rows = (
        sum([i for i in row if i in pair[0]] == pair[0] for row in call.rows()) for call in calls
    )
    return seen.steps[0], next(filter(None, rows), 0)


def unlike_words(adapter: Adapter) -> IdPair:
    """A pair whose source holds no word twice, so that it is found again in a batch."""
    first = adapter.first_word
    return [first + 6, first + 3, first + 5, first + 4], [first + i for i in (1, 3, 0, 2, 3)]


def mean_loss_gradients(adapter: Adapter, model: nn.Module, pair: IdPair) -> Tensor:
    """The gradients (N, 3) of the mean over the labels of three losses.

    They are the negative log-likelihood, that of words drawn at random, and that of PAD: every kind
    of label smoothing is a mean of them.
    """
    source, target, labels = batch(adapter, [pair])
    logp = logits(adapter, model.train(), source, target, grad=True).log_softmax(-1)  # (1, T, V)
    said = -logp.gather(-1, labels[..., None]).mean()
    losses = said, -logp.mean(), -logp[..., adapter.pad].mean()
    own = [p for p in model.parameters() if p.requires_grad]
    columns = []
    for loss in losses:
        found = torch.autograd.grad(loss, own, retain_graph=True, allow_unused=True)
        parts = [torch.zeros_like(p) if g is None else g for g, p in zip(found, own, strict=True)]
        columns.append(torch.cat([part.flatten() for part in parts]))
    return torch.stack(columns, dim=1).double()


@check("training.scale", "make_model", "train|fit|epoch")
def scale(adapter: Adapter, seed: int) -> str:
    """Before clipping, the gradient of an update is that of the mean loss over its tokens."""
    pair, model = unlike_words(adapter), quiet(adapter, seed)
    untouched = copy.deepcopy(model)
    update, rows = first_update(adapter, model, pair)
    with still():
        columns = mean_loss_gradients(adapter, untouched, pair)
    gradient = update.gradient.double()[:, None]
    shares = torch.linalg.lstsq(columns, gradient, driver="gelsd").solution  # (3, 1)
    off = float((columns @ shares - gradient).norm() / gradient.norm())
    if off > 0.02 or not rows:
        raise NotImplementedError(
            "the loss has other terms, or dropout that cannot be switched off"
        )
    labels = len(pair[1]) + 1
    tokens = labels * rows * update.passes
    divisor = tokens / float(shares.sum())
    return judge(divisor, tokens, labels, update.passes)


def judge(divisor: float, tokens: int, labels: int, passes: int) -> str:
    """The verdict on what the sum over `tokens` tokens, `labels` to a sentence, is divided by."""

    def near(value: float) -> bool:
        return abs(divisor / value - 1) < 0.02

    summed = f"the gradients of {tokens} tokens are summed and divided by {divisor:.3g}"
    if near(tokens):
        return f"{summed}, their number"
    sentences = tokens // labels
    purposes = {
        1: "by nothing: some toolkits do so on purpose and adapt rate and clipping",
        sentences: "the number of sentences: some toolkits do so on purpose",
    }
    for value, purpose in purposes.items():
        if near(value):
            raise NotImplementedError(f"{summed}, {purpose}")
    power = math.log2(tokens / divisor) if divisor > 0 else 0.0
    if power > 6 and abs(power - round(power)) < 0.02:
        raise NotImplementedError(f"{summed}: the loss is scaled, as for half precision")
    cause = ""
    if passes > 1 and near(tokens / passes):
        cause = (
            f"The means of {passes} accumulated batches are added and never divided by {passes}."
        )
    elif passes > 1 and near(tokens * passes):
        cause = (
            "The loss is a mean over all tokens and is divided by the number of batches as well."
        )
    raise Finding(f"{summed}, expected {tokens}", cause)


@check("training.single_precision", "make_model", "train|fit|epoch")
def single_precision(adapter: Adapter, seed: int) -> str:
    """The optimizer's weights have the range and precision of float32."""
    update, _ = first_update(adapter, quiet(adapter, seed), unlike_words(adapter))
    if torch.float16 in update.dtypes:
        raise Finding("the optimizer changes weights of the type float16, expected float32")
    if torch.bfloat16 in update.dtypes:
        raise NotImplementedError("weights in bfloat16 lose small updates; some designs accept it")
    return f"the optimizer changes weights of {', '.join(map(str, update.dtypes))}"


def fitted(adapter: Adapter, seed: int, count: int, epochs: int) -> Watched:
    """What is seen of a training on `count` pairs."""
    model, training = build(adapter, seed), pairs(adapter, seed, [(4, 4)] * count)
    with watch_gradients(model) as seen:
        trained(adapter, model, training, pairs(adapter, seed + 1, [(4, 4)] * 3), epochs)
    return seen


@check("training.epoch_end", "make_model", "fit|epoch")
def epoch_end(adapter: Adapter, seed: int) -> str:
    """Every backward pass of an epoch is used by an optimizer step."""
    counts = (12, 14, 20)  # six, seven and ten batches, where two pairs make one
    for count in counts:
        one = fitted(adapter, seed, count, 1)
        if not one.steps:
            raise NotImplementedError("one epoch made no step on the given model")
        if one.left:
            two = fitted(adapter, seed, count, 2)
            if len(two.steps) > 2 * len(one.steps):
                return "the last batches of an epoch are accumulated with the next epoch's first"
            after = f"after the last of {len(one.steps)} steps of an epoch"
            raise Finding(f"{after} come {one.left} more backward passes, and no step uses them")
    return f"epochs of {', '.join(map(str, counts))} pairs leave no unused gradient"


@check("training.history", "make_model", "fit")
def history(adapter: Adapter, seed: int) -> str:
    """The history holds the validation perplexity of the model at that time."""
    model = silence(build(adapter, seed, noise=0.5))
    training, validation = (pairs(adapter, seed + n, [(4, 3)] * 8) for n in (0, 1))
    kept, said = adapter.fit(model, training, validation, 1)
    if not said:
        raise Finding("one epoch leaves an empty history")
    found, loss = float(said[-1]), nll(adapter, kept, validation)
    if any(abs(found / math.exp(nll(adapter, m, validation)) - 1) < 0.01 for m in (kept, model)):
        return f"perplexity {found:.2f} after one epoch, that of the model that is kept"
    if abs(found / loss - 1) < 0.01:
        raise NotImplementedError(f"the history contains the loss ({loss:.2f} nats), no perplexity")
    base = "The loss is in nats, to the base e, but 2 is raised to it."
    others = {2**loss: base, math.exp(nll(adapter, kept, training)): "It is of the training data."}
    cause = next((text for value, text in others.items() if abs(found / value - 1) < 0.01), "")
    raise Finding(f"the history says {found:.3f}; the model has {math.exp(loss):.3f}", cause)


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
