"""Answers to homework 10."""

import heapq
import math

import torch
from torch.nn import functional as F

BOS, EOS = 1, 2


def with_for(log_probs, longest):
    words = []
    for _ in range(longest):
        word = log_probs([BOS, *words]).argmax().item()
        if word == EOS:
            return words
        words.append(word)
    return words


def with_lists(log_probs, longest):
    said = [1]
    for _ in range(longest):
        row = log_probs(said).tolist()
        said.append(row.index(max(row)))
        if said[-1] == 2:
            return said[1:-1]
    return said[1:]


def with_recursion(log_probs, longest, said=(BOS,)):
    if longest == 0:
        return []
    word = int(torch.topk(log_probs(list(said)), 1).indices)
    if word == EOS:
        return []
    return [word, *with_recursion(log_probs, longest - 1, (*said, word))]


def as_tensors(log_probs, longest):
    found = torch.tensor([BOS])
    while len(found) <= longest:
        best = log_probs(found.tolist()).exp().max(0).indices
        if best == EOS:
            break
        found = torch.cat([found, best[None]])
    return found[1:].tolist()


def as_a_tuple(log_probs, longest):
    return tuple(with_for(log_probs, longest))


def with_a_heap(log_probs, width, longest):
    beam, done = [(0.0, [BOS])], []
    while beam:
        every = []
        for total, said in beam:
            for word, logp in enumerate(log_probs(said).tolist()):
                if word == EOS or len(said) <= longest:
                    every.append((total + logp, [*said, word]))
        kept = heapq.nlargest(width, every)
        done += [c for c in kept if c[1][-1] == EOS]
        beam = [c for c in kept if c[1][-1] != EOS]
        if done and beam and max(done)[0] >= beam[0][0]:
            break
    total, ids = max(done)
    return ids[1:-1], total


def with_tensors(log_probs, width, longest):
    said, totals, best, result = [[BOS]], torch.zeros(1, dtype=torch.float64), -math.inf, []
    while len(said):
        scores = torch.stack([log_probs(ids).double() for ids in said]) + totals[:, None]
        if len(said[0]) == longest + 1:
            only = torch.full_like(scores, -math.inf)
            only[:, EOS] = scores[:, EOS]
            scores = only
        values, places = scores.flatten().topk(min(width, scores.numel()))
        next_said, next_totals = [], []
        for value, place in zip(values, places, strict=True):
            row, word = divmod(int(place), scores.size(1))
            if value == -math.inf:
                continue
            if word == EOS:
                if value > best:
                    best, result = float(value), said[row][1:]
            else:
                next_said.append([*said[row], word])
                next_totals.append(value)
        if not next_said or best >= float(next_totals[0]):
            return result, best
        said, totals = next_said, torch.stack(next_totals)
    return result, best


def as_lists(log_probs, width, longest):
    return list(with_a_heap(log_probs, width, longest))


def with_dictionaries(log_probs, width, longest):
    beam, best = {(BOS,): 0.0}, (-math.inf, ())
    for step in range(longest + 1):
        grown = {}
        for said, total in beam.items():
            logp = log_probs(list(said))
            for word in [EOS] if step == longest else range(len(logp)):
                grown[(*said, word)] = total + float(logp[word])
        grown = dict(sorted(grown.items(), key=lambda item: item[1], reverse=True)[:width])
        best = max([best, *((v, k) for k, v in grown.items() if k[-1] == EOS)])
        beam = {k: v for k, v in grown.items() if k[-1] != EOS}
        if not beam or best[0] >= max(beam.values()):
            break
    return list(best[1][1:-1]), best[0]


class WithLists:
    def __init__(self, query, key, value):
        self.maps, self.keys, self.values = (query, key, value), [], []

    def step(self, x):
        q, k, v = (f(x.unsqueeze(1)) for f in self.maps)
        self.keys.append(k)
        self.values.append(v)
        return F.scaled_dot_product_attention(
            q, torch.cat(self.keys, 1), torch.cat(self.values, 1)
        ).squeeze(1)

    def reorder(self, parents):
        self.keys = [k.index_select(0, parents) for k in self.keys]
        self.values = [v.index_select(0, parents) for v in self.values]


