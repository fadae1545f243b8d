"""The judges of notebook 13."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from random import Random

from nmtcourse.teaching.exercises import agree, call, equal, name_call, require_equal
from nmtlib.data.corpus import Pair

KINDS = ("right", "wrong word", "lost part", "invented", "too long")
WORDS = ("the", "The", "a", "a.", "dog", "dog,", ".", "red", "Red", "ball", "?", "runs")


def judge_1(sizes: Callable[[Sequence[str], Sequence[int]], list[int]], *, draw: Random) -> str:
    """How many different words occur at least so often."""
    for _ in range(20):
        words = draw.sample(WORDS, draw.randint(1, len(WORDS)))
        sentences = [
            " ".join(draw.choices(words, k=draw.randint(0, 9))) for _ in range(draw.randint(1, 8))
        ]
        sentences.append(draw.choice(sentences))  # one occurs twice
        minima = draw.choices(range(8), k=draw.randint(1, 6))  # in no order, some twice
        counts = Counter(word for sentence in sentences for word in sentence.split())
        expected = [sum(count >= least for count in counts.values()) for least in minima]
        hint = "words of all sentences together, as split() gives them; one number for each minimum"
        agree(sizes, sentences, minima, expected=expected, why=hint)
    return "20 corpora"


def judge_2(kappa: Callable[[Sequence[str], Sequence[str]], float], *, draw: Random) -> str:
    """Cohen's kappa: the agreement of two readers beyond what their habits alone would give."""
    for number in range(20):
        size = draw.randint(2, 12)
        theirs = draw.choices(KINDS, weights=(8, 4, 2, 1, 3), k=size)
        mine = [kind if draw.random() < 0.6 else draw.choice(KINDS) for kind in theirs]
        if number % 4 == 1:  # they agree less than by chance
            theirs = draw.choices(KINDS[:2], k=size)
            mine = [KINDS[kind == KINDS[0]] for kind in theirs]
            mine[0] = theirs[0] if size > 4 else mine[0]
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
        numbers = draw.choices(range(size), k=size)  # a pair may occur twice
        pairs = [Pair(f"s{number}", f"t{number}") for number in numbers]
        confidences = [-draw.randint(1, 4) / 4 for _ in pairs]  # with ties
        count = round(share * len(pairs))
        limit = sorted(confidences, reverse=True)[count - 1] if count else 0.0
        sure = [i for i, value in enumerate(confidences) if value > limit and count]
        tied = [i for i, value in enumerate(confidences) if value == limit]  # any of them will do
        options = [
            [pairs[i] for i in sorted([*sure, *more])]
            for more in combinations(tied, count - len(sure))
        ]
        given = call(keep_confident, pairs, confidences, share)
        hint = "round(share * len(pairs)) of them, in their old order"
        if not any(equal(given, option, 0.0) for option in options):
            what = name_call(keep_confident, (pairs, confidences, share))
            require_equal(what, given, options[0], why=hint)
    return "20 lists of pairs"
