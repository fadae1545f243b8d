"""The judges of notebook 09."""

from __future__ import annotations

import copy
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from nmtcourse.teaching.exercises import Wrong, agree, call, equal
from nmtcourse.teaching.language import say
from nmtlib.data import BOS, EOS, Batch, collate
from nmtlib.data.batching import Example
from nmtlib.model import Transformer
from nmtlib.model.config import TransformerConfig
from nmtlib.training import label_smoothed_loss
from nmtlib.training.loss import compute_loss

WORDS = 12


def judge_1(floor: Callable[[list[list[int]]], float], *, draw: Random) -> str:
    """The entropy of the next word given all words before it."""
    for _ in range(8):
        drawn = []
        for _ in range(draw.randint(1, 8)):
            drawn.append([draw.randint(4, 5) for _ in range(draw.randint(1, 4))])
        sentences = [[BOS, *words, EOS] for words in drawn]
        hint = "mean over all labels, EOS among them; BOS is no label"
        agree(floor, sentences, expected=entropy(sentences), why=hint)
    return "8 sets of sentences"


def entropy(sentences: list[list[int]]) -> float:
    """Mean over the labels of the entropy of the next id, given the ids before it."""
    following: defaultdict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for ids in sentences:
        for t in range(1, len(ids)):
            following[tuple(ids[:t])][ids[t]] += 1
    total = 0.0
    for counts in following.values():
        for count in counts.values():
            total -= count * math.log(count / counts.total())
    return total / sum(len(ids) - 1 for ids in sentences)


def judge_2(
    update_from: Callable[[nn.Module, Optimizer, list[Batch]], Any], *, draw: Random
) -> str:
    """One update from several batches is the update of one large batch."""
    for _ in range(3):
        model = new_model()
        expected, optimizer = copy.deepcopy(model), torch.optim.SGD(model.parameters(), lr=0.5)
        for weight in model.parameters():
            weight.grad = torch.ones_like(weight)  # of an earlier batch
        for _ in range(2):  # a gradient that is left over shows in the second update
            batches = draw_batches(draw, draw.randint(2, 3))
            make_one_update(expected, batches)
            with watch_memory(model, max(len(batch.labels) for batch in batches)) as problems:
                call(update_from, model, optimizer, batches)
            if problems:
                raise Wrong(say(f"update_from(model, optimizer, batches): {problems[0]}"))
            require_same(model, expected, "after update_from(model, optimizer, batches)")
    return "6 updates"


@contextmanager
def watch_memory(model: Transformer, largest: int) -> Iterator[list[str]]:
    """Collect what a function does with a model if it keeps more than one batch in memory."""
    problems, waiting = [], [0]  # outputs without a backward pass so far

    def note_backward(_: Tensor) -> None:
        waiting[0] -= 1

    def note_forward(_: nn.Module, inputs: tuple[Tensor, ...], logits: Tensor) -> None:
        if len(inputs[0]) > largest:
            problems.append(f"{len(inputs[0])} sentences are in memory, more than any batch has")
        if waiting[0]:
            problems.append("call backward() for one batch before the model reads the next")
        if logits.requires_grad:
            waiting[0] += 1
            logits.register_hook(note_backward)

    handle = model.output.register_forward_hook(note_forward)
    try:
        yield problems
    finally:
        handle.remove()


def make_one_update(model: Transformer, batches: list[Batch]) -> None:
    """Stochastic gradient descent at a rate of 0.5 on the mean loss of all labels."""
    losses, labels = [], 0
    for batch in batches:
        logits = model(batch.source, batch.decoder_input)
        count = int((batch.labels != 0).sum())
        losses.append(label_smoothed_loss(logits, batch.labels, 0.0) * count)
        labels += count
    gradients = torch.autograd.grad(torch.stack(losses).sum() / labels, [*model.parameters()])
    with torch.no_grad():
        for weight, gradient in zip(model.parameters(), gradients, strict=True):
            weight.sub_(0.5 * gradient)


def judge_3(
    pack: Callable[[nn.Module, Optimizer], Any],
    unpack: Callable[[nn.Module, Optimizer, Any], Any],
    *,
    draw: Random,
) -> str:
    """A run that was packed goes on in a new model as the unbroken run does."""
    for _ in range(2):
        model = new_model()
        optimizer = new_adam(model)
        batches = draw_batches(draw, 8)
        train(model, optimizer, batches[:4])
        packed = call(pack, model, optimizer)
        train(model, optimizer, batches[4:])  # the run that was not interrupted
        for time in ("", " for the second time"):
            other = new_model()
            # with no setting of the first one
            other_optimizer = torch.optim.Adam(other.parameters(), 0.3, (0.5, 0.5), 0.1, 0.1)
            # not `call`: a copy of what was packed would hide that it is shared
            unpack(other, other_optimizer, packed)
            train(other, other_optimizer, batches[4:])
            when = f"four updates after unpack(model, optimizer, packed){time}"
            require_same(other, model, when)
    return "2 interrupted runs"


def new_model() -> Transformer:
    """A small untrained model, another one each time."""
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 8, "n_encoder_layers": 1, "n_decoder_layers": 1}
    return Transformer(TransformerConfig(WORDS, WORDS, dropout=0.0, norm="pre", **sizes))


def new_adam(model: nn.Module) -> Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9)


def train(model: Transformer, optimizer: Optimizer, batches: list[Batch]) -> None:
    """One update from each batch."""
    for batch in batches:
        loss, _ = compute_loss(model, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def draw_batches(draw: Random, count: int) -> list[Batch]:
    """Batches of different numbers of sentences and labels."""
    batches = []
    for _ in range(count):
        examples = []
        for _ in range(draw.randint(1, 5)):
            source = [draw.randint(4, WORDS - 1) for _ in range(draw.randint(1, 7))]
            target = [draw.randint(4, WORDS - 1) for _ in range(draw.randint(1, 7))]
            examples.append(Example([*source, EOS], [BOS, *target, EOS]))
        batches.append(collate(examples))
    return batches


def require_same(model: nn.Module, expected: nn.Module, when: str) -> None:
    """Raise Wrong unless two models have the same weights."""
    others: dict[str, Tensor] = dict(expected.named_parameters())
    for name, weight in model.named_parameters():
        if not equal(weight, others[name].detach(), 1e-5):
            far = (weight - others[name]).abs().max().item()
            raise Wrong(say(f"{when}, the weights {name} are off by up to {far:.2g}"))
