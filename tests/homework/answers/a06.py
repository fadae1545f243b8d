"""Answers to homework 06."""

import math

import numpy as np
import torch

from nmtlib.model.attention import padding_mask, target_mask


def with_the_package(source, target, pad=0):
    return padding_mask(source, pad), target_mask(target, pad), padding_mask(source, pad)


def in_loops(source, target, pad=0):
    s, t = source.shape[1], target.shape[1]
    encoder = torch.zeros(len(source), 1, 1, s, dtype=torch.bool)
    decoder = torch.zeros(len(target), 1, t, t, dtype=torch.bool)
    for b in range(len(source)):
        for j in range(s):
            encoder[b, 0, 0, j] = source[b, j] != pad
        for i in range(t):
            for j in range(i + 1):
                decoder[b, 0, i, j] = target[b, j] != pad
    return encoder, decoder, encoder.clone()


def by_comparing_places(source, target, pad=0):
    place = torch.arange(target.size(1))
    past = place.view(1, 1, -1, 1) >= place.view(1, 1, 1, -1)
    keys = source.ne(pad).unsqueeze(1).unsqueeze(2)
    return [keys, target.ne(pad).unsqueeze(1).unsqueeze(2) * past, keys]


def with_numpy(source, target, pad=0):
    past = np.tril(np.ones((target.size(1), target.size(1)), dtype=bool))
    keys = torch.from_numpy(source.numpy() != pad)[:, None, None]
    own = torch.from_numpy((target.numpy() != pad)[:, None, None] & past)
    return keys, own, keys


def one_by_one_and_row_by_row(logits, source, target, vocabulary):
    found = set()
    for b in range(len(source)):
        old = logits(source, target)[b]
        for j in range(target.size(1)):
            new = target.clone()
            new[b, j] = 4 if target[b, j] != 4 else 5
            now = logits(source, new)[b]
            for i in range(j):
                if (old[i] - now[i]).abs().max() > 1e-4:
                    found.add(j - i)
    return sorted(found)


def with_allclose(logits, source, target, vocabulary):
    distances = []
    original = logits(source, target)
    for j in range(target.size(1)):
        other = target.clone()
        other[:, j] = torch.where(other[:, j] == vocabulary - 1, 4, other[:, j] + 1)
        result = logits(source, other)
        for d in range(1, j + 1):
            if not torch.allclose(original[:, j - d], result[:, j - d], atol=1e-4, rtol=0):
                distances.append(d)
    return sorted(set(distances))


def as_a_tuple(logits, source, target, vocabulary):
    return tuple(with_allclose(logits, source, target, vocabulary))


def with_several_changes(logits, source, target, vocabulary):
    table = torch.zeros(target.size(1), target.size(1))
    with torch.no_grad():
        old = logits(source, target)
        for j in range(target.size(1)):
            for shift in (1, 2, 5):
                new = target.clone()
                new[:, j] = (new[:, j] - 4 + shift) % (vocabulary - 4) + 4
                gap = (logits(source, new) - old).abs().flatten(2).amax(-1).amax(0)
                table[j] = torch.maximum(table[j], gap)
    return [d for d in range(1, len(table)) if (table.diagonal(-d) > 1e-4).any()]


def with_where(scores, mask):
    mask = mask.broadcast_to(scores.shape)
    low = torch.finfo(scores.dtype).min
    safe = torch.where(mask, torch.where(scores == -math.inf, low, scores), low)
    return torch.where(mask, torch.softmax(safe, -1), torch.zeros((), dtype=scores.dtype))


def by_hand(scores, mask):
    mask = mask.expand(scores.shape)
    wide = scores.double() if scores.dtype == torch.float64 else scores.float()
    wide = wide.clamp(min=torch.finfo(wide.dtype).min).masked_fill(
        ~mask, torch.finfo(wide.dtype).min
    )
    powers = (wide - wide.amax(-1, keepdim=True).detach()).exp() * mask
    total = powers.sum(-1, keepdim=True)
    return (powers / total.masked_fill(total == 0, 1)).to(scores.dtype)


def with_an_extra_key(scores, mask):
    mask = mask.expand_as(scores)
    empty = ~mask.any(-1, keepdim=True)
    low = torch.finfo(scores.dtype).min
    filled = torch.nan_to_num(scores, neginf=low, posinf=-low).masked_fill(~mask, low)
    weights = torch.nn.functional.softmax(filled.masked_fill(empty, 0), dim=-1)
    return weights * mask.to(weights.dtype)