class WithOneCache:
    def __init__(self, query, key, value):
        self.query, self.key, self.value = query, key, value
        self.cache = None

    def step(self, x):
        new = torch.stack([self.key(x[:, None]), self.value(x[:, None])])
        self.cache = new if self.cache is None else torch.cat([self.cache, new], dim=2)
        keys, values = self.cache
        q = self.query(x[:, None])
        weights = torch.einsum("bqk,bsk->bqs", q, keys).div(q.shape[-1] ** 0.5).softmax(-1)
        return torch.einsum("bqs,bsk->bk", weights, values)

    def reorder(self, parents):
        self.cache = self.cache[:, parents]


class Preallocated:
    def __init__(self, query, key, value):
        self.f, self.n, self.store = (query, key, value), 0, None

    def step(self, x):
        q, k, v = (f(x[:, None])[:, 0] for f in self.f)
        if self.store is None:
            self.store = x.new_zeros(2, len(x), 256, k.size(-1))
        self.store[0, :, self.n], self.store[1, :, self.n] = k, v
        self.n += 1
        keys, values = self.store[0, :, : self.n], self.store[1, :, : self.n]
        weights = ((keys @ q[..., None])[..., 0] / math.sqrt(k.size(-1))).softmax(-1)
        return (weights[..., None] * values).sum(1)

    def reorder(self, parents):
        self.store = self.store[:, parents].clone()


class RowByRow:
    def __init__(self, query, key, value):
        self.query, self.key, self.value, self.rows = query, key, value, None

    def step(self, x):
        q, k, v = (f(x[:, None])[:, 0] for f in (self.query, self.key, self.value))
        if self.rows is None:
            self.rows = [([], []) for _ in x]
        results = []
        for row, (keys, values) in enumerate(self.rows):
            keys.append(k[row])
            values.append(v[row])
            weights = (torch.stack(keys) @ q[row] / len(q[row]) ** 0.5).softmax(0)
            results.append(weights @ torch.stack(values))
        return torch.stack(results)

    def reorder(self, parents):
        self.rows = [tuple(list(part) for part in self.rows[int(p)]) for p in parents]


RIGHT = {
    "10.1": [with_for, with_lists, with_recursion, as_tensors, as_a_tuple],
    "10.2": [with_a_heap, with_tensors, as_lists, with_dictionaries],
    "10.3": [WithLists, WithOneCache, Preallocated, RowByRow],
    "10.4": ["B", "b"],
}


def asks_once_more(log_probs, longest):
    words = with_for(log_probs, longest)
    log_probs([BOS, *words])
    log_probs([BOS, *words])
    return words


def never_empty(log_probs, longest):
    said = [BOS, int(log_probs([BOS])[4:].argmax()) + 4]
    while len(said) <= longest and (word := int(log_probs(said).argmax())) != EOS:
        said.append(word)
    return said[1:]


def ignores_the_limit(log_probs, longest):
    return with_for(log_probs, 12)


def always_greedy(log_probs, width, longest):
    return with_a_heap(log_probs, 1, longest)


def runs_to_the_end(log_probs, width, longest):
    beam, done = [([BOS], 0.0)], []
    for step in range(longest + 1):
        grown = []
        for said, total in beam:
            logp = log_probs(said).tolist()
            for word in [EOS] if step == longest else range(len(logp)):
                grown.append(([*said, word], total + logp[word]))
        grown = sorted(grown, key=lambda c: -c[1])
        done += [c for c in grown[:width] if c[0][-1] == EOS]
        beam = [c for c in grown if c[0][-1] != EOS][:width]
    ids, total = max(done, key=lambda c: c[1])
    return ids[1:-1], total


def positive_scores(log_probs, width, longest):
    words, total = with_a_heap(log_probs, width, longest)
    return words, -total


class SharedRows(RowByRow):
    def reorder(self, parents):
        self.rows = [self.rows[int(p)] for p in parents]


