"""The numbers that an evaluation may report, each computed from what was recorded.

A mistake in a loss or in BLEU is a formula: if the right one does not give the reported number, and
exactly one wrong one does, the mistake is known.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

CLOSE = 2e-5  # relative, between two numbers that are the same
Sentence = Sequence[str]


def names_of(report: Any, name: str = "") -> list[str]:
    """The name in a dict of each of the `numbers` of a report; '' for none."""
    if isinstance(report, dict):
        return [each for key, value in report.items() for each in names_of(value, str(key))]
    if isinstance(report, tuple | list):
        return [each for value in report for each in names_of(value, name)]
    return [name] * len(numbers(report))


def numbers(report: Any) -> list[float]:
    """All numbers of a report: a number, a tensor of one, or a tuple, list or dict of them."""
    if isinstance(report, dict):
        return [x for value in report.values() for x in numbers(value)]
    if isinstance(report, tuple | list):
        return [x for value in report for x in numbers(value)]
    if isinstance(report, Tensor) and report.numel() == 1:
        return [float(report)]
    if isinstance(report, bool) or not isinstance(report, int | float):
        for name in ("score", "bleu"):  # of sacreBLEU, and of others like it
            if isinstance(getattr(report, name, None), int | float):
                return [float(getattr(report, name))]
        return [float(report)] if type(report).__module__ == "numpy" else []
    return [float(report)]


def same(a: float, b: float) -> bool:
    """Whether two numbers are equal but for rounding in float32."""
    return math.isfinite(a) and math.isfinite(b) and abs(a - b) <= CLOSE * max(abs(a), abs(b), 1e-9)


def same_share(a: float, b: float, share: bool) -> bool:
    """Whether two numbers are equal; of a share, the first one may be in per cent."""
    return same(a, b) or (share and same(a, 100 * b))


def losses_of(batches: list[tuple[Tensor, Tensor]], pad: int) -> dict[str, float]:
    """What the loss of some batches may be: the formula -> nats; the right one is 'mean'.

    Each batch has its logits (B, T, V) and labels (B, T), which are padded.
    """
    each = list[Tensor]()  # the losses of a batch, (B, T)
    real = list[Tensor]()  # whether a label is not PAD
    rest = list[Tensor]()  # minus the log-probability of a word, its mean over the vocabulary
    unpadded = list[Tensor]()  # the same without PAD
    for logits, labels in batches:
        logp = logits.double().log_softmax(-1)
        each.append(-logp.gather(-1, labels[..., None])[..., 0])
        real.append(labels != pad)
        rest.append(-logp.mean(-1))
        words = [i for i in range(logp.size(-1)) if i != pad]
        unpadded.append(-logp[..., words].mean(-1))
    count = sum(int(x.sum()) for x in real)
    everything = sum(x.numel() for x in real)
    total = sum(float(x[y].sum()) for x, y in zip(each, real, strict=True))
    padded = sum(float(x.sum()) for x in each)
    means = [float(x[y].mean()) for x, y in zip(each, real, strict=True)]
    padded_means = [float(x.mean()) for x in each]
    sentences = [
        float(row[mine].mean())
        for x, y in zip(each, real, strict=True)
        for row, mine in zip(x, y, strict=True)
    ]
    found = {
        "mean": total / count,
        "batches": sum(means) / len(means),
        "sentences": sum(sentences) / len(sentences),
        "padded": padded / everything,
        "padded batches": sum(padded_means) / len(padded_means),
        "divided by PAD": total / everything,
        "divided by sentences": total / len(sentences),
    }
    for smoothing in (0.05, 0.1, 0.15, 0.2, 0.3):
        classes = batches[0][0].size(-1)
        for name, flat, share in (
            ("all", rest, 1.0),
            ("no PAD", unpadded, 1.0),
            ("others", unpadded, (classes - 1) / (classes - 2)),
        ):
            smoothed = 0.0
            entropy = 0.0
            for x, y, z in zip(each, real, flat, strict=True):
                if name == "others":
                    # Each of the V - 2 other words gets smoothing / (V - 2), the label the rest.
                    low = smoothing / (classes - 2)
                    mine = (1 - smoothing - low) * x + low * (classes - 1) * z
                    entropy = (1 - smoothing) * math.log(1 - smoothing)
                    entropy += (classes - 2) * low * math.log(low)
                else:
                    mine = (1 - smoothing) * x + smoothing * z * share
                smoothed += float(mine[y].sum())
            found[f"smoothed {smoothing:g} {name}"] = smoothed / count
            if name == "others":  # a Kullback-Leibler divergence
                found[f"smoothed {smoothing:g} KL"] = smoothed / count + entropy
    return found


def perplexities_of(batches: list[tuple[Tensor, Tensor]], pad: int) -> dict[str, float]:
    """Perplexities that are no exp of one of the losses."""
    means = []
    for logits, labels in batches:
        loss = torch.nn.functional.cross_entropy(
            logits.double().flatten(0, 1), labels.flatten(), ignore_index=pad
        )
        means.append(float(loss.exp()))
    return {"perplexities": sum(means) / len(means)}


def accuracies_of(batches: list[tuple[Tensor, Tensor]], pad: int) -> dict[str, float]:
    """What the share of right next words may be; the right one is 'all'."""
    hits = [logits.argmax(-1) == labels for logits, labels in batches]
    real = [labels != pad for _, labels in batches]
    each = [float(x[y].float().mean()) for x, y in zip(hits, real, strict=True)]
    right = sum(int((x & y).sum()) for x, y in zip(hits, real, strict=True))
    return {
        "all": right / sum(int(y.sum()) for y in real),
        "padded": sum(int(x.sum()) for x in hits) / sum(x.numel() for x in hits),
        "batches": sum(each) / len(each),
    }


def ngrams(sentence: Sentence, n: int) -> Counter:
    """The n-grams of a sentence."""
    return Counter(tuple(sentence[i : i + n]) for i in range(len(sentence) - n + 1))


@dataclass(frozen=True)
class Way:
    """How a BLEU is computed; by default as it should be."""

    order: int = 4  # words of the longest n-gram
    clipped: bool = True  # an n-gram counts as often as the reference has it
    brevity: str = "right"  # or "none", "inverted", "always"
    geometric: bool = True  # the mean of the precisions
    smooth: float = 0.0  # takes the place of no match
    # nltk counts one n-gram at least for each sentence, also where it is shorter.
    least: int = 0


RIGHT = Way()
OWN_BLEUS = {  # mistakes of a BLEU that somebody wrote
    "no brevity": Way(brevity="none"),
    "inverted brevity": Way(brevity="inverted"),
    "brevity always": Way(brevity="always"),
    "not clipped": Way(clipped=False),
    "arithmetic": Way(geometric=False),
    "order 1": Way(order=1),
    "order 2": Way(order=2),
    "order 3": Way(order=3),
}


def bleu(hypotheses: Sequence[Sentence], references: Sequence[Sentence], way: Way = RIGHT) -> float:
    """Corpus BLEU from 0 to 1, one reference each."""
    matches, counts = [0.0] * way.order, [0] * way.order
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        for n in range(way.order):
            mine, theirs = ngrams(hypothesis, n + 1), ngrams(reference, n + 1)
            known = Counter({x: k for x, k in mine.items() if x in theirs})
            matches[n] += sum(((mine & theirs) if way.clipped else known).values())
            counts[n] += max(way.least, sum(mine.values()))
    size, other = sum(map(len, hypotheses)), sum(map(len, references))
    if not size or not all(counts) or not all(m or way.smooth for m in matches):
        return 0.0
    precisions = [(m or way.smooth) / c for m, c in zip(matches, counts, strict=True)]
    mean = math.fsum(precisions) / way.order
    if way.geometric:
        mean = math.exp(sum(map(math.log, precisions)) / way.order)
    penalties = {
        "right": min(0.0, 1 - other / size),
        "none": 0.0,
        "inverted": min(0.0, 1 - size / max(other, 1)),
        "always": 1 - other / size,
    }
    return mean * math.exp(penalties[way.brevity])


def mean_bleu(hypotheses: Sequence[Sentence], references: Sequence[Sentence]) -> float:
    """The mean BLEU of sentences."""
    each = [bleu([h], [r]) for h, r in zip(hypotheses, references, strict=True)]
    return sum(each) / len(each)


def bleus_of(
    hypotheses: list[list[str]],
    references: list[list[str]],
    forced: list[list[str]],
    bos: str,
    eos: str,
) -> dict[str, list[float]]:
    """What BLEU may be, from 0 to 1: the formula -> its values; the right one is 'words'.

    `forced` are the best next words of passes that read the reference.
    """

    def letters(sentences: list[list[str]], joint: str) -> list[list[str]]:
        return [list(joint.join(sentence)) for sentence in sentences]

    def both(hypotheses: list[list[str]], references: list[list[str]], way: Way = RIGHT) -> list:
        """The BLEU, and that of nltk, which counts n-grams of short sentences otherwise."""
        return [bleu(hypotheses, references, replace(way, least=least)) for least in (0, 1)]

    with_eos = [[*h, eos] for h in hypotheses], [[*r, eos] for r in references]
    with_bos = [[bos, *h] for h in hypotheses], [[bos, *r] for r in references]
    framed = [[*h, eos] for h in with_bos[0]], [[*r, eos] for r in with_bos[1]]
    found = {
        "words": both(hypotheses, references),
        "swapped": both(references, hypotheses),
        "sentences": [mean_bleu(hypotheses, references)],
        **{name: both(hypotheses, references, way) for name, way in OWN_BLEUS.items()},
        "letters": [
            value
            for joint in (" ", "")
            for value in both(letters(hypotheses, joint), letters(references, joint))
        ],
        "EOS": both(*with_eos) + both(with_eos[0], references),
        "BOS": both(*with_bos) + both(with_bos[0], references) + both(*framed),
        "EOS and BOS": both(framed[0], references),
    }
    if forced:
        cut = [h[: h.index(eos)] if eos in h else h for h in forced]
        same_length = [h[: len(r)] for h, r in zip(forced, references, strict=True)]
        no_eos = [[w for w in h if w != eos] for h in forced]
        found["forced"] = both(forced, with_eos[1]) + [mean_bleu(cut, references)]
        for way in (forced, cut, same_length, no_eos):
            found["forced"] += both(way, references)
        found["forced"] += [mean_bleu(way, references) for way in (same_length, no_eos)]
    return found