def in_logarithms(scores, mask):
    mask = torch.broadcast_to(mask, scores.shape)
    lowest = torch.finfo(scores.dtype).min
    held = scores.masked_fill(scores == -torch.inf, lowest).masked_fill(mask.logical_not(), lowest)
    return held.log_softmax(-1).exp().masked_fill(mask.logical_not(), 0)


def padded_queries_see_nothing(source, target, pad=0):
    encoder, decoder, cross = with_the_package(source, target, pad)
    return encoder, decoder & (target != pad)[:, None, :, None], cross


def with_isnan(scores, mask):
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
    return torch.where(weights.isnan(), torch.zeros_like(weights), weights)


RIGHT = {
    "06.1": [with_the_package, in_loops, by_comparing_places, with_numpy],
    "06.2": [one_by_one_and_row_by_row, with_allclose, as_a_tuple, with_several_changes],
    "06.3": [with_where, by_hand, with_an_extra_key, in_logarithms],
    "06.4": ["A", "a"],
}
RIGHT["06.1"].append(lambda source, target, pad=0: tuple(in_loops(source, target, pad)))


def as_numbers(source, target, pad=0):
    return tuple(mask.float() for mask in with_the_package(source, target, pad))


def only_the_first_row(source, target, pad=0):
    keys, own, _ = with_the_package(source, target, pad)
    return keys, own[:1].expand_as(own), keys


def right_padding_only(source, target, pad=0):
    def keys(ids):
        lengths = (ids != pad).sum(1)
        return (torch.arange(ids.size(1)) < lengths[:, None])[:, None, None]

    past = torch.ones(target.size(1), target.size(1), dtype=torch.bool).tril()
    return keys(source), keys(target) & past, keys(source)


def says_yes_or_no(logits, source, target, vocabulary):
    return bool(with_allclose(logits, source, target, vocabulary))


def changes_the_source(logits, source, target, vocabulary):
    return with_allclose(lambda s, t: logits(t, s), target, source, vocabulary)


def never_a_leak(logits, source, target, vocabulary):
    return []


def plain_softmax(scores, mask):
    return scores.softmax(-1)


def not_normalised(scores, mask):
    return scores.softmax(-1) * mask


def cut_off(scores, mask):
    return with_where(scores.detach(), mask).requires_grad_()


def all_above_pad(source, target, pad=0):
    keys, past = (source > pad)[:, None, None], torch.ones(2 * [target.size(1)]).tril().bool()
    return keys, (target > pad)[:, None, None] & past, keys


def words_alone(source, target, pad=0):
    return all_above_pad(source, target, 3)


def padded_queries_see_themselves(source, target, pad=0):
    encoder, decoder, cross = with_the_package(source, target, pad)
    own = torch.eye(target.size(1), dtype=torch.bool) & (target == pad)[:, None, :, None]
    return encoder, decoder | own, cross


def everyone_sees_themselves_and_the_next(source, target, pad=0):
    encoder, decoder, cross = with_the_package(source, target, pad)
    after = torch.ones(2 * [target.size(1)], dtype=torch.bool).triu(1).tril(1)
    return encoder, decoder | after, cross


def padded_queries_see_all(source, target, pad=0):
    encoder, decoder, cross = with_the_package(source, target, pad)
    return encoder, decoder | (target == pad)[:, None, :, None], cross


def probe(logits, source, target, new, tolerance=1e-4, farthest=99, first=1):
    original, found = logits(source, target), set()
    for j in range(first, target.size(1)):
        other = target.clone()
        other[:, j] = new(other[:, j])
        moved = (logits(source, other) - original).abs().amax((0, 2)) > tolerance
        found |= {j - i for i in range(j) if moved[i] and j - i <= farthest}
    return sorted(found)


def swap(ids):
    return torch.where(ids == 4, 5, 4)


def always_the_last_word(logits, source, target, vocabulary):
    return probe(logits, source, target, lambda ids: torch.full_like(ids, vocabulary - 1))


def always_seven(logits, source, target, vocabulary):
    return probe(logits, source, target, lambda ids: torch.full_like(ids, 7))


def large_ones(logits, source, target, vocabulary):
    return probe(logits, source, target, swap, tolerance=0.1)


def near_ones(logits, source, target, vocabulary):
    return probe(logits, source, target, swap, farthest=4)


def not_the_second(logits, source, target, vocabulary):
    return probe(logits, source, target, swap, first=2)


