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


def padded_queries_see_themselves(source, target, pad=0):
    encoder, decoder, cross = with_the_package(source, target, pad)
    own = torch.eye(target.size(1), dtype=torch.bool) & (target == pad)[:, None, :, None]
    return encoder, decoder | own, cross


def padded_queries_see_all(source, target, pad=0):
    encoder, decoder, cross = with_the_package(source, target, pad)
    return encoder, decoder | (target == pad)[:, None, :, None], cross


def swap(ids):
    return torch.where(ids == 4, 5, 4)


RIGHT["06.1"] += [padded_queries_see_nothing]
RIGHT["06.3"] += [with_isnan]


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


RIGHT["06.2"] += [compared(largest)]


def one_sentence_at_a_time(logits, source, target, vocabulary):
    pairs = zip(source, target, strict=True)
    found = [with_allclose(logits, s[None], t[None], vocabulary) for s, t in pairs]
    return sorted({distance for distances in found for distance in distances})


def in_reverse(logits, source, target, vocabulary):
    return with_allclose(logits, source.flip(0), target.flip(0), vocabulary)


RIGHT["06.1"] += [padded_queries_see_all, padded_queries_see_themselves]
RIGHT["06.2"] += [one_sentence_at_a_time, in_reverse]