class KeepsTheQueries(WithLists):
    def step(self, x):
        q, k, v = (f(x.unsqueeze(1)) for f in self.maps)
        self.keys.append(q)
        self.values.append(v)
        return F.scaled_dot_product_attention(
            q, torch.cat(self.keys, 1), torch.cat(self.values, 1)
        ).squeeze(1)


class Recomputes(WithLists):
    def step(self, x):
        self.keys.append(x[:, None])
        q, k, v = (f(torch.cat(self.keys, 1)) for f in self.maps)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, -1]


def no_word_twice(log_probs, longest):
    said = [BOS]
    while len(said) <= longest and (word := int(log_probs(said).argmax())) not in (EOS, said[-1]):
        said.append(word)
    return said[1:]


def asks_at_the_limit(log_probs, longest):
    said, word = [BOS], int(log_probs([BOS]).argmax())
    while word != EOS and len(said) <= longest:
        said.append(word)
        word = int(log_probs(said).argmax())
    return said[1:]


def ends_above_a_half(log_probs, longest):
    said = [BOS]
    while len(said) <= longest:
        scores = log_probs(said).clone()
        if scores[EOS] > -0.69:
            break
        scores[EOS] = -torch.inf
        said.append(int(scores.argmax()))
    return said[1:]


def searched_with(log_probs, width, longest, enough=99, shrinks=False, merge=False):
    going, done = [([BOS], 0.0)], []
    while going and len(done) < enough:
        grown = []
        for said, total in going:
            logp = log_probs(said).tolist()
            words = [EOS] if len(said) > longest else range(len(logp))
            grown += [([*said, word], total + logp[word]) for word in words]
        grown.sort(key=lambda c: -c[1])
        if merge:
            grown = list({c[0][-1]: c for c in reversed(grown)}.values())[::-1]
            grown.sort(key=lambda c: -c[1])
        grown = grown[:width]
        ended = [c for c in grown if c[0][-1] == EOS]
        done, going = done + ended, [c for c in grown if c[0][-1] != EOS]
        width = max(width - len(ended), 1) if shrinks else width
        if done and going and max(c[1] for c in done) >= going[0][1]:
            break
    ids, total = max(done, key=lambda c: c[1])
    return ids[1:-1], total


def enough_ended(log_probs, width, longest):
    return searched_with(log_probs, width, longest, enough=width)


def ends_take_places(log_probs, width, longest):
    return searched_with(log_probs, width, longest, shrinks=True)


def one_for_each_last_word(log_probs, width, longest):
    return searched_with(log_probs, width, longest, merge=True)


class WrongWayRound(WithLists):
    def reorder(self, parents):
        is_permutation = sorted(parents.tolist()) == list(range(len(parents)))
        super().reorder(parents.argsort() if is_permutation and len(parents) > 1 else parents)


class OneForAll(WithLists):
    shared: list = [[], []]

    def __init__(self, query, key, value):
        super().__init__(query, key, value)
        self.keys, self.values = self.shared
        self.keys.clear()
        self.values.clear()


WRONG = {
    "10.1": [
        asks_once_more,
        never_empty,
        ignores_the_limit,
    ],
    "10.2": [
        always_greedy,
        runs_to_the_end,
        positive_scores,
    ],
    "10.3": [
        SharedRows,
        KeepsTheQueries,
        Recomputes,
    ],
    "10.4": ["A", "C"],
}

WRONG["10.1"] += [
    no_word_twice,
    asks_at_the_limit,
    ends_above_a_half,
]
WRONG["10.2"] += [
    enough_ended,
    ends_take_places,
    one_for_each_last_word,
]
WRONG["10.3"] += [
    WrongWayRound,
    OneForAll,
]


class ForgetsTheAxis:
    def __init__(self, query, key, value):
        self.query, self.key, self.value = query, key, value

    def reorder(self, parents):
        pass

    def step(self, x):
        return F.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))


WRONG["10.3"] += [ForgetsTheAxis]
