"""Answers to homework 08."""

import math

import torch
from torch.nn import functional as F

from nmtlib.training.loss import label_smoothed_loss
from nmtlib.training.schedule import noam_rate


def with_an_if(step, d_model, warmup):
    if step <= 0:
        raise ValueError("no such update")
    if step < warmup:
        return step / warmup**1.5 / math.sqrt(d_model)
    return 1 / math.sqrt(step * d_model)


def with_the_package(step, d_model, warmup):
    if not step >= 1:
        raise ValueError("count from 1")
    return noam_rate(step, d_model, warmup)


def by_its_peak(step, d_model, warmup):
    if step < 1:
        raise ValueError("count from 1")
    peak = (d_model * warmup) ** -0.5
    return peak * min(step / warmup, (warmup / step) ** 0.5)


def in_logarithms(step, d_model, warmup):
    if step < 1:
        raise ValueError("count from 1")
    one, other = -0.5 * math.log(step), math.log(step) - 1.5 * math.log(warmup)
    return math.exp(min(one, other) - 0.5 * math.log(d_model))


def with_a_target(logits, labels, smoothing=0.1):
    if (labels == 0).all():
        raise ValueError("only PAD")
    v = logits.size(-1)
    target = torch.full_like(logits, smoothing / (v - 1))
    target[..., 0] = 0
    target.scatter_add_(-1, labels[..., None], torch.full_like(logits[..., :1], 1 - smoothing))
    loss = -(target * torch.log_softmax(logits, -1)).sum(-1)
    return loss[labels != 0].mean()


def in_loops(logits, labels, smoothing=0.1):
    total, count = logits.sum() * 0, 0
    for row, own in zip(logits, labels, strict=True):
        for scores, label in zip(row, own, strict=True):
            if label == 0:
                continue
            logp = scores - scores.logsumexp(0)
            total = total - (1 - smoothing) * logp[label]
            total = total - smoothing / (len(scores) - 1) * logp[1:].sum()
            count += 1
    if count == 0:
        raise ValueError("every label is PAD")
    return total / count


def in_two_passes(model, batches, smoothing):
    count, nll = 0, 0.0
    for p in model.parameters():
        p.grad = None
    for batch in batches:
        count += int(batch.labels.ne(0).sum())
    for batch in batches:
        logits = model(batch.source, batch.decoder_input)
        (label_smoothed_loss(logits, batch.labels, smoothing, reduction="sum") / count).backward()
        nll += label_smoothed_loss(logits, batch.labels, 0.0, reduction="sum").item() / count
    return nll


def scaled_afterwards(model, batches, smoothing):
    model.zero_grad(set_to_none=False)
    count, nll = 0, 0.0
    for batch in batches:
        logits = model(batch.source, batch.decoder_input)
        label_smoothed_loss(logits, batch.labels, smoothing, reduction="sum").backward()
        with torch.no_grad():
            nll += float(label_smoothed_loss(logits, batch.labels, 0.0, reduction="sum"))
        count += int((batch.labels != 0).sum())
    for p in model.parameters():
        if p.grad is not None:
            p.grad.div_(count)
    return nll / count


def weighted_means(model, batches, smoothing):
    model.zero_grad()
    counts = [int((b.labels != 0).sum()) for b in batches]
    result = 0.0
    for batch, count in zip(batches, counts, strict=True):
        share = count / sum(counts)
        logits = model(batch.source, batch.decoder_input)
        (share * label_smoothed_loss(logits, batch.labels, smoothing)).backward()
        result += share * float(label_smoothed_loss(logits.detach(), batch.labels, 0.0))
    return result


def with_autograd_grad(model, batches, smoothing):
    parameters = list(model.parameters())
    for p in parameters:
        p.grad = torch.zeros_like(p)
    count = sum((b.labels != 0).sum().item() for b in batches)
    nll = torch.zeros(())
    for batch in batches:
        logits = model(batch.source, batch.decoder_input)
        loss = with_a_target(logits, batch.labels, smoothing) * (batch.labels != 0).sum()
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        for p, g in zip(parameters, found, strict=True):
            p.grad += 0 if g is None else g / count
        nll = nll + with_a_target(logits.detach(), batch.labels, 0.0) * (batch.labels != 0).sum()
    return (nll / count).item()


def in_two_means(logits, labels, smoothing=0.1):
    keep = labels != 0
    if not keep.any():
        raise ValueError("no label")
    logp = logits[keep] - logits[keep].logsumexp(-1, keepdim=True)
    hard, even = -logp.take_along_dim(labels[keep][:, None], 1)[:, 0], -logp[:, 1:].mean(-1)
    return torch.lerp(hard, even, smoothing).mean()


def with_one_hot(logits, labels, smoothing=0.1):
    words = logits.size(-1) - 1
    if not labels.count_nonzero():
        raise ValueError("PAD alone")
    hot = F.one_hot(labels, words + 1).to(logits.dtype)
    target = (1 - smoothing) * hot + smoothing / words
    losses = -(target * logits.log_softmax(-1))[..., 1:].sum(-1)
    return (losses * labels.sign()).sum() / labels.count_nonzero()


RIGHT = {
    "08.1": [with_an_if, with_the_package, by_its_peak, in_logarithms],
    "08.2": [with_a_target, in_loops],
    "08.3": [in_two_passes, scaled_afterwards, weighted_means, with_autograd_grad],
    "08.4": ["C", "c"],
}


RIGHT["08.2"] += [in_two_means, with_one_hot]
