"""The exercises of notebooks 04 to 07: right answers pass, and wrong answers are refused."""

import math
from itertools import product

import pytest
import torch
from attempts import SEEDS, answers_of, require_function, require_refused, require_right
from torch import nn
from torch.nn import functional as F

from nmtcourse import bugs
from nmtcourse.teaching import load_toy
from nmtlib.data import PAD
from nmtlib.model import MultiHeadAttention, Transformer, scaled_dot_product_attention
from nmtlib.model.config import TransformerConfig


def look_up_by_hand(query, keys, values, scale=True, normalise=True, largest=max):
    root = math.sqrt(len(query)) if scale else 1.0
    scores = [sum(q * k for q, k in zip(query, key, strict=True)) / root for key in keys]
    powers = [math.exp(score - largest(scores)) for score in scores]
    total = sum(powers) if normalise else 1.0
    columns = range(len(values[0]))
    return [sum(p / total * v[i] for p, v in zip(powers, values, strict=True)) for i in columns]


def look_up_without_scale(query, keys, values):
    return look_up_by_hand(query, keys, values, scale=False)


def look_up_not_normalised(query, keys, values):
    return look_up_by_hand(query, keys, values, normalise=False)


def look_up_overflowing(query, keys, values):
    return look_up_by_hand(query, keys, values, largest=lambda scores: 0.0)


def look_up_clamped(query, keys, values):
    """No overflow, but large scores become equal."""
    root = math.sqrt(len(query))
    scores = [sum(q * k for q, k in zip(query, key, strict=True)) / root for key in keys]
    powers = [math.exp(max(-700.0, min(700.0, score))) for score in scores]
    shares = [power / sum(powers) for power in powers]
    columns = zip(*values, strict=True)
    return [sum(s * v for s, v in zip(shares, column, strict=True)) for column in columns]


def look_up_the_best(query, keys, values):
    fits = [sum(q * k for q, k in zip(query, key, strict=True)) for key in keys]
    return values[fits.index(max(fits))]


def six_lines(query, key, value, mask=None, dropout_p=0.0, low=-math.inf, axis=-1):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, low)
    weights = scores.softmax(dim=axis)
    return weights @ value, weights


def six_lines_weakly_masked(query, key, value, mask=None, dropout_p=0.0):
    return six_lines(query, key, value, mask, low=-1.0)


def six_lines_over_queries(query, key, value, mask=None, dropout_p=0.0):
    return six_lines(query, key, value, mask, axis=-2)


def six_lines_unmasked(query, key, value, mask=None, dropout_p=0.0):
    return six_lines(query, key, value)


def attend_with(
    divisor=None, low=-math.inf, give=lambda result, weights, scores: (result, weights)
):
    """Masked attention with one thing changed: its divisor, its fill, or what it returns."""

    def mine(query, key, value, mask=None, dropout_p=0.0):
        root = math.sqrt(query.size(-1)) if divisor is None else divisor(value)
        scores = query @ key.transpose(-2, -1) / root
        if mask is not None:
            scores = scores.masked_fill(~mask, low)
        weights = scores.softmax(dim=-1)
        return give(weights @ value, weights, scores)

    return mine


def einsum_without_defaults(query, key, value, mask, dropout_p):
    scores = torch.einsum("...td,...sd->...ts", query, key) * query.size(-1) ** -0.5
    if mask is not None:
        scores = scores + torch.where(mask, 0.0, -math.inf)
    weights = scores.softmax(-1)
    return [torch.einsum("...ts,...sd->...td", weights, value), weights]


def six_lines_for_batches_of_heads(query, key, value, mask=None, dropout_p=0.0):
    assert query.dim() == 4
    return six_lines(query, key, value, mask)


def not_written(*arguments):
    raise NotImplementedError


