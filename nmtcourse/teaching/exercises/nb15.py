"""The judges of notebook 15."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcourse.teaching.exercises import Wrong, agree, call, require_equal
from nmtcourse.teaching.language import say
from nmtlib.data.batching import Batch, pad
from nmtlib.specials import BOS, EOS

VOCABULARY = 64


class Predictor(nn.Module):
    """A model of two tables, which notes in which mode it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(VOCABULARY, 8), nn.Embedding(VOCABULARY, 8)
        self.output = nn.Linear(8, VOCABULARY)
        self.modes: list[bool] = []

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        self.modes.append(self.training)
        read = self.source(source).mean(dim=1, keepdim=True)  # (B, 1, 8)
        return self.output(self.target(target) + read)  # (B, T, V)


def judge_1(run_epoch: Callable[..., float], *, draw: Random) -> str:
    """An epoch whose loss is the mean over all tokens, and whose updates follow the token mean."""
    for trains in (False, True, True):
        batches = [draw_batch(draw) for _ in range(4)]
        mine, model = Predictor(), Predictor()
        model.load_state_dict(mine.state_dict())
        optimizer = torch.optim.SGD(mine.parameters(), 0.5) if trains else None
        before = [torch.randn_like(weight) for weight in mine.parameters()]
        for weight, gradient in zip(mine.parameters(), before, strict=True):
            weight.grad = gradient.clone()  # of whatever was done before
        found = call(run_epoch, mine, batches, optimizer)
        expected = epoch_by_tokens(model, batches, 0.5 if trains else 0.0)
        what = say("the loss of an epoch with updates")
        if not trains:
            what = say("the loss of a validation")
        hint = "sums and counts of the tokens that are not PAD, divided once at the end"
        require_equal(what, found, expected, why=hint)
        if mine.modes != [trains] * len(batches):
            raise Wrong(say(f"{what}: the model should be called once a batch, in its own mode"))
        for (name, weight), other in zip(mine.named_parameters(), model.parameters(), strict=True):
            if not torch.allclose(weight, other, atol=1e-5):
                hint = "each follows the mean over tokens, and no gradient from before"
                raise Wrong(say(f"{name} after four updates: {say(hint)}"))
        for (name, weight), gradient in zip(mine.named_parameters(), before, strict=True):
            if not trains and weight.grad is not None and not weight.grad.equal(gradient):
                raise Wrong(say(f"a validation changes the gradient of {name}"))
    return "an epoch without updates, two with four updates"


def draw_batch(draw: Random) -> SimpleNamespace:
    """Sources and targets of different lengths, filled up with 0."""
    rows = draw.randint(1, 5)
    longest = draw.randint(3, 9)
    source = torch.randint(1, VOCABULARY, (rows, longest))
    target = torch.randint(1, VOCABULARY, (rows, longest + 1))
    for row in range(rows):
        target[row, draw.randint(2, longest + 1) :] = 0
    return SimpleNamespace(src=source, trg=target)


def epoch_by_tokens(model: Predictor, batches: Sequence[Any], rate: float) -> float:
    """The mean loss over all tokens, with plain updates at this rate."""
    total, count = 0.0, 0
    for batch in batches:
        logits = model(batch.src, batch.trg[:, :-1]).flatten(0, 1)
        labels = batch.trg[:, 1:].flatten()
        loss = F.cross_entropy(logits, labels, ignore_index=0)
        tokens = int((labels != 0).sum())
        total, count = total + loss.item() * tokens, count + tokens
        if rate:
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            with torch.no_grad():
                for weight, gradient in zip(model.parameters(), gradients, strict=True):
                    weight.sub_(rate * gradient)
    return total / count


