"""Adapters with a mistake that no bug of the catalogue makes, and other conventions."""

import math
from dataclasses import replace
from functools import partial

import peer_torch as foreign
import torch
from patients import (
    beam,
    epoch,
    greedy,
    greedy_batch,
    make_batch,
    stranger,
    train_undivided,
)
from torch import nn
from torch.nn import functional as F

from nmtcheck import ours

OURS = ours()
TORCH = foreign.torch_transformer()


def model(change):
    """nmtlib with a change made to each new model."""

    def make_model(sizes):
        made = OURS.make_model(sizes)
        change(made)
        return made

    return replace(OURS, make_model=make_model)


class Table(nn.Module):
    """Positions from a table (length, D) that may be no buffer."""

    def __init__(self, table, buffer=True):
        super().__init__()
        if buffer:
            self.register_buffer("table", table)
        else:
            self.table = table

    def forward(self, x, start=0):
        return x + self.table[start : start + x.size(1)]


class Scaled(foreign.Loop):
    """torch's loop with `weigh(mean loss, tokens, all tokens, batches)` before each backward."""

    def __init__(self, made, clip, weigh, losses):
        super().__init__(made, clip)
        self.weigh, self.losses = weigh, losses

    def update(self, micro_batches):
        batches = [foreign.make_batch(pairs) for pairs in micro_batches]
        counts = [int((labels != 0).sum()) for *_, labels in batches]
        self.optimizer.zero_grad()
        losses = self.losses * len(batches)
        for loss, (source, target, labels), count in zip(losses, batches, counts, strict=False):
            mean = loss(self.model.train()(source, target), labels, 0.1)
            self.weigh(mean, count, sum(counts), len(batches)).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()


def unread(table, labels, smoothing):
    """A cross-entropy without a softmax."""
    each = table.logsumexp(-1) - table.gather(-1, labels[..., None])[..., 0]
    return each[labels != 0].mean()


def train(weigh, losses=(foreign.loss,)):
    """torch's training with another weight of each loss; batches have the losses by turns."""

    def run(made, updates, clip):
        loop = Scaled(made, clip, weigh, losses)
        for update in updates:
            loop.update(update)

    return replace(TORCH, train=run, fit=None, epoch=None)


def right(mean, count, total, batches):
    return mean * count / total


def fit(*, across=False):
    """torch's training, one step for two batches; `across` goes on counting in the next epoch."""

    def run(made, training, validation, epochs):
        optimizer, number = torch.optim.Adam(made.parameters(), 0.01), 0
        for _ in range(epochs):
            number = number if across else 0
            for first in range(0, len(training), 4):
                source, target, labels = foreign.make_batch(training[first : first + 4])
                (foreign.loss(made.train()(source, target), labels, 0.0) / 2).backward()
                number += 1
                if number % 2 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        return made, [foreign.validate(made, validation)]

    return replace(TORCH, fit=run)


def fit_recording_losses(made, training, validation, epochs):
    kept, history = foreign.fit(made, training, validation, epochs)
    return kept, [math.log(each) for each in history]


def refusing(pairs):
    if max(len(ids) for pair in pairs for ids in pair) > 50:
        raise ValueError("too long")
    return OURS.make_batch(pairs)


def logits(run):
    """nmtlib with other logits: run(model, source, target)."""
    return replace(OURS, logits=run)


def unregistered(made):
    made.extra = [torch.randn(1)]  # a plain list: in no state dict


def mean_of_means(made, batches, training):
    """The losses of batches, averaged."""
    return sum(OURS.epoch(made, [batch], training) for batch in batches) / len(batches)


def translate_in_train_mode(made, words, longest):
    """The most probable words, dropout included."""
    said, source = [1], torch.tensor([[int(word[1:]) for word in words] + [2]])
    for _ in range(longest):
        said.append(int(made.train()(source, torch.tensor([said]))[0, -1].argmax()))
    return said[1:]


def loop(mistake):
    return stranger(epoch=partial(epoch, mistake=mistake))


def searching(mistake):
    return stranger(beam=partial(beam, mistake=mistake), greedy=greedy)


def padded_first(pairs):
    source, *target = make_batch(pairs)
    return torch.stack([row.roll(int((row == 0).sum())) for row in source]), *target