def find(d_k, divisor, seed, steps=300):
    torch.manual_seed(seed)
    x, key, value = torch.randn(10, d_k), torch.randn(10, d_k), torch.eye(10)
    w_query = (torch.randn(d_k, d_k) / math.sqrt(d_k)).requires_grad_()
    optimizer = torch.optim.SGD([w_query], lr=0.1)
    for _ in range(steps):
        weights = (x @ w_query @ key.T / divisor).softmax(dim=-1)
        loss = (weights @ value - value).square().sum(dim=-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def final_losses(d_k, divisor, seeds):
    return [find(d_k, divisor, seed) for seed in seeds]


def losses_as_a_tensor(d_k, divisor, seeds):
    return torch.tensor(final_losses(d_k, divisor, seeds))


def losses_always_scaled(d_k, divisor, seeds):
    return [find(d_k, math.sqrt(d_k), seed) for seed in seeds]


def losses_of_other_seeds(d_k, divisor, seeds):
    return [find(d_k, divisor, seed) for seed in range(len(seeds))]


def slope(scores, right):
    weights = scores.softmax(dim=-1)
    return (weights - F.one_hot(right, scores.size(-1))) / len(scores)


def slope_of_a_sum(scores, right):
    return slope(scores, right) * len(scores)


def slope_of_weights(scores, right):
    weights = scores.softmax(dim=-1)
    return weights * (1 - weights) / len(scores)


def unmix(mixture, words, shares):
    mixtures = shares[0] * words[:, None] + shares[1] * words
    best = (mixtures - mixture).norm(dim=-1).argmin().item()
    return [best // len(words), best % len(words)]


def unmix_as_a_tensor(mixture, words, shares):
    return torch.tensor(unmix(mixture, words, shares))


def unmix_in_loops(mixture, words, shares):
    pairs = product(range(len(words)), repeat=2)
    wanted = [(shares[0] * words[i] + shares[1] * words[j] - mixture).norm() for i, j in pairs]
    return divmod(wanted.index(min(wanted)), len(words))


def unmix_by_steps(mixture, words, shares):
    """The way of section 2, which needs rows of equal length, far apart."""
    first = (words @ mixture).argmax().item()
    rest = mixture - shares[0] * words[first]
    return first, (words @ rest).argmax().item()


def unmix_by_near_steps(mixture, words, shares):
    first = (words - mixture).norm(dim=-1).argmin()
    rest = (mixture - shares[0] * words[first]) / shares[1]
    return first.item(), (words - rest).norm(dim=-1).argmin().item()


def two_best(mixture, words, shares):
    return tuple((words @ mixture).topk(2).indices.tolist())


def unmix_typed_shares(mixture, words, shares):
    return unmix(mixture, words, (0.65, 0.35))


def unmix_nearly_all(mixture, words, shares):
    return unmix(mixture, words, (0.9, 0.1))


def unmix_larger_first(mixture, words, shares):
    return unmix(mixture, words, sorted(shares, reverse=True))


def unmix_in_any_order(mixture, words, shares):
    return tuple(sorted(unmix(mixture, words, shares)))


class Mine(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query, self.key = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.value, self.output = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def split(self, x):
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            self.split(self.query(query)),
            self.split(self.key(key)),
            self.split(self.value(value)),
        )
        answers = scaled_dot_product_attention(q, k, v, mask)
        return self.output(answers.transpose(1, 2).flatten(2))


class WithoutTranspose(Mine):
    def split(self, x):
        return x.view(x.size(0), self.n_heads, x.size(1), -1)


class OneHeadOnly(Mine):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, 1)


class ScaleTyped(Mine):
    def forward(self, query, key, value, mask=None):
        q, k, v = (
            self.split(self.query(query)) / 2.0,
            self.split(self.key(key)),
            self.split(self.value(value)),
        )
        scores = q @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return self.output((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class MaskForgotten(Mine):
    def forward(self, query, key, value, mask=None):
        return super().forward(query, key, value)


def remove_heads(heads, score):
    removed, curve = [], [score([])]
    for _ in heads:
        left = [head for head in heads if head not in removed]
        removed.append(max(left, key=lambda head: score([*removed, head])))
        curve.append(score(removed))
    return removed, curve


def remove_by_single_cost(heads, score):
    order = sorted(heads, key=lambda head: -score([head]))
    return order, [score(order[:i]) for i in range(len(order) + 1)]


def remove_from_the_list(heads, score):
    """Right order and scores, but the caller's list is empty afterwards."""
    removed, curve = [], [score([])]
    while heads:
        removed.append(max(heads, key=lambda head: score([*removed, head])))
        heads.remove(removed[-1])
        curve.append(score(removed))
    return removed, curve


def remove_and_never_rise(heads, score):
    removed, curve = remove_heads(heads, score)
    return removed, [min(curve[: i + 1]) for i in range(len(curve))]


def remove_in_their_order(heads, score):
    return heads, [score(heads[:i]) for i in range(len(heads) + 1)]


def remove_the_dearest(heads, score):
    removed, curve = [], [score([])]
    for _ in heads:
        left = [head for head in heads if head not in removed]
        removed.append(min(left, key=lambda head: score([*removed, head])))
        curve.append(score(removed))
    return removed, curve


def window(length, back):
    full = torch.ones(length, length, dtype=torch.bool)
    return full.tril() & full.triu(-back)


def window_of_others(length, back):
    return window(length, back) & ~torch.eye(length, dtype=torch.bool)


def window_ahead(length, back):
    return window(length, back).T


def window_of_the_first(length, back):
    mask = torch.ones(length, length, dtype=torch.bool).tril()
    mask[:, back + 1 :] = False
    return mask


def window_of_integers(length, back):
    return window(length, back).int()


def left_mask(ids):
    past = torch.ones(ids.size(1), ids.size(1), dtype=torch.bool).tril()
    return (ids != PAD)[:, None, None, :] & past


def left_mask_of_the_future(ids):
    return (ids != PAD)[:, None, None, :].expand(-1, 1, ids.size(1), -1)


def left_mask_or(ids):
    past = torch.ones(ids.size(1), ids.size(1), dtype=torch.bool).tril()
    return (ids != PAD)[:, None, None, :] | past


def without_keys(mask):
    return ~mask.any(dim=-1)[:, 0]


def without_keys_squeezed(mask):
    return (~mask.any(dim=-1)).squeeze()


def without_some_keys(mask):
    return ~mask.all(dim=-1)[:, 0]


def keys_without_queries(mask):
    return ~mask.any(dim=-2)[:, 0]


def with_bug(bug, experiment):
    with bugs.plant(bug):
        return experiment()


def with_bug_and_finally(bug, experiment):
    planted = bugs.plant(bug)
    planted.__enter__()
    try:
        return experiment()
    finally:
        planted.__exit__(None, None, None)


def with_bug_and_no_error(bug, experiment):
    with bugs.plant(bug):
        try:
            return experiment()
        except Exception:
            return None


def with_bug_too_late(bug, experiment):
    with bugs.plant(bug):
        pass
    return experiment()


def with_healthy_code(bug, experiment):
    return experiment()


def with_bug_and_a_table(bug, experiment):
    with bugs.plant(bug):
        experiment()
    return {bug: 0}


def units(x, bias=(-1.0, -2.0, -2.0, -2.0)):
    w1 = torch.tensor([[1.0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 1, 1]])
    return (x @ w1 + torch.tensor(bias)).relu()


def units_that_need_too_much(x):
    return units(x, (-1.0, -2.0, -2.0, -4.0))


def units_that_need_too_little(x):
    return units(x, (-1.0, -2.0, -2.0, -0.5))


def units_of_other_weights(x):
    w1 = torch.tensor([[1.0, 0, 0, 0.5], [0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 1, 1]])
    return (x @ w1 + torch.tensor([-1.0, -2.0, -2.0, -1.0])).relu()


def units_for_no_other_meaning(x):
    """The fourth fires for a person in the past, but not if it is a time and an action, too."""
    w1 = torch.tensor([[1.0, 0, 0, 1], [0, 1, 0, -1], [0, 0, 1, -1], [0, 1, 1, 1]])
    return (x @ w1 + torch.tensor([-1.0, -2.0, -2.0, -2.0])).relu()


def units_without_relu(x):
    w1 = torch.tensor([[1.0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 1, 1]])
    return x @ w1 + torch.tensor([-1.0, -2.0, -2.0, -2.0])


def fourth_unit(change):
    """The units of section 2 with another fourth one."""
    return lambda x: torch.cat([units(x)[:, :3], change(x, units(x)[:, 3:])], dim=-1)


def three_units(x):
    return units(x)[:, :3]


def my_dropout(x, p, training):
    return x * (torch.rand_like(x) >= p) / (1 - p) if training else x


def dropout_unscaled(x, p, training):
    return x * (torch.rand_like(x) >= p) if training else x


def dropout_scaled_in_eval(x, p, training):
    return x * (torch.rand_like(x) >= p) if training else x * (1 - p)


def dropout_of_p_kept(x, p, training):
    return x * (torch.rand_like(x) < p) / p if training else x


def dropout_of_one_draw(x, p, training):
    torch.manual_seed(0)
    return my_dropout(x, p, training)


def my_sublayer(x, sublayer, norm, p, training):
    return x + my_dropout(sublayer(norm(x)), p, training)


def dropout_of_one_mask(x, p, training):
    return x * (torch.rand(x.shape[1:]) >= p) / (1 - p) if training else x


def dropout_of_some_p(x, p, training):
    return my_dropout(x, p, training and p > 0.39)


def dropout_detached(x, p, training):
    return my_dropout(x, p, training).detach() if training else x


def dropout_in_place(x, p, training):
    if training:
        x *= torch.rand_like(x) >= p
        x /= 1 - p
    return x


def dropout_by_bernoulli(x, p, training):
    return x * torch.bernoulli(torch.full_like(x, 1 - p)) / (1 - p) if training else x


def sublayer_detached(x, sublayer, norm, p, training):
    return my_sublayer(x, sublayer, norm, p, training).detach()


def sublayer_branch_detached(x, sublayer, norm, p, training):
    return x + my_dropout(sublayer(norm(x)).detach(), p, training)


def sublayer_in_place(x, sublayer, norm, p, training):
    x += my_dropout(sublayer(norm(x)), p, training)
    return x


def sublayer_without_dropout(x, sublayer, norm, p, training):
    return x + sublayer(norm(x))


def sublayer_dropping_the_sum(x, sublayer, norm, p, training):
    return my_dropout(x + sublayer(norm(x)), p, training)


def sublayer_post_norm(x, sublayer, norm, p, training):
    return norm(x + my_dropout(sublayer(x), p, training))


def new_model(large, tied):
    translator = load_toy("de-en")
    sizes = len(translator.source.vocab), len(translator.target.vocab)
    model = Transformer(TransformerConfig(*sizes, tied="target" if tied else "none"))
    if large:
        nn.init.normal_(model.source_embedding.weight)
        nn.init.normal_(model.target_embedding.weight)
    return model


def only_target_large(large, tied):
    model = new_model(False, tied)
    if large:
        nn.init.normal_(model.target_embedding.weight)
    return model


def all_large(large, tied):
    model = new_model(large, tied)
    if large:
        nn.init.normal_(model.output.weight)
    return model


def always_tied(large, tied):
    return new_model(large, True)


def never_large(large, tied):
    return new_model(False, tied)


def large_output(large, tied):
    model = new_model(False, tied)
    if large and not tied:
        nn.init.normal_(model.output.weight)
    return model


def without_the_factor(large, tied):
    model = new_model(large, tied)
    model.target_embedding.scale = 1.0
    return model


def the_shipped_one(large, tied):
    return load_toy("de-en").model


class NormInBranch(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, p):
        super().__init__()
        ours = MultiHeadAttention(d_model, n_heads)
        self.inside = ours
        self.attention = lambda x, y, mask: ours(x, y, y, mask)
        self.feed_forward = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2))
        self.dropout = nn.Dropout(p)

    def forward(self, x, mask):
        x = x + self.dropout(self.norms[0](self.attention(x, x, mask)))
        return x + self.dropout(self.norms[1](self.feed_forward(x)))


class NormsExchanged(NormInBranch):
    def forward(self, x, mask):
        x = x + self.dropout(self.norms[1](self.attention(x, x, mask)))
        return x + self.dropout(self.norms[0](self.feed_forward(x)))


class WithoutDropout(NormInBranch):
    def forward(self, x, mask):
        x = x + self.norms[0](self.attention(x, x, mask))
        return x + self.norms[1](self.feed_forward(x))


class DropoutOnceOnly(NormInBranch):
    def forward(self, x, mask):
        x = x + self.dropout(self.norms[0](self.attention(x, x, mask)))
        return x + self.norms[1](self.feed_forward(x))


class DropoutInsideTheNorm(NormInBranch):
    def forward(self, x, mask):
        x = x + self.norms[0](self.dropout(self.attention(x, x, mask)))
        return x + self.norms[1](self.dropout(self.feed_forward(x)))


class DropoutOnTheSum(NormInBranch):
    def forward(self, x, mask):
        x = self.dropout(x + self.norms[0](self.attention(x, x, mask)))
        return self.dropout(x + self.norms[1](self.feed_forward(x)))


class GainsFromZero(NormInBranch):
    def __init__(self, d_model, n_heads, d_ff, p):
        super().__init__(d_model, n_heads, d_ff, p)
        for norm in self.norms:
            nn.init.zeros_(norm.weight)


class PreNorm(NormInBranch):
    def forward(self, x, mask):
        n = self.norms[0](x)
        x = x + self.attention(n, n, mask)
        return x + self.feed_forward(self.norms[1](x))


class PostNorm(NormInBranch):
    def forward(self, x, mask):
        x = self.norms[0](x + self.attention(x, x, mask))
        return self.norms[1](x + self.feed_forward(x))


class Nothing(NormInBranch):
    def forward(self, x, mask):
        return x


class MaskIgnored(NormInBranch):
    def forward(self, x, mask):
        return super().forward(x, torch.ones_like(mask))


EXERCISES = {  # number: right answers, wrong answers; an answer may be several functions
    "04.1": (
        [look_up_by_hand],
        [look_up_without_scale, look_up_not_normalised, look_up_the_best, lambda *_: [0.4, 3.1]]
        + [look_up_overflowing, look_up_clamped],
    ),
    "04.2": (
        [six_lines, attend_with(low=-1e9), einsum_without_defaults],
        [
            six_lines_weakly_masked,
            six_lines_over_queries,
            six_lines_unmasked,
            not_written,
            attend_with(divisor=lambda value: math.sqrt(8)),
            attend_with(divisor=lambda value: math.sqrt(value.size(-1))),
            attend_with(low=-20.0),
            attend_with(give=lambda result, weights, scores: result),
            attend_with(give=lambda result, weights, scores: (result, torch.zeros_like(weights))),
            attend_with(give=lambda result, weights, scores: (result, scores)),
            six_lines_for_batches_of_heads,
        ],
    ),
    "04.3": (
        [final_losses, losses_as_a_tensor],
        [losses_always_scaled, losses_of_other_seeds, lambda d_k, divisor, seeds: [0.04, 1.2]],
    ),
    "04.4": ([slope], [slope_of_a_sum, slope_of_weights, lambda scores, right: scores * 0]),
    "05.1": (
        [unmix, unmix_as_a_tensor, unmix_in_loops],
        [
            two_best,
            unmix_by_steps,
            unmix_by_near_steps,
            unmix_in_any_order,
            unmix_larger_first,
            lambda *_: (0, 1),
            unmix_typed_shares,
            unmix_nearly_all,
        ],
    ),
    "05.2": (
        [Mine, MultiHeadAttention],
        [WithoutTranspose, OneHeadOnly, MaskForgotten, ScaleTyped],
    ),
    "05.3": (
        [remove_heads],
        [
            remove_by_single_cost,
            remove_in_their_order,
            remove_the_dearest,
            remove_from_the_list,
            remove_and_never_rise,
            lambda heads, score: (heads, [100.0] * 8),
        ],
    ),
    "06.1": (
        [window],
        [window_of_others, window_ahead, window_of_the_first, window_of_integers],
    ),
    "06.2": (
        [(left_mask, without_keys)],
        [
            (left_mask_of_the_future, without_keys),
            (left_mask_or, without_keys),
            (left_mask, without_some_keys),
            (left_mask, keys_without_queries),
            (left_mask, without_keys_squeezed),
        ],
    ),
    "06.3": (
        [with_bug, with_bug_and_finally],
        [
            with_bug_too_late,
            with_healthy_code,
            with_bug_and_a_table,
            with_bug_and_no_error,
            lambda *_: {},
        ],
    ),
    "07.1": (
        [units, units_of_other_weights],
        [
            units_that_need_too_much,
            units_that_need_too_little,
            three_units,
            units_for_no_other_meaning,
            lambda x: x,
            units_without_relu,
            fourth_unit(lambda x, unit: x[:, :1] * x[:, 3:]),
            fourth_unit(lambda x, unit: (unit > 0).float()),
            fourth_unit(lambda x, unit: unit.clamp(max=1)),
            lambda x: units(x).clamp(max=1),
        ],
    ),
    "07.2": (
        [
            (my_dropout, my_sublayer),
            (F.dropout, my_sublayer),
            (dropout_by_bernoulli, my_sublayer),
        ],
        [
            (dropout_unscaled, my_sublayer),
            (dropout_scaled_in_eval, my_sublayer),
            (dropout_of_p_kept, my_sublayer),
            (dropout_of_one_draw, my_sublayer),
            (dropout_of_one_mask, my_sublayer),
            (dropout_of_some_p, my_sublayer),
            (dropout_detached, my_sublayer),
            (dropout_in_place, my_sublayer),
            (my_dropout, sublayer_detached),
            (my_dropout, sublayer_branch_detached),
            (my_dropout, sublayer_in_place),
            (my_dropout, sublayer_without_dropout),
            (my_dropout, sublayer_dropping_the_sum),
            (my_dropout, sublayer_post_norm),
        ],
    ),
    "07.3": (
        [new_model, only_target_large],
        [always_tied, never_large, large_output, all_large, the_shipped_one, lambda *_: 6.2]
        + [without_the_factor],
    ),
    "07.4": (
        [NormInBranch, NormsExchanged],
        [
            PreNorm,
            PostNorm,
            Nothing,
            MaskIgnored,
            WithoutDropout,
            DropoutOnceOnly,
            DropoutOnTheSum,
            DropoutInsideTheNorm,
            GainsFromZero,
            nn.Linear,
        ],
    ),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("number, answer", answers_of(EXERCISES, 0))
def test_a_right_answer_passes_for_each_seed(number, answer, seed, capsys):
    require_right(number, answer, seed, capsys)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("number, answer", answers_of(EXERCISES, 1))
def test_a_wrong_answer_is_refused_for_each_seed(number, answer, seed, capsys):
    require_refused(number, answer, seed, capsys)


@pytest.mark.parametrize("number", EXERCISES)
def test_an_invented_result_is_refused(number):
    require_function(number)
