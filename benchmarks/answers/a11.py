"""Answers to homework 11."""

import math
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import torch
from nltk.util import ngrams

from nmtcourse.teaching.alignment import alignment_error_rate as the_packages


def with_the_package(found, gold):
    return the_packages(found, gold)


def with_labels(found, gold):
    if len(found) != len(gold):
        raise ValueError("not the same sentences")
    a = {(i, *link) for i, links in enumerate(found) for link in links}
    s = {(i, *link) for i, links in enumerate(gold) for link in links}
    if not a and not s:
        raise ValueError("nothing")
    return 1 - 2 * len(a & s) / (len(a) + len(s))


def by_precision_and_recall(found, gold):
    right = sum(len(a & s) for a, s in zip(found, gold, strict=True))
    a, s = sum(map(len, found)), sum(map(len, gold))
    if a + s == 0:
        raise ValueError("no links")
    if right == 0:
        return 1.0
    p, r = right / a, right / s
    return 1 - 2 * p * r / (p + r)


def by_differences(found, gold):
    if len(found) != len(gold):
        raise ValueError
    wrong = sum(len(a ^ s) for a, s in zip(found, gold, strict=True))
    size = sum(len(a) + len(s) for a, s in zip(found, gold, strict=True))
    if size == 0:
        raise ValueError
    return wrong / size


def in_loops(found, gold):
    if len(found) != len(gold):
        raise ValueError
    right = a = s = 0
    for one, other in zip(found, gold, strict=True):
        for link in one:
            a += 1
            right += link in other
        s += len(other)
    if a + s == 0:
        raise ValueError
    return (a + s - right - right) / (a + s)


def with_nltk_ngrams(hypotheses, references):
    logs = 0.0
    for n in (1, 2, 3, 4):
        match = total = 0
        for h, r in zip(hypotheses, references, strict=True):
            mine, theirs = Counter(ngrams(h, n)), Counter(ngrams(r, n))
            match += sum(min(count, theirs[gram]) for gram, count in mine.items())
            total += max(len(h) - n + 1, 0)
        if match == 0:
            return 0.0
        logs += 0.25 * math.log(match / total)
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    return 100 * (1 if c > r else math.exp(1 - r / c)) * math.exp(logs)


def with_numpy(hypotheses, references):
    def row(h, r):
        made = []
        for n in range(1, 5):
            mine = Counter(zip(*(h[k:] for k in range(n)), strict=False))
            theirs = Counter(zip(*(r[k:] for k in range(n)), strict=False))
            made += [sum((mine & theirs).values()), sum(mine.values())]
        return [*made, len(h), len(r)]

    sums = np.array([row(h, r) for h, r in zip(hypotheses, references, strict=True)]).sum(0)
    match, total = sums[:8:2], sums[1:8:2]
    if (match == 0).any():
        return 0.0
    return 100 * np.prod(match / total) ** 0.25 * min(1, np.exp(1 - sums[9] / sums[8]))


def in_plain_loops(hypotheses, references):
    score = 1.0
    for n in range(1, 5):
        right = all_of_them = 0
        for h, r in zip(hypotheses, references, strict=True):
            left = defaultdict(int)
            for i in range(len(r) - n + 1):
                left[" ".join(r[i : i + n])] += 1
            for i in range(len(h) - n + 1):
                all_of_them += 1
                gram = " ".join(h[i : i + n])
                if left[gram] > 0:
                    left[gram] -= 1
                    right += 1
        score *= right / all_of_them if all_of_them else 0
    c = sum(len(h) for h in hypotheses)
    r = sum(len(x) for x in references)
    if score == 0:
        return 0
    return 100.0 * score**0.25 * (math.exp(1 - r / c) if c < r else 1.0)


def all_at_once(one, other, score, times, generator):
    draws = torch.randint(0, len(one), (times, len(one)), generator=generator)
    first, second = one[draws].sum(1), other[draws].sum(1)
    return torch.tensor(
        [score(b) - score(a) for a, b in zip(first, second, strict=True)], dtype=torch.float64
    )


def with_counts(one, other, score, times, generator):
    n = len(one)
    found = torch.empty(times, dtype=torch.float64)
    for number in range(times):
        chosen = torch.multinomial(torch.ones(n), n, replacement=True, generator=generator)
        often = torch.bincount(chosen, minlength=n).to(one.dtype)
        found[number] = score(often @ other) - score(often @ one)
    return found


def with_numpy_indices(one, other, score, times, generator):
    seed = int(torch.randint(2**31, (1,), generator=generator))
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(times):
        rows = rng.integers(0, len(one), len(one))
        found.append(float(score(other[rows].sum(0))) - float(score(one[rows].sum(0))))
    return torch.from_numpy(np.array(found))


def with_uniform_numbers(one, other, score, times, generator):
    n = one.size(0)
    both = torch.cat([one, other], 1)
    result = []
    for _ in range(times):
        sums = both[(torch.rand(n, generator=generator) * n).long()].sum(0)
        a, b = sums.chunk(2)
        result.append(score(b) - score(a))
    return torch.as_tensor(result, dtype=torch.double)


RIGHT = {
    "11.1": [with_the_package, with_labels, by_precision_and_recall, by_differences, in_loops],
    "11.2": [with_nltk_ngrams, with_numpy, in_plain_loops],
    "11.3": [all_at_once, with_counts, with_numpy_indices, with_uniform_numbers],
    "11.4": ["C", "c"],
}


def counted(hypotheses, references):
    rows = []
    for n in range(1, 5):
        pairs = [
            [Counter(tuple(s[i : i + n]) for i in range(len(s) - n + 1)) for s in pair]
            for pair in zip(hypotheses, references, strict=True)
        ]
        rows.append((sum((a & b).total() for a, b in pairs), sum(a.total() for a, _ in pairs)))
    return rows, sum(map(len, hypotheses)), sum(map(len, references))


def as_a_fraction(hypotheses, references):
    rows, c, r = counted(hypotheses, references)
    if not all(m for m, _ in rows):
        return Fraction(0)
    product = Fraction(1)
    for m, t in rows:
        product *= Fraction(m, t)
    return 100 * float(product) ** 0.25 * math.exp(min(0, 1 - r / c))


def with_numbers_for_words(hypotheses, references):
    numbers = {}
    texts = (
        [[numbers.setdefault(w, len(numbers)) for w in s] for s in t]
        for t in (hypotheses, references)
    )
    return with_numpy(*texts)


RIGHT["11.2"] += [as_a_fraction, with_numbers_for_words]