# Mistakes inside a model: what is planted, the first finding, and a phrase of the cause; the
# last ones are guesses that no repair has proved.
INSIDE = [
    ("heads joined by a view", "inside.heads", "Heads and tokens are mixed"),
    ("heads split by a view", "inside.heads", "Heads and tokens are mixed"),
    ("softmax over queries", "inside.sums", "over the queries"),
    ("small fill", "inside.future", "not low enough"),
    ("off by one", "inside.future", "sees the next one"),
    ("no mask in eval mode", "inside.future", "Eval mode drops the mask"),
    ("no memory mask", "inside.padding", "No padding mask of the source reaches cross-attention"),
    ("PAD for words", "inside.padding", "inverted"),
    ("one PAD too many", "inside.padding", "off by one: the first PAD"),
    ("a mask of another", "inside.padding", "Alone each sentence is masked"),
    ("table is an attribute", "model.device", "register_buffer"),
]
GUESSED = [
    ("no residual", "inside.residual", "x + sublayer(x)"),
    ("no activation", "inside.activation", "no activation"),
    ("no scale", "inside.scale", "not scaled"),
    ("scaled by the embedding size", "inside.scale", "root of d_model"),
    ("small embeddings", "positions.balance", "Positions drown the words"),
]
# What is wrong, the first finding, and a phrase of what is said about it.
FAULTS = [
    (stranger("slices of heads"), "layers.whole_input", "read 4 of 16 values"),
    (stranger("one norm"), "layers.own_norms", "3 times in 1 pass"),
    (stranger("a norm of another"), "layers.own_norms", "2 times in 1 pass"),
    (stranger("decoder not scaled"), "embedding.sides", "One side's embeddings"),
    (stranger("scaled by the length"), "embedding.sides", "root of the sentence's length"),
    (stranger("one block", resizable=False), "layers.separate_weights", "the same tensor"),
    (stranger(make_batch=padded_first), "masks.more_padding", "PAD before the source"),
    (stranger("tied by data"), "layers.one_parameter", "different parameters on one storage"),
    (stranger("exponents of all columns"), "positions.table", "no linear map"),
    (stranger("fixed dropout in the decoder"), "layers.no_dropout", "two passes in train mode"),
    (stranger("no memory mask, keyword"), "inside.padding", "reaches cross-attention"),
    (loop("labels not shifted"), "run.labels", "not shifted"),
    (loop("PAD in the loss"), "run.labels", "PAD counts"),
    (stranger(epoch=partial(epoch, every=2)), "training.epoch_end", "no step uses them"),
    (stranger(epoch=partial(epoch, every=4)), "training.epoch_end", "no step uses them"),
    (stranger(train=train_undivided), "training.accumulation", "of two micro-batches"),
    (stranger("a factor at the end", greedy=greedy), "decoding.search_model", "in the search"),
    (stranger(greedy=partial(greedy, mistake="no limit")), "decoding.length_limit", "is ignored"),
    (loop("padded to 40"), "run.labels", "PAD counts as a word"),
    (loop("padded counts"), "run.weights", "PAD included"),
    (loop("eval mode never left"), "run.modes", "drops in none"),
    (searching("equal copies"), "beam.scores", "equal copies"),
    (searching("probabilities"), "beam.scores", "the model gives it"),
    (searching("not sorted"), "beam.scores", "not the best first"),
    (
        stranger(greedy=partial(greedy_batch, mistake="finished rows grow")),
        "decoding.greedy",
        "but the search returns",
    ),
    (stranger("plain list"), "layers.registered", "no part of the model"),
    (stranger("only queries turn"), "positions.target_order", "do not tell the order"),
    (stranger("one relative position"), "positions.source_order", "do not tell the order"),
    (stranger("half turned"), "positions.relative", "one word at one distance"),
    (logits(lambda m, s, t: m(s, t) - m(s, t).mean(0)), "model.batch_invariance", "alone and in"),
    (logits(lambda m, s, t: m(s * 0 + 4, t * 0 + 1)), "model.overfit", "on three pairs"),
    (logits(lambda m, s, t: F.dropout(m(s, t), 0.5)), "model.eval_repeats", "two passes in eval"),
    (logits(lambda m, s, t: m(s, t).float()), "model.double", "after model.double()"),
    (
        replace(model(unregistered), logits=lambda m, s, t: m(s, t) + m.extra[0] * s.size(1)),
        "model.state_dict",
        "the same state dict",
    ),
    (replace(OURS, epoch=mean_of_means), "validation.mean", "three batches have the losses"),
    (replace(OURS, translate=translate_in_train_mode), "decoding.eval_mode", "the second time"),
    (train(lambda *given: right(*given) / 7), "run.weights", "divided by"),
    (
        replace(TORCH, greedy=lambda m, s, n: [[*i, 2, 0] for i in foreign.greedy(m, s, n)]),
        "decoding.greedy",
        "but the search returns",
    ),
]

# Other conventions: the check must not fail, and where it cannot tell says why.
CONVENTIONS = {
    "by nothing": ("run.weights", train(lambda mean, count, total, n: mean * count)),
    "number of sentences": ("run.weights", train(lambda mean, c, t, n: mean * c / 2 / n)),
    "as for half precision": ("run.weights", train(lambda *given: right(*given) * 2**16)),
    "or were read in part": ("run.weights", train(right, (foreign.loss, unread))),
    "next epoch's first": ("training.epoch_end", fit(across=True)),
    "no perplexity": ("training.history", replace(TORCH, fit=fit_recording_losses)),
    "are refused": ("data.long_sentences", replace(OURS, make_batch=refusing)),
    "not a buffer and is moved": (
        "model.device",
        model(lambda m: setattr(m, "source_positions", Moving(m.source_positions.table.clone()))),
    ),
    "one matrix takes": ("positions.table", model(lambda m: m.source_positions.table[0].zero_())),
    "training ids are unknown": (
        "decoding.source_ids",
        replace(OURS, make_batch=None, train=None, fit=None),
    ),
}


class Moving(Table):
    """A table that is no buffer, and follows its input."""

    def __init__(self, table):
        super().__init__(table, buffer=False)

    def forward(self, x, start=0):
        return x + self.table.to(x.device)[start : start + x.size(1)]