class Patient(nn.Module):
    """A decoder with dropout, of which we know what it costs and in which mode it looks ahead.

    The label at each position gets the logit `boosts[first]`, where `first` is the first word of
    the source.  All logits depend on the prefix, the position's own token included; in the modes of
    `looks` the next input token gets `leak` on top.
    """

    def __init__(
        self,
        labels: dict[int, list[int]],
        boosts: dict[int, float],
        dropout: float,
        looks: str = "",
        leak: float = 0.0,
    ):
        super().__init__()
        self.labels, self.boosts, self.looks, self.leak = labels, boosts, looks, leak
        self.embedding, self.output = nn.Embedding(VOCABULARY, 8), nn.Linear(8, VOCABULARY)
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.output.weight, std=0.02)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        count = torch.arange(1, target.size(1) + 1)[:, None]
        prefix = self.embedding(target).cumsum(dim=1) / count  # (B, T, 8)
        known = torch.zeros(*target.shape, VOCABULARY)
        for row in range(len(target)):
            first = int(source[row, 0])
            for position, label in enumerate(self.labels[first][: target.size(1)]):
                known[row, position, label] = self.boosts[first]
        logits = self.output(self.dropout(prefix)) + self.dropout(known)  # (B, T, V)
        if self.looks == ("train" if self.training else "eval"):
            ahead = torch.cat([target[:, 1:], torch.full_like(target[:, :1], EOS)], dim=1)
            logits = logits + self.leak * F.one_hot(ahead, VOCABULARY)
        return logits


CASES = (  # the verdict; nats per token on both batches; dropout; in which mode it looks, how far
    ("healthy", 0.1, 0.4, 0.1, "", 0.0),
    ("healthy", 0.02, 0.06, 0.1, "", 0.0),  # a ratio of three
    ("healthy", 0.2, 0.9, 0.1, "", 0.0),
    ("healthy", 3.5, 3.8, 0.1, "", 0.0),  # hardly trained
    ("healthy", 0.2, 0.4, 0.0, "", 0.0),
    ("overfits", 0.1, 1.6, 0.6, "", 0.0),
    ("overfits", 1.8, 3.3, 0.1, "", 0.0),
    ("overfits", 0.05, 3.05, 0.1, "", 0.0),
    ("measured badly", 0.2, 0.5, 0.1, "eval", 0.4),
    ("measured badly", 0.2, 0.5, 0.1, "eval", 6.0),
    ("trained badly", 0.2, 0.5, 0.1, "train", 0.4),
    ("trained badly", 3.0, 3.2, 0.1, "train", 6.0),
)


def make_case(case: tuple[Any, ...], draw: Random) -> tuple[Patient, Batch, Batch]:
    """A model, a batch that it was trained on, and one that it was not.

    One batch has sentences of one length, the other has PAD: where PAD counts, the gap is another.
    """
    verdict, *costs, dropout, looks, leak = case
    first = draw.sample(range(5, VOCABULARY), 8)
    labels, boosts, batches = {}, {}, []
    for number, cost in enumerate(costs):
        rows = first[4 * number : 4 * number + 4]
        uneven = (verdict == "overfits") == (number == 0)
        chance = math.exp(-cost)
        for place, word in enumerate(rows):
            length = 5 if uneven and place else 14
            labels[word] = [*draw.choices(range(5, VOCABULARY), k=length), EOS]
            boosts[word] = math.log((VOCABULARY - 1) * chance / (1 - chance))
        sources = [[word, *draw.choices(range(5, VOCABULARY), k=4)] for word in rows]
        batches.append(Batch(pad(sources), pad([[BOS, *labels[word]] for word in rows])))
    return Patient(labels, boosts, dropout, looks, leak), batches[0], batches[1]


def judge_2(diagnose: Callable[[nn.Module, Batch, Batch], str], *, draw: Random) -> str:
    """What is wrong with a model, from its losses in both modes and a changed future."""
    for case in draw.sample(CASES, len(CASES)):
        model, train, held_out = make_case(case, draw)
        before = train.target.clone(), held_out.target.clone()
        hint = "losses per token in evaluation mode, and the future in both modes, with one seed"
        agree(diagnose, model, train, held_out, expected=case[0], why=hint)
        if not (train.target.equal(before[0]) and held_out.target.equal(before[1])):
            raise Wrong(say("diagnose changes a batch that it was given; clone what you change"))
    return "12 models"
