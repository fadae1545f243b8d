"""The judges of notebook 01."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from nmtcourse.teaching.exercises import agree
from nmtcourse.teaching.language import say
from nmtlib.data.batching import Example, collate, padding_waste
from nmtlib.data.corpora import load_corpus
from nmtlib.data.tokenizers import BPETokenizer, Tokenizer
from nmtlib.specials import SPECIALS


def judge_1(share_of_unknown: Callable[[Counter[str], int], float], *, draw: Random) -> str:
    """Which share of the tokens becomes UNK in a vocabulary of some size, from the counts alone."""
    for size in (5, 20, 90, 100, 204, 300):
        words = 7 if size == 5 else 200  # a short message first
        counts = Counter({f"word{i}": draw.randint(1, 4 + 1000 // (i + 1)) for i in range(words)})
        ordered = sorted(counts.values(), reverse=True)
        share = sum(ordered[size - len(SPECIALS) :]) / sum(ordered)
        why = "4 of the size entries are <PAD>, <BOS>, <EOS> and <UNK>"
        agree(share_of_unknown, counts, size, expected=share, tolerance=1e-6, why=why)
    return "6 vocabularies"


Plan = list[list[int]]


class Length(Sequence[int]):
    """A side of a pair of which only the length can be seen."""

    def __init__(self, length: int):
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        raise TypeError(say("the tokens are not given, their number is enough"))

    def __repr__(self) -> str:
        return f"<{self.length} tokens>"


def judge_2(waste: Callable[[Sequence[Example], Plan], float], *, draw: Random) -> str:
    """The share of padding in the batches of a plan, from the lengths alone."""
    small = [Example([5] * source, [5] * target) for source, target in ((1, 3), (2, 2), (3, 1))]
    cases: list[tuple[list[Example], Plan]] = [(small, [[2, 0], [1]])]  # a reader can count it
    for _ in range(9):
        examples = []
        for _ in range(60):
            source, target = draw.randint(1, 15), draw.randint(2, 25)
            examples.append(Example([5] * source, [5] * target))
        plan: Plan = [[]]
        for i in draw.sample(range(60), 50):
            if plan[-1] and draw.random() < 0.2:
                plan.append([])
            plan[-1].append(i)
        cases.append((examples, plan))
    why = "all padding of both sides, by all positions of both sides"
    for examples, plan in cases:
        batches = [collate([examples[i] for i in numbers]) for numbers in plan]
        lengths = [Example(Length(len(s)), Length(len(t))) for s, t in examples]
        agree(waste, lengths, plan, expected=padding_waste(batches), tolerance=1e-6, why=why)
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