def clamped(scores, mask):
    return by_hand(scores.clamp(-1e4, 1e4), mask)


WRONG = {
    "06.1": [
        as_numbers,
        only_the_first_row,
        right_padding_only,
    ],
    "06.2": [
        says_yes_or_no,
        changes_the_source,
        never_a_leak,
    ],
    "06.3": [
        plain_softmax,
        not_normalised,
        cut_off,
    ],
    "06.4": ["B", "C"],
}

RIGHT["06.1"] += [padded_queries_see_nothing]
RIGHT["06.3"] += [with_isnan]
WRONG["06.1"] += [
    all_above_pad,
    words_alone,
    everyone_sees_themselves_and_the_next,
]
WRONG["06.2"] += [
    always_the_last_word,
    always_seven,
    large_ones,
    near_ones,
    not_the_second,
]
WRONG["06.3"] += [
    clamped,
]


def the_sources_where_they_are_as_wide(source, target, pad=0):
    keys, own, _ = with_the_package(source, target, pad)
    return (
        keys,
        own if source.shape != target.shape else with_the_package(source, source, pad)[1],
        keys,
    )


def one_side_for_all(source, target, pad=0):
    def keys(ids):
        place, empty = torch.arange(ids.size(1)), (ids == pad).sum(1, keepdim=True)
        left = place >= empty if (ids[:, 0] == pad).any() else place < ids.size(1) - empty
        return left[:, None, None]

    past = torch.ones(target.size(1), target.size(1), dtype=torch.bool).tril()
    return keys(source), keys(target) & past, keys(source)


def one_length_for_all(source, target, pad=0):
    keys = (source != pad).all(0).expand(source.shape)[:, None, None]
    past = torch.ones(target.size(1), target.size(1), dtype=torch.bool).tril()
    return keys, (target != pad).all(0).expand(target.shape)[:, None, None] & past, keys


def squeezed(source, target, pad=0):
    keys, own, cross = with_the_package(source, target, pad)
    return keys.squeeze()[:, None, None], own, cross


WRONG["06.1"] += [
    the_sources_where_they_are_as_wide,
    one_side_for_all,
    one_length_for_all,
    squeezed,
]


def compared(size, tolerance=1e-4, new=swap):
    def answer(logits, source, target, vocabulary):
        original, found = logits(source, target), set()
        for j in range(1, target.size(1)):
            other = target.clone()
            other[:, j] = new(other[:, j])
            moved = size((logits(source, other) - original).abs()) > tolerance
            found |= {j - i for i in range(j) if moved[i]}
        return sorted(found)

    return answer


def largest(gaps):
    return gaps.amax((0, 2))


WRONG["06.2"] += [
    compared(lambda gaps: gaps.mean(0).amax(-1)),
    compared(lambda gaps: gaps.mean(2).amax(0)),
    compared(largest, tolerance=1e-3),
    compared(largest, new=lambda ids: (ids + 1) % 6),
    compared(largest, new=lambda ids: ids * 0),
]
RIGHT["06.2"] += [compared(largest)]


def adds_and_cuts(scores, mask):
    return (scores + torch.where(mask, 0.0, -1e9).to(scores.dtype)).softmax(-1) * mask


def adds_in_float32(scores, mask):
    return (scores + torch.where(mask, 0.0, -1e9)).softmax(-1) * mask


def largest_of_all(scores, mask):
    powers = (scores - scores.amax(-1, keepdim=True)).exp() * mask
    return powers / powers.sum(-1, keepdim=True).clamp_min(1e-9)


WRONG["06.3"] += [
    adds_and_cuts,
    adds_in_float32,
    largest_of_all,
]


def one_sentence_at_a_time(logits, source, target, vocabulary):
    pairs = zip(source, target, strict=True)
    found = [with_allclose(logits, s[None], t[None], vocabulary) for s, t in pairs]
    return sorted({distance for distances in found for distance in distances})


def in_reverse(logits, source, target, vocabulary):
    return with_allclose(logits, source.flip(0), target.flip(0), vocabulary)


RIGHT["06.1"] += [padded_queries_see_all, padded_queries_see_themselves]
RIGHT["06.2"] += [one_sentence_at_a_time, in_reverse]


def queries_for_keys(source, target, pad=0):
    past = torch.ones(2 * [target.size(1)], dtype=torch.bool).tril()
    keys = (source != pad)[:, None, None]
    return keys, (target != pad)[:, None, :, None] & past, keys


WRONG["06.1"] += [queries_for_keys]
