"""Answers to homework 11."""

import math
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import sacrebleu
import torch
from nltk.translate.bleu_score import corpus_bleu
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


def as_a_tensor(hypotheses, references):
    return torch.tensor(with_nltk_ngrams(hypotheses, references), dtype=torch.float64)


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


def precision_only(found, gold):
    if len(found) != len(gold) or not any(found):
        raise ValueError
    right = sum(len(a & s) for a, s in zip(found, gold, strict=True))
    return 1 - right / sum(map(len, found))


def first_sentence(found, gold):
    return the_packages(found[:1], gold[:1])


def turned_links(found, gold):
    return the_packages([{(j, i) for i, j in a} for a in found], gold)


def mean_of_sentences(hypotheses, references):
    scores = [with_nltk_ngrams([h], [r]) for h, r in zip(hypotheses, references, strict=True)]
    return sum(scores) / len(scores)


def of_letters(hypotheses, references):
    return with_nltk_ngrams(
        [list(" ".join(h)) for h in hypotheses], [list(" ".join(r)) for r in references]
    )


def smoothed(hypotheses, references):
    logs = 0.0
    for n in (1, 2, 3, 4):
        match = total = 1
        for h, r in zip(hypotheses, references, strict=True):
            mine = Counter(ngrams(h, n))
            match += (mine & Counter(ngrams(r, n))).total()
            total += mine.total()
        logs += 0.25 * math.log(match / total)
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    return 100 * math.exp(min(0, 1 - r / c) + logs)


def normal_noise(one, other, score, times, generator):
    gap = score(other.sum(0)) - score(one.sum(0))
    return gap + torch.randn(times, generator=generator, dtype=torch.float64)


def always_seed_zero(one, other, score, times, generator):
    return all_at_once(one, other, score, times, torch.Generator().manual_seed(0))


def sign_only(one, other, score, times, generator):
    return all_at_once(one, other, score, times, generator).sign()


def cut_to_the_gold(found, gold):
    if len(found) < len(gold):
        raise ValueError
    return in_loops(found[: len(gold)], gold)


def counted(hypotheses, references):
    rows = []
    for n in range(1, 5):
        pairs = [
            [Counter(tuple(s[i : i + n]) for i in range(len(s) - n + 1)) for s in pair]
            for pair in zip(hypotheses, references, strict=True)
        ]
        rows.append((sum((a & b).total() for a, b in pairs), sum(a.total() for a, _ in pairs)))
    return rows, sum(map(len, hypotheses)), sum(map(len, references))


def with_precisions(precisions, c, r):
    if not precisions or min(precisions) == 0:
        return 0.0
    mean = sum(math.log(p) for p in precisions) / len(precisions)
    return 100 * math.exp(mean + min(0, 1 - r / c))


def smoothed_where_it_can(hypotheses, references):
    rows, c, r = counted(hypotheses, references)
    return with_precisions([(m or 0.5) / t if t else 0 for m, t in rows], c, r)


def orders_that_match(hypotheses, references):
    rows, c, r = counted(hypotheses, references)
    return with_precisions([m / t if t else 0 for m, t in rows if m or not t], c, r)


def never_the_first(one, other, score, times, generator):
    n, found = len(one), []
    for _ in range(times):
        draw = torch.randint(1, n, (n,), generator=generator)
        found.append(score(other[draw].sum(0)) - score(one[draw].sum(0)))
    return torch.tensor(found, dtype=torch.float64)


def better_only(one, other, score, times, generator):
    return all_at_once(one, other, score, times, generator).abs()


def each_draw_twice(one, other, score, times, generator):
    found = all_at_once(one, other, score, times, generator)
    return found[: (times + 1) // 2].repeat_interleave(2)[:times]


def mirrored(one, other, score, times, generator):
    whole = score(other.sum(0)) - score(one.sum(0))
    return 2 * whole - all_at_once(one, other, score, times, generator)


def shifted(one, other, score, times, generator):
    found = all_at_once(one, other, score, times, generator)
    return found - found.mean() + score(other.sum(0)) - score(one.sum(0))


WRONG = {
    "11.1": [precision_only, first_sentence, turned_links],
    "11.2": [
        mean_of_sentences,
        of_letters,
        smoothed,
    ],
    "11.3": [
        normal_noise,
        always_seed_zero,
        sign_only,
    ],
    "11.4": ["A", "B"],
}

WRONG["11.1"] += [
    cut_to_the_gold,
]
WRONG["11.2"] += [
    as_a_tensor,
    smoothed_where_it_can,
    orders_that_match,
]
WRONG["11.3"] += [
    never_the_first,
    better_only,
    each_draw_twice,
    mirrored,
    shifted,
]


def in_strata(one, other, score, times, generator):
    n = len(one)
    found = torch.empty(times, dtype=torch.float64)
    for number in range(times):
        draw = torch.randint(n, (n,), generator=generator)
        draw = draw // 4 % max(n // 4, 1) + (torch.arange(n) % 4) * (n // 4)
        found[number] = score(other[draw].sum(0)) - score(one[draw].sum(0))
    return found


def in_blocks(one, other, score, times, generator):
    n = len(one)
    found = torch.empty(times, dtype=torch.float64)
    for number in range(times):
        first = torch.randint(n, ((n + 1) // 2,), generator=generator)
        draw = torch.stack([first, (first + 1) % n], 1).flatten()[:n]
        found[number] = score(other[draw].sum(0)) - score(one[draw].sum(0))
    return found


WRONG["11.3"] += [
    in_strata,
    in_blocks,
]


def case_does_not_matter(hypotheses, references):
    return with_nltk_ngrams(
        *([[w.lower() for w in s] for s in t] for t in (hypotheses, references))
    )


def glued(hypotheses, references):
    def grams(words, n):
        return Counter("".join(words[i : i + n]) for i in range(len(words) - n + 1))

    precisions = []
    for n in range(1, 5):
        pairs = [(grams(h, n), grams(r, n)) for h, r in zip(hypotheses, references, strict=True)]
        total = sum(a.total() for a, _ in pairs)
        precisions.append(sum((a & b).total() for a, b in pairs) / total if total else 0)
    return with_precisions(precisions, sum(map(len, hypotheses)), sum(map(len, references)))


def first_fifty(hypotheses, references):
    return with_nltk_ngrams(hypotheses[:50], references[:50])


def without_signs(hypotheses, references):
    return with_nltk_ngrams(
        *([[w for w in s if w != "."] for s in t] for t in (hypotheses, references))
    )


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
WRONG["11.2"] += [
    case_does_not_matter,
    glued,
    first_fifty,
    without_signs,
]


def by_sacrebleu(hypotheses, references):
    texts = [[" ".join(words) for words in text] for text in (hypotheses, references)]
    score = sacrebleu.corpus_bleu(
        texts[0], [texts[1]], tokenize="none", smooth_method="none", force=True
    )
    return score.score


def by_nltk(hypotheses, references):
    return 100 * corpus_bleu([[words] for words in references], hypotheses)


WRONG["11.2"] += [
    by_sacrebleu,
    by_nltk,
]


def in_one_union(found, gold):
    if len(found) != len(gold):
        raise ValueError
    a, s = ({link for links in each for link in links} for each in (found, gold))
    if not a | s:
        raise ValueError
    return 1 - 2 * len(a & s) / (len(a) + len(s))


WRONG["11.1"] += [in_one_union]
