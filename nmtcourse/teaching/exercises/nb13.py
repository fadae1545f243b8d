"""The judges of notebook 13."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from nmtcourse.teaching.exercises import agree
from nmtlib.data.corpus import Pair

KINDS = ("right", "wrong word", "lost part", "invented")


def judge_1(sizes: Callable[[Sequence[str], Sequence[int]], list[int]], *, draw: Random) -> str:
    """How many different words occur at least so often."""
    for _ in range(20):
        words = [f"w{number}" for number in range(draw.randint(1, 12))]
        sentences = [
            " ".join(draw.choices(words, k=draw.randint(0, 9))) for _ in range(draw.randint(1, 8))
        ]
        minima = sorted(draw.sample(range(1, 8), draw.randint(1, 4)))
        counts = Counter(word for sentence in sentences for word in sentence.split())
        expected = [sum(count >= least for count in counts.values()) for least in minima]
        hint = "words of all sentences together; one that occurs exactly so often counts"
        agree(sizes, sentences, minima, expected=expected, why=hint)
    return "20 corpora"


def judge_2(kappa: Callable[[Sequence[str], Sequence[str]], float], *, draw: Random) -> str:
    """Cohen's kappa: the agreement of two readers beyond what their habits alone would give."""
    for number in range(20):
        size = draw.randint(2, 12)
        theirs = draw.choices(KINDS, weights=(8, 4, 2, 1), k=size)
        mine = [kind if draw.random() < 0.6 else draw.choice(KINDS) for kind in theirs]
        if number == 0:
            mine, theirs = ["right"] * size, ["right"] * size
        agree(kappa, mine, theirs, expected=agreement(mine, theirs))
    return "20 pairs of readers"


def agreement(mine: Sequence[str], theirs: Sequence[str]) -> float:
    """Cohen's kappa; 0 where chance alone explains everything."""
    size = len(mine)
    seen = sum(a == b for a, b in zip(mine, theirs, strict=True)) / size
    ours, others = Counter(mine), Counter(theirs)
    chance = sum(ours[kind] * others[kind] for kind in ours) / size**2
    return (seen - chance) / (1 - chance) if chance < 1 else 0.0


def judge_3(
    keep_confident: Callable[[list[Pair], list[float], float], list[Pair]], *, draw: Random
) -> str:
    """The pairs in which a model is most confident, in their old order."""
    cases = [(9, 0.25), (11, 0.8)]  # 2.25 and 8.8 pairs: neither rounded up nor rounded down
    for _ in range(18):
        cases.append((draw.randint(1, 12), draw.choice([0.0, 0.25, 0.5, 0.8, 1.0])))
    for size, share in cases:
        pairs = [Pair(f"s{number}", f"t{number}") for number in range(size)]
        confidences = [-draw.random() for _ in pairs]
        ranked = sorted(range(len(pairs)), key=lambda i: -confidences[i])
        best = sorted(ranked[: round(share * len(pairs))])
        expected = [pairs[i] for i in best]
        hint = "round(share * len(pairs)) of them, in their old order"
        agree(keep_confident, pairs, confidences, share, expected=expected, why=hint)
    return "20 lists of pairs"
