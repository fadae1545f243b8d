"""A training run of our own making, from its data to its last evaluation, and its mistakes."""

import copy
import random
from functools import partial

import torch
from patients import BOS, EOS, PAD, Stranger, greedy_batch
from torch import nn
from torch.nn import functional as F

from nmtcheck import Adapter, Sizes


def corpus(count, seed):
    """Different sentences of two to five words, and the same backwards."""
    generator, found = random.Random(seed), set()
    while len(found) < count:
        found.add(tuple(generator.randrange(4, 13) for _ in range(generator.randint(2, 5))))
    return [(s, s[::-1]) for s in sorted(found)]


def padded(rows):
    width = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])


def collated(pairs, mistake):
    if mistake == "padding on the left":
        sources, targets = collated(pairs, "")
        return torch.stack([row.roll(int((row == PAD).sum())) for row in sources]), targets
    ends = [EOS] * {"no EOS": 0, "EOS twice": 2}.get(mistake, 1)
    sources = [[*s, EOS] for s, _ in pairs]
    if mistake == "sources sorted alone":
        sources.sort(key=len)
    return padded(sources), padded([[BOS, *t, *ends] for _, t in pairs])


def batches(pairs, generator, mistake):
    order = generator.sample(pairs, len(pairs))
    return [collated(order[n : n + 8], mistake) for n in range(0, len(order), 8)]


class Noam:
    def __init__(self, optimizer):
        self.optimizer, self.warmup, self.number = optimizer, 12, 0

    def step(self, mistake):
        self.number += 1
        power = -0.5 if mistake == "exponent" else -1.5
        over = max(0, self.number - self.warmup) if mistake == "falls to nothing" else 0
        self.rate = 0.02 * min(self.number**-0.5, self.number * self.warmup**power) * 0.1**over
        if mistake == "larger of two":
            self.rate = 0.02 * max(self.number**-0.5, self.number * self.warmup**-1.5)
        self.number %= self.warmup if mistake == "restarts" else 10**9
        if mistake == "first rate is the default" and self.number == 1:
            self.optimizer.param_groups[0]["lr"] = 0.1
        elif mistake == "rate not applied":
            self.optimizer.defaults["lr"] = self.rate
        else:
            self.optimizer.param_groups[0]["lr"] = self.rate
        self.optimizer.step()


def train(mistake=""):
    torch.manual_seed(0)
    sizes = Sizes(dropout=0.1)
    model, pairs, generator = Stranger(sizes, mistake), corpus(120, 1), random.Random(2)
    train_pairs, test = pairs[24:], pairs[:24]
    if "test in training" in mistake:
        test = pairs[18 if "most" in mistake else 24 :: 4]
    heads = model.encoder if mistake == "half of the weights" else model
    noam = Noam(torch.optim.Adam(heads.parameters(), lr=0.003))
    kept = model.train().state_dict()
    every = 2 if "micro" in mistake else 1
    for epoch in range(3):
        if mistake != "train mode not restored" or not epoch:
            model.train()
        for number, (source, target) in enumerate(batches(train_pairs, generator, mistake)):
            table = model(source, target[:, :-1])
            labels = target[:, 1:] if mistake != "shifted twice" else F.pad(target[:, 2:], (0, 1))
            ignored = -100 if mistake == "PAD counts" else PAD
            smoothing = 0.9 if mistake == "smoothing exchanged" else 0.0
            loss = F.cross_entropy(
                table.flatten(0, 1),
                labels.flatten(),
                ignore_index=ignored,
                label_smoothing=smoothing,
            )
            if mistake == "micro: cleared" or (number % every == 0 and mistake != "not cleared"):
                noam.optimizer.zero_grad()
            if mistake == "clipped first":
                noam.optimizer.zero_grad()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            (loss / every if mistake != "micro: added" else loss).backward()
            if number % every == every - 1:
                noam.step(mistake)
        model.train(mistake == "tested in train mode")
        with torch.no_grad():
            for n in range(0, len(test), 4):
                model(*collated(test[n : n + 4], ""))
        kept = model.state_dict() if mistake == "the last is live" else kept
    live = mistake in ("no copy", "the last is live")
    model.load_state_dict(kept if live else copy.deepcopy(model.state_dict()))
    return partial(said, model, mistake=mistake), [s for s, _ in test]


def said(model, sentences, mistake=""):
    source = collated([(s, s) for s in sentences], "")[0]
    found = greedy_batch(model, source, 8)
    if limit := {"one ends all": min, "finished rows grow": max}.get(mistake):
        found = [[s[0]] * (1 + sum(s) % 6) for s in sentences]  # of all lengths
        size = limit(map(len, found))
        found = [ids[:size] if limit is min else ids + [4] * (size - len(ids)) for ids in found]
    return sorted(found, key=len) if mistake == "order of the search" else found


def run(mistake=""):
    return Adapter(name="run", run=partial(train, mistake))


# Mistake -> the check that finds it.
FOUND = {
    "shifted twice": "run.labels",
    "no EOS": "run.labels",
    "PAD counts": "run.labels",
    "EOS twice": "run.labels",
    "smoothing exchanged": "run.labels",
    "no memory mask in training": "run.masks",
    "micro: added": "run.weights",
    "micro: cleared": "run.gradients",
    "not cleared": "run.gradients",
    "clipped first": "run.gradients",
    "half of the weights": "run.parameters",
    "rate not applied": "run.rates",
    "exponent": "run.rates",
    "larger of two": "run.rates",
    "first rate is the default": "run.rates",
    "restarts": "run.rates",
    "train mode not restored": "run.modes",
    "tested in train mode": "run.modes",
    "falls to nothing": "run.rates",
    "no copy": "run.kept",
    "the last is live": "run.kept",
    "sources sorted alone": "run.pairs",
    "test in training": "run.pairs",
    "most of the test in training": "run.pairs",
    "order of the search": "run.translations",
    "one ends all": "run.translations",
    "finished rows grow": "run.translations",
}
