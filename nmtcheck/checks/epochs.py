"""Checks of a whole loop and a whole translation, by the broad parts `epoch` and `translate`."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmtcheck.adapter import Adapter
from nmtcheck.checks.optimisation import recorded
from nmtcheck.connect.broad import batch_of, batches_of
from nmtcheck.connect.standins import Batch, Loader, Vocabulary
from nmtcheck.measure.helpers import build, logits, pairs, still
from nmtcheck.registry import Finding, check

MEANT = "the mean loss over the words and EOS"
MISTAKES = {
    "its own input": "The labels are not shifted: the model learns to copy the word that it reads.",
    "the word after next": "The target is shifted twice: the model learns to skip a word.",
    "words and PAD": "PAD counts as a word: the loss ignores no id, or the wrong one.",
    "words without EOS": "EOS is never learned, so translations do not end.",
    "the source": "The labels are taken from the source.",
}


def losses(adapter: Adapter, table: Tensor, whole: Tensor, batch: Batch) -> dict[str, Tensor]:
    """What an epoch may take for its loss, by name: right and wrong ones.

    `table` holds the logits of the decoder input, `whole` those of whole targets.
    """
    labels, pad = batch.labels, adapter.pad

    def loss(table: Tensor, labels: Tensor, ignore: int = pad) -> Tensor:
        return F.cross_entropy(table.flatten(0, 1), labels.flatten(), ignore_index=ignore)

    end = labels == adapter.eos
    width = min(batch.source.size(1), whole.size(1))
    return {
        MEANT: loss(table, labels),
        "its own input": loss(whole, batch.target),
        "the word after next": loss(table[:, :-1], labels[:, 1:]),
        "words and PAD": loss(table, labels, -100),
        "words without EOS": loss(table, labels.masked_fill(end, pad)),
        "the source": loss(whole[:, :width], batch.source[:, :width]),
    }


def direction(loss: Tensor, own: list[nn.Parameter]) -> Tensor:
    """The gradient of a loss as one vector."""
    found = torch.autograd.grad(loss, own, retain_graph=True, allow_unused=True)
    pairs = zip(found, own)  # noqa: B905
    return torch.cat([(p * 0 if g is None else g).flatten() for g, p in pairs])


@check("training.gradient", "make_model", "epoch")
def gradient(adapter: Adapter, seed: int) -> str:
    """An update follows the gradient of the mean loss over the words and EOS of the targets."""
    model, batch = build(adapter, seed), batch_of(adapter, pairs(adapter, seed, [(5, 6), (4, 2)]))
    own = [p for p in model.train().parameters() if p.requires_grad]
    with still():
        table = adapter.logits(model, batch.source, batch.decoder_input)
        whole = adapter.logits(model, batch.source, batch.target)
    wanted = losses(adapter, table, whole, batch)
    directions = {name: direction(loss, own) for name, loss in wanted.items()}
    with still(), recorded(model) as steps:
        adapter.epoch(model, Loader([batch]), True)
    if not steps:
        raise Finding("an epoch of one batch made no optimizer step on the given model")
    made = steps[0].gradient
    agree = {n: float(F.cosine_similarity(made, d, dim=0)) for n, d in directions.items()}
    best = max(agree, key=lambda name: agree[name])
    # A loss of exactly that kind is told from the meant one even where they almost agree.
    if best == MEANT or (agree[MEANT] > 0.99 and agree[best] < 0.9999):
        return f"the first update follows {MEANT} (cosine {agree[MEANT]:.3f})"
    if agree[best] < 0.9:
        raise NotImplementedError("the gradient is not that of any known loss")
    message = f"the update follows the loss over {best} (cosine {agree[best]:.3f})"
    raise Finding(f"{message}, not {MEANT} ({agree[MEANT]:.3f})", MISTAKES[best])


@check("training.changes_weights", "make_model", "epoch")
def changes_weights(adapter: Adapter, seed: int) -> str:
    """An epoch of training changes the weights of the given model."""
    model, examples = build(adapter, seed), pairs(adapter, seed, [(4, 4)] * 6)
    before = [p.detach().clone() for p in model.parameters() if p.requires_grad]
    adapter.epoch(model, batches_of(adapter, examples), True)
    after = [p for p in model.parameters() if p.requires_grad]
    moved = sum(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    if not moved:
        raise Finding(f"after three batches all {len(after)} parameters are unchanged")
    return f"three batches change {moved} of {len(after)} parameters"


def reports(adapter: Adapter, model: nn.Module, batches: list[Batch]) -> dict[str, float]:
    """What an epoch may report for its loss, by cause; the first is right."""
    sums, counts = list[dict[str, float]](), list[int]()
    for batch in batches:
        logp = logits(adapter, model, batch.source, batch.decoder_input).log_softmax(-1)
        whole = logits(adapter, model, batch.source, batch.target)
        real, size = batch.labels != adapter.pad, logp.size(-1)
        each = -logp.gather(-1, batch.labels[..., None])[..., 0]
        copied = F.cross_entropy(whole.flatten(0, 1), batch.target.flatten(), reduction="none")
        tables = {"": each, "even": -logp.mean(-1), "specials": -logp[..., adapter.pad]}
        sums.append({name: float(x[real].sum()) for name, x in tables.items()})
        sums[-1] |= {"PAD": float(each.mean()), "copied": float(copied.mean())}
        counts.append(int(real.sum()))
    total, number = sum(counts), len(batches)
    summed = {name: sum(each[name] for each in sums) for name in sums[0]}
    mean = {name: value / total for name, value in summed.items()}
    apart = {n: sum(s[n] / c for s, c in zip(sums, counts, strict=True)) / number for n in mean}
    found = {
        "": mean[""],
        "Means of batches are averaged; short batches weigh more: sum first.": apart[""],
        "The losses of the batches are added up and never divided.": apart[""] * number,
        "PAD counts as a word: without ignore_index the loss is too low.": summed["PAD"] / number,
        "The labels are not shifted: they are what the decoder reads.": summed["copied"] / number,
        "The sum over all tokens is never divided by their number.": summed[""],
        "The sum over tokens is divided by the number of batches.": summed[""] / number,
        "The sum over tokens is divided by the number of sentences.": summed[""]
        / sum(len(batch.source) for batch in batches),
    }
    for share in (0.05, 0.1, 0.2):
        text = f"The loss is smoothed by {share}: report the one without smoothing, too."
        for kind, how in ((mean, ""), (apart, " (the mean of the batches)")):
            found[text + how] = (1 - share) * kind[""] + share * kind["even"]
            others = size * kind["even"] - kind["specials"] - kind[""]
            spread = (1 - share) * kind[""] + share * others / (size - 2)
            found[f"{text} (PAD gets no share){how}"] = spread
            entropy = (1 - share) * math.log(1 - share) + share * math.log(share / (size - 2))
            found[f"{text} (a divergence){how}"] = spread + entropy
    return found


@check("validation.mean", "make_model", "epoch")
def mean(adapter: Adapter, seed: int) -> str:
    """The loss of an epoch is the mean negative log-likelihood of all its tokens."""
    examples = pairs(adapter, seed, [(6, 9), (5, 8), (2, 1), (1, 1), (1, 2), (3, 1)])
    model, batches = build(adapter, seed), batches_of(adapter, examples)
    found = float(adapter.epoch(model, batches, False))
    known = reports(adapter, model.eval(), batches)
    right, value = known[""], f"{found:.3f} nats"
    if abs(found / right - 1) < 1e-3:
        return f"{value}, the mean over the tokens of {len(batches)} batches"
    cause = min(known, key=lambda cause: abs(found / known[cause] - 1))
    if abs(found / known[cause] - 1) < 1e-3:
        raise Finding(f"the reported loss is {found:.3f}; over all tokens {right:.3f}", cause)
    raise NotImplementedError(f"{value} is no mean of {right:.3f} nats that is known")


@check("decoding.eval_mode", "make_model", "translate")
def eval_mode(adapter: Adapter, seed: int) -> str:
    """A translation is made without dropout."""
    model = build(adapter, seed, dropout=0.5)
    words = Vocabulary(100, pad=adapter.pad, bos=adapter.bos, eos=adapter.eos)
    sentences = [words.lookup_tokens(ids) for ids, _ in pairs(adapter, seed, [(4, 1)] * 6)]

    def said() -> list[str]:
        return [str(adapter.translate(model.train(), list(words), 8)) for words in sentences]

    first, second = said(), said()
    if differ := sum(a != b for a, b in zip(first, second, strict=True)):
        raise Finding(f"{differ} of {len(first)} sentences differ the second time")
    return f"{len(first)} sentences get the same translation twice, from a model in train mode"
