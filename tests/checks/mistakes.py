"""Adapters with one mistake each, for the checks of training, translation and scores."""

import copy
import math
from dataclasses import replace

import peer_torch as foreign
import torch
from torch import nn
from torch.nn import functional as F

from nmtcheck import ours
from nmtcheck.checks import metrics

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


def doubled_exponents(length=40, d_model=16):
    """The table of a tutorial: each dimension has a speed of its own."""
    place = torch.arange(length)[:, None]
    table = (place / 10000 ** (2 * torch.arange(d_model) / d_model)).sin()
    cosines = place / 10000 ** (2 * (torch.arange(1, d_model, 2)) / d_model)
    table[:, 1::2] = cosines.cos()
    return table


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


def fit_base_two(made, training, validation, epochs):
    kept, history = foreign.fit(made, training, validation, epochs)
    return kept, [2 ** math.log(each) for each in history]


def fit_recording_losses(made, training, validation, epochs):
    kept, history = foreign.fit(made, training, validation, epochs)
    return kept, [math.log(each) for each in history]


def validate_with_pad(made, pairs):
    source, target, labels = foreign.make_batch(pairs)
    table = made.eval()(source, target)
    return math.exp(F.cross_entropy(table.flatten(0, 1), labels.flatten()).detach())


def other_scale(made, words, longest):
    other = copy.deepcopy(made)
    other.source_embedding.scale = 1.0
    return OURS.translate(other, words, longest)


def last_word_lost(made, source, longest):
    return [
        ids[:-1] if len(ids) == longest else ids for ids in foreign.greedy(made, source, longest)
    ]


@torch.no_grad()
def beyond_eos(made, source, width, penalty, longest):
    """All beams run to one length and are cut at EOS in the end."""
    found = []
    for row in source:
        sentence = row[row != 0][None]
        going, memory = [(0.0, [1])], made.encode(sentence)
        for _ in range(longest + 1):
            target = torch.tensor([ids for _, ids in going])
            inputs = memory.expand(len(going), -1, -1), sentence.expand(len(going), -1)
            logp = made.decode(target, *inputs)[:, -1].log_softmax(-1).tolist()
            grown = [
                (score + p, [*ids, word])
                for (score, ids), row in zip(going, logp, strict=True)
                for word, p in enumerate(row)
            ]
            going = sorted(grown, reverse=True)[:width]
        best = going[0][1][1:]
        found.append([(best[: best.index(2)] if 2 in best else best, None)])
    return found


def cut_rows(pairs):
    source, target, labels = OURS.make_batch(pairs)
    return source[:, :50], target[:, :50], labels[:, :50]


def refusing(pairs):
    if max(len(ids) for pair in pairs for ids in pair) > 50:
        raise ValueError("too long")
    return OURS.make_batch(pairs)


def known_words_only(tokens, said, references):
    known = [" ".join(w if w in tokens else "<UNK>" for w in ref.split()) for ref in references]
    return OURS.score(tokens, said, known)


def score_of_letters(tokens, said, references):
    texts = [" ".join(tokens[i] for i in ids) for ids in said]
    return metrics.corpus_bleu(*([" ".join(text) for text in x] for x in (texts, references)))


MISTAKES = {
    "positions.table": model(lambda m: setattr(m, "source_positions", Table(doubled_exponents()))),
    "model.device": model(
        lambda m: setattr(m, "source_positions", Table(m.source_positions.table.clone(), False))
    ),
    "training.epoch_end": fit(),
    "training.history": replace(TORCH, fit=fit_base_two),
    "validation.padding": replace(TORCH, validate=validate_with_pad),
    "decoding.source_ids": replace(
        OURS, translate=lambda m, words, n: OURS.translate(m, words[:-1], n)
    ),
    "decoding.search_model": replace(OURS, translate=other_scale),
    "decoding.length_limit": replace(TORCH, greedy=last_word_lost),
    "beam.ends_at_eos": replace(TORCH, beam=beyond_eos),
    "data.long_sentences": replace(OURS, make_batch=cut_rows),
    "metrics.whole_score": replace(OURS, score=score_of_letters),
    "metrics.unknown_words": replace(OURS, score=known_words_only),
}

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
