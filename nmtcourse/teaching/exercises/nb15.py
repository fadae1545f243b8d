"""The judges of notebook 15."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcourse.teaching.exercises import Wrong, agree, call, require_equal
from nmtcourse.teaching.language import say
from nmtlib.data.batching import Batch
from nmtlib.specials import BOS, EOS

VOCABULARY = 30


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
                raise Wrong(say(f"{name} after four updates: each follows the mean over tokens"))
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


class Stub(nn.Module):
    """A model without weights: it knows the labels of some sentences, or reads them ahead.

    `train` and `evaluation` say for each mode whether it looks at the next token of its input;
    `known` are the targets that it knows in every mode in which it does not look.
    """

    def __init__(self, known: Sequence[Sequence[int]], train: bool, evaluation: bool, noise: bool):
        super().__init__()
        self.known, self.looks = [list(row) for row in known], {True: train, False: evaluation}
        self.noise = noise  # in evaluation mode its look ahead misleads it

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        logits = torch.zeros(*target.shape, VOCABULARY)
        looks = self.looks[self.training]
        ahead = torch.cat([target[:, 1:], torch.full_like(target[:, :1], EOS)], dim=1)
        for row in range(len(target)):
            sentence = next((k for k in self.known if k[0] == int(source[row, 0])), None)
            for position in range(target.size(1)):
                if looks and self.noise and not self.training:
                    logits[row, position, (int(ahead[row, position]) + 7) % VOCABULARY] = 5.0
                elif looks:
                    logits[row, position, ahead[row, position]] = 5.0
                elif sentence and position + 1 < len(sentence):
                    logits[row, position, sentence[position + 1]] = 5.0
        return logits


KINDS = ("healthy", "measured badly", "trained badly", "overfits")


def make_case(kind: str, draw: Random) -> tuple[Stub, Batch, Batch]:
    """A model of a kind, a batch that it was trained on, and one that it was not."""
    first = draw.sample(range(5, VOCABULARY), 8)
    sentences = [[word, *draw.choices(range(5, VOCABULARY), k=4)] for word in first]
    batches = []
    for rows in (sentences[:4], sentences[4:]):
        target = torch.tensor([[BOS, *row[1:], EOS] for row in rows])
        batches.append(Batch(torch.tensor(rows), target))
    known = [[row[0], *row[1:], EOS] for row in sentences]
    seen = known[:4]
    made = {
        "healthy": Stub(known, False, False, False),
        "measured badly": Stub(known, False, True, True),
        "trained badly": Stub([], True, False, False),
        "overfits": Stub(seen, False, False, False),
    }
    return made[kind], batches[0], batches[1]


def judge_2(diagnose: Callable[[nn.Module, Batch, Batch], str], *, draw: Random) -> str:
    """What is wrong with a model, from its losses in both modes and a changed future."""
    for kind in [*KINDS, *draw.sample(KINDS, 4)]:
        model, train, held_out = make_case(kind, draw)
        copied = copy.deepcopy(model)
        hint = "four losses and the future in both modes tell the four apart"
        agree(diagnose, copied, train, held_out, expected=kind, why=hint)
    return "8 models"
