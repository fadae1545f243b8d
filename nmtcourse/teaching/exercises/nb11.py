"""The judges of notebook 11."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import torch
from sacrebleu.metrics import CHRF

from nmtcourse.teaching.course import load_toy
from nmtcourse.teaching.exercises import agree
from nmtlib import load_corpus
from nmtlib.data import PAD, collate

NOTHING: dict[int, tuple[int, list[int], list[int]]] = {  # length, n-grams, those that match
    10: (3, [3, 2, 1, 0], [2, 0, 0, 0]),  # no pair matches
    11: (3, [3, 2, 1, 0], [0, 0, 0, 0]),
    12: (1, [1, 0, 0, 0], [1, 0, 0, 0]),  # one word has no pair
    13: (0, [0, 0, 0, 0], [0, 0, 0, 0]),  # an empty output
}
# Texts whose F differs from a mean of eight, that lack some sizes, or that share nothing.
PAIRS = (
    (["the the the woman woman bought bought the"], ["the woman bought ."]),
    (["no ."], ["no ."]),
    (["a dog"], ["ein Hund"]),
    (["a", "no ."], ["a man .", "yes ."]),
    (["xyz"], ["abcdefgh"]),
)


def judge_1(bleu2: Callable[[list[int]], float], *, draw: Random) -> str:
    """BLEU of single words and pairs of words, from ten counts."""
    for turn in range(14):
        length, reference = draw.randint(20, 60), draw.randint(20, 60)
        totals = [length, length - 5, length - 10, length - 15]
        matched = [draw.randint(1, total) for total in totals]
        matched[3] = draw.choice([0, 1])  # orders that do not count here
        if turn in NOTHING:
            length, totals, matched = NOTHING[turn]
        found = matched[0] * matched[1]
        precisions = found / (totals[0] * totals[1]) if found else 0.0
        brevity = min(1.0, math.exp(1 - reference / length)) if found else 0.0
        hint = "the geometric mean of two precisions, times the brevity penalty, from 0 to 100"
        ten = [length, reference, *matched, *totals]
        agree(bleu2, ten, expected=100 * brevity * math.sqrt(precisions), why=hint)
    return "14 sets of counts"


def judge_2(chrf_plus: Callable[[list[str], list[str]], float], *, draw: Random) -> str:
    """chrF++ of a few sentences that differ from their references."""
    metric = CHRF(word_order=2)
    targets = [pair.target for pair in load_corpus("toy-de-en").test]
    sets = [*PAIRS]
    for _ in range(5):
        references = draw.sample(targets, 6)
        hypotheses = [damage(text, draw) for text in references]
        sets.append((hypotheses, references))
    for hypotheses, references in sets:
        expected = metric.corpus_score(hypotheses, [references]).score
        hint = "sum the n-grams of all sentences, then take F of the means over the sizes"
        agree(chrf_plus, hypotheses, references, expected=expected, tolerance=1e-4, why=hint)
    return f"{len(sets)} sets of sentences"


def damage(text: str, draw: Random) -> str:
    """The sentence with a word changed, moved or dropped; long enough for every n-gram."""
    words = text.split()
    place = draw.randrange(len(words) - 1)
    kind = draw.choice(["change", "move", "drop"])
    if kind == "change":
        words[place] = words[place][:-1] + "x"
    if kind == "move":
        words.insert(0, words.pop(place))
    if kind == "drop" and len(words) > 4:
        words.pop(place)
    return " ".join(words)


def judge_3(likelihood: Callable[[str, str], float], *, draw: Random) -> str:
    """The log-probability that the shipped model gives to a translation of a source."""
    translator = load_toy("de-en")
    pairs = draw.sample(load_corpus("toy-de-en").test, 6)
    for pair in pairs:
        for target in (pair.target, damage(pair.target, draw)):
            batch = collate([translator.example(pair.source, target)])
            with torch.no_grad():
                logits = translator.model(batch.source, batch.decoder_input)  # (1, T, V)
            logp = logits.log_softmax(dim=-1).gather(-1, batch.labels[..., None])[..., 0]
            expected = logp[batch.labels != PAD].sum().item()
            hint = "the sum over the words of the translation and its EOS"
            agree(likelihood, pair.source, target, expected=expected, tolerance=1e-3, why=hint)
    return f"{2 * len(pairs)} translations"
