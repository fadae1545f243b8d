"""Answers to homework 01."""

import random
import re
from collections import Counter

import numpy as np

from nmtlib.data.batching import plan_batches
from nmtlib.data.codec import Vocab


class WithTheCourse:
    def __init__(self, sentences, min_count=1):
        self.vocab = Vocab.build(sentences, min_count=min_count)

    def encode(self, words):
        return self.vocab.encode(words)

    def decode(self, ids):
        return ["<UNK>" if i == 3 else self.vocab.tokens[i] for i in ids if i > 2]


class WithDictionaries:
    def __init__(self, sentences, min_count=1):
        counts = {}
        for sentence in sentences:
            for word in sentence:
                counts[word] = counts.get(word, 0) + 1
        self.to_id, self.to_word = {}, {3: "<UNK>"}
        for word in sorted(sorted(counts), key=counts.get, reverse=True):
            if counts[word] >= min_count:
                self.to_id[word] = len(self.to_id) + 4
                self.to_word[len(self.to_id) + 3] = word

    def encode(self, words):
        return [self.to_id[w] if w in self.to_id else 3 for w in words]

    def decode(self, ids):
        return [self.to_word[i] for i in ids if i in self.to_word]


class AsTuples(WithDictionaries):
    def encode(self, words):
        return tuple(super().encode(words))


class WithNumpy(WithDictionaries):
    def __init__(self, sentences, min_count=1):
        words, counts = np.unique([w for s in sentences for w in s], return_counts=True)
        order = np.lexsort((words, -counts))
        kept = [str(words[i]) for i in order if counts[i] >= min_count]
        self.to_id = {w: i for i, w in enumerate(kept, 4)}
        self.to_word = {3: "<UNK>"} | {i: w for w, i in self.to_id.items()}


def with_strings(words, merges):
    pieces, found = {w: " ".join(w) for w in words}, []
    for _ in range(merges):
        counts = Counter()
        for w, n in words.items():
            parts = pieces[w].split()
            for a, b in zip(parts, parts[1:], strict=False):
                counts[a, b] += n
        if not counts:
            break
        a, b = sorted(counts, key=lambda p: (-counts[p], p))[0]
        found.append((a, b))
        pattern = re.compile(rf"(?<!\S){re.escape(a)} {re.escape(b)}(?!\S)")
        pieces = {w: pattern.sub(a + b, text) for w, text in pieces.items()}
    return found


def with_tuples(words, merges):
    table = [(tuple(w), n) for w, n in words.items()]
    found = []
    while len(found) < merges:
        counts = Counter()
        for parts, n in table:
            for k in range(1, len(parts)):
                counts[parts[k - 1 : k + 1]] += n
        if len(counts) == 0:
            break
        most = max(counts.values())
        pair = min(p for p, n in counts.items() if n == most)
        found.append(pair)
        new = []
        for parts, n in table:
            out = []
            rest = list(parts)
            while rest:
                if tuple(rest[:2]) == pair:
                    out.append("".join(pair))
                    del rest[:2]
                else:
                    out.append(rest.pop(0))
            new.append((tuple(out), n))
        table = new
    return found


def in_alphabetical_order(words, merges):
    return with_tuples(dict(sorted(words.items())), merges)


def with_recursion(words, merges, split=None):
    split = split or {w: list(w) for w in words}
    pairs = [(p, words[w]) for w, s in split.items() for p in zip(s, s[1:], strict=False)]
    if merges == 0 or not pairs:
        return []
    totals = {}
    for pair, n in pairs:
        totals[pair] = totals.get(pair, 0) + n
    best = min(totals, key=lambda p: (-totals[p], p[0], p[1]))
    new = {}
    for w, s in split.items():
        out = []
        for piece in s:
            if out and (out[-1], piece) == best and out[-1] is not None:
                out[-1:] = ["".join(best), None]
            else:
                out.append(piece)
        new[w] = [piece for piece in out if piece is not None]
    return [best, *with_recursion(words, merges - 1, new)]


def with_the_package(lengths, budget, seed):
    for number, length in enumerate(lengths):
        if length > budget:
            raise ValueError(f"sentence {number} is too long")
    table = np.array([lengths, lengths]).T
    return [batch.tolist() for batch in plan_batches(table, budget, seed=seed)]


def with_random(lengths, budget, seed):
    if max(lengths) > budget:
        raise ValueError(f"sentence {lengths.index(max(lengths))} exceeds {budget}")
    rng = random.Random(seed)
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], rng.random()))
    batches = [[]]
    for i in order:
        if (len(batches[-1]) + 1) * lengths[i] > budget:
            batches.append([])
        batches[-1].append(i)
    rng.shuffle(batches)
    return batches


def longest_first(lengths, budget, seed):
    rng = np.random.default_rng(seed)
    keys = np.array(lengths) + rng.random(len(lengths)) * 0.9
    batches, current, longest = [], [], 0
    for i in np.argsort(-keys):
        if lengths[i] > budget:
            raise ValueError(f"number {i}: {lengths[i]} > {budget}")
        longest = max(longest, lengths[i])
        if (len(current) + 1) * longest > budget:
            batches.append(current)
            current, longest = [], lengths[i]
        current.append(int(i))
    batches.append(current)
    return [batches[i] for i in rng.permutation(len(batches))]


RIGHT = {
    "01.1": [WithTheCourse, WithDictionaries, AsTuples, WithNumpy],
    "01.2": [with_strings, with_tuples, in_alphabetical_order, with_recursion],
    "01.3": [with_the_package, with_random, longest_first],
    "01.4": ["A", "a"],
}


RIGHT["01.3"].append(
    lambda lengths, budget, seed: tuple(map(tuple, with_random(lengths, budget, seed)))
)


class WithADefault(WithDictionaries):
    def encode(self, words):
        return map(super().encode, [words]).__next__()


RIGHT["01.1"] += [WithADefault]
