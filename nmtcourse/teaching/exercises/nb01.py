"""The judges of notebook 01."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from nmtcourse.teaching.exercises import agree
from nmtlib.data.batching import Example, collate, padding_waste
from nmtlib.data.corpora import load_corpus
from nmtlib.data.tokenizers import BPETokenizer, Tokenizer
from nmtlib.specials import SPECIALS


def judge_1(share_of_unknown: Callable[[Counter[str], int], float], *, draw: Random) -> str:
    """Which share of the tokens becomes UNK in a vocabulary of some size, from the counts alone."""
    for size in (5, 20, 90, 100, 204, 300):
        counts = Counter({f"word{i}": draw.randint(1, 4 + 1000 // (i + 1)) for i in range(200)})
        ordered = sorted(counts.values(), reverse=True)
        share = sum(ordered[size - len(SPECIALS) :]) / sum(ordered)
        agree(share_of_unknown, counts, size, expected=share, tolerance=1e-6)
    return "6 vocabularies"


Plan = list[list[int]]


def judge_2(waste: Callable[[Sequence[Example], Plan], float], *, draw: Random) -> str:
    """The share of padding in the batches of a plan, from the lengths alone."""
    for _ in range(10):
        examples = []
        for _ in range(60):
            source, target = draw.randint(1, 15), draw.randint(2, 25)
            examples.append(Example([5] * source, [5] * target))
        plan: Plan = [[]]
        for i in draw.sample(range(60), 50):
            if plan[-1] and draw.random() < 0.2:
                plan.append([])
            plan[-1].append(i)
        batches = [collate([examples[i] for i in numbers]) for numbers in plan]
        agree(waste, examples, plan, expected=padding_waste(batches), tolerance=1e-6)
    return "10 plans"


SharedSubwords = Callable[[Tokenizer, Sequence[str], Sequence[str]], set[str]]


def judge_3(shared_subwords: SharedSubwords, *, draw: Random) -> str:
    """The subwords that a tokenizer uses in both of two lists of sentences."""
    pairs = load_corpus("toy-de-en").train
    for size in (120, 250, 400):
        drawn = draw.sample(pairs, 300)
        sources, targets = [pair.source for pair in drawn], [pair.target for pair in drawn]
        tokenizer = BPETokenizer.train([*sources, *targets], size)
        used = [
            {token for text in side for token in tokenizer.encode(text)}
            for side in (sources[:40], targets[:40])
        ]
        agree(shared_subwords, tokenizer, sources[:40], targets[:40], expected=used[0] & used[1])
    return "3 tokenizers"
