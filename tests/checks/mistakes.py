"""Adapters with a mistake that no bug of the catalogue makes, and other conventions."""

from dataclasses import replace
from functools import partial

import peer_torch as foreign
import torch
from patients import count_words, epoch, stranger, translate
from runs import collated, corpus, train
from torch import nn
from torch.nn import functional as F

from nmtcheck import Adapter, Sizes, ours

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


def unread(table, labels, smoothing):
    """A cross-entropy without a softmax."""
    each = table.logsumexp(-1) - table.gather(-1, labels[..., None])[..., 0]
    return each[labels != 0].mean()


def weighed(weigh, losses=(foreign.loss,)):
    """A run of torch's model, two batches in an update.

    `weigh(mean loss, tokens, all tokens, batches)` is called before each backward; the batches of
    an update have the losses by turns.
    """

    def run():
        torch.manual_seed(0)
        made = TORCH.make_model(Sizes()).train()
        optimizer = torch.optim.Adam(made.parameters(), 0.001)
        pairs = corpus(96, 0)
        for first in range(0, len(pairs), 4):
            batches = [collated(pairs[n : n + 2], "") for n in (first, first + 2)]
            counts = [int((target[:, 1:] != 0).sum()) for _, target in batches]
            optimizer.zero_grad()
            for loss, (source, target), count in zip(losses * 2, batches, counts, strict=False):
                mean = loss(made(source, target[:, :-1]), target[:, 1:], 0.1)
                weigh(mean, count, sum(counts), 2).backward()
            optimizer.step()

    return Adapter(name="run", run=run)


def right(mean, count, total, batches):
    return mean * count / total


def across_epochs(made, batches, training):
    """An epoch of torch's model, a step for two batches; the count goes on in the next epoch."""
    if not training:
        return foreign.epoch(made, batches, False)
    if not hasattr(made, "optimizer"):
        made.optimizer, made.number = torch.optim.Adam(made.parameters(), 0.01), 0
    for batch in batches:
        loss = foreign.loss(made.train()(batch.src, batch.trg[:, :-1]), batch.labels, 0.0)
        (loss / 2).backward()
        made.number += 1
        if made.number % 2 == 0:
            made.optimizer.step()
            made.optimizer.zero_grad()
    return loss.item()


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
    return stranger(translate=partial(translate, width=3, mistake=mistake))


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
    ("no scale", "inside.scale", "not scaled"),
    ("scaled by the embedding size", "inside.scale", "root of d_model"),
]
GUESSED = [
    ("no residual", "inside.residual", "x + sublayer(x)"),
    ("no activation", "inside.activation", "no activation"),
    ("small embeddings", "positions.balance", "Positions drown the words"),
]
# What is wrong, the first finding, and a phrase of what is said about it.
FAULTS = [
    (stranger("slices of heads"), "layers.whole_input", "read 4 of 16 values"),
    (stranger("one norm"), "layers.own_norms", "3 times in 1 pass"),
    (stranger("norm by the variance"), "layers.norms", "does not normalise its rows"),
    (stranger("norm over positions"), "layers.norms", "does not normalise its rows"),
    (stranger("a norm of another"), "layers.own_norms", "2 times in 1 pass"),
    (stranger("decoder not scaled"), "embedding.sides", "One side's embeddings"),
    (stranger("scaled by the length"), "embedding.sides", "root of the sentence's length"),
    (stranger("one block", resizable=False), "layers.separate_weights", "the same tensor"),
    (stranger("tied by data"), "layers.one_parameter", "different parameters on one storage"),
    (stranger("exponents of all columns"), "positions.table", "no linear map"),
    (stranger("fixed dropout in the decoder"), "layers.no_dropout", "two passes in train mode"),
    (stranger("no memory mask, keyword"), "inside.padding", "reaches cross-attention"),
    (loop("labels not shifted"), "run.labels", "not shifted"),
    (loop("PAD in the loss"), "run.labels", "PAD counts"),
    (stranger(epoch=partial(epoch, every=2)), "training.epoch_end", "no step uses them"),
    (stranger(epoch=partial(epoch, every=4)), "training.epoch_end", "no step uses them"),
    (
        stranger("a factor at the end", translate=translate),
        "decoding.search_model",
        "in the search",
    ),
    (loop("padded to 40"), "run.labels", "PAD counts as a word"),
    (loop("padded counts"), "run.weights", "PAD included"),
    (loop("eval mode never left"), "run.modes", "drops in none"),
    (searching("equal copies"), "search.beams", ""),
    (searching("probabilities"), "search.successors", ""),
    (stranger("plain list"), "layers.registered", "no part of the model"),
    (stranger("only queries turn"), "positions.target_order", "do not tell the order"),
    (stranger("one relative position"), "positions.source_order", "do not tell the order"),
    (stranger("half turned"), "positions.relative", "one word at one distance"),
    (logits(lambda m, s, t: m(s, t) - m(s, t).mean(0)), "model.batch_invariance", "alone and in"),
    (
        replace(OURS, evaluate=partial(count_words, mistake="any")),
        "evaluation.ends",
        "until their first",
    ),
    (stranger(run=partial(train, "padding on the left")), "run.left_padding", "three more PAD"),
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
    (weighed(lambda *given: right(*given) / 7), "run.weights", "divided by"),
]

# Other conventions: the check must not fail, and where it cannot tell says why.
CONVENTIONS = {
    "by nothing": ("run.weights", weighed(lambda mean, count, total, n: mean * count)),
    "number of sentences": ("run.weights", weighed(lambda mean, c, t, n: mean * c / 2 / n)),
    "as for half precision": ("run.weights", weighed(lambda *given: right(*given) * 2**16)),
    "or were read in part": ("run.weights", weighed(right, (foreign.loss, unread))),
    "next epoch's first": ("training.epoch_end", replace(TORCH, epoch=across_epochs)),
    "not a buffer and is moved": (
        "model.device",
        model(lambda m: setattr(m, "source_positions", Moving(m.source_positions.table.clone()))),
    ),
    "one matrix takes": ("positions.table", model(lambda m: m.source_positions.table[0].zero_())),
    "training ids are unknown": (
        "decoding.source_ids",
        replace(OURS, source_eos=None, run=None),
    ),
}


class Moving(Table):
    """A table that is no buffer, and follows its input."""

    def __init__(self, table):
        super().__init__(table, buffer=False)

    def forward(self, x, start=0):
        return x + self.table.to(x.device)[start : start + x.size(1)]
