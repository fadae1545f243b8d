"""What is unusual and right raises no alarm, and what is wrong gets the cause that it has."""

from dataclasses import replace
from pathlib import Path

import peer_torch as foreign
import pytest
import torch
from peer_time_major import time_major
from runs import collated, corpus
from some_checks import ONLY
from torch import nn
from torch.nn import functional as F

from nmtcheck import Adapter, Sizes, ours, run_checks
from nmtcheck.measure.helpers import batch, listed, source_frame

ROOT = Path(__file__).parents[2]
OURS, TORCH = ours(), foreign.torch_transformer()


def one(adapter, name, **options):
    (result,) = run_checks(adapter, only=name, **options).results
    return result


@pytest.mark.slow
@pytest.mark.parametrize("only", ONLY)
def test_a_healthy_model_in_another_style_raises_no_alarm(only):
    report = run_checks(time_major(), only=only)
    assert not report.failed, str(report)
    assert only or len(report.passed) >= 52, str(report)


# Validation


def measuring(smoothing, quiet):
    """torch's epoch, with another loss and mode of its validation."""

    def epoch(made, batches, training):
        if training:
            return foreign.epoch(made, batches, True)
        made.train(not quiet)
        source, target = batches[0].src, batches[0].trg
        return foreign.loss(made(source, target[:, :-1]), target[:, 1:], smoothing).item()

    return epoch


@pytest.mark.parametrize(
    ("smoothing", "quiet", "verdict"),
    [(0.0, True, "passed"), (0.3, True, "passed"), (0.0, False, "failed"), (0.3, False, "failed")],
)
def test_the_mode_of_validation_is_judged_whatever_it_measures(smoothing, quiet, verdict):
    adapter = replace(TORCH, epoch=measuring(smoothing, quiet))
    assert one(adapter, "validation.eval_mode").verdict == verdict


def test_a_model_without_dropout_tells_nothing_of_the_mode():
    def without(sizes):
        return TORCH.make_model(replace(sizes, dropout=0.0))

    adapter = replace(TORCH, make_model=without, epoch=measuring(0.0, quiet=False))
    assert one(adapter, "validation.eval_mode").verdict == "skipped"


# Training


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "name", "cause"),
    [
        ("last", "run.gradients", "Gradients are cleared between the batches."),
        ("mean", "run.weights", ""),
        ("sum", "run.weights", "never divided by their number"),
    ],
)
def test_micro_batches_that_are_put_together_wrongly_are_told_apart(mistake, name, cause):
    def run():
        torch.manual_seed(0)
        made, pairs = TORCH.make_model(Sizes()).train(), corpus(96, 0)
        optimizer = torch.optim.Adam(made.parameters(), 0.001)
        for first in range(0, len(pairs), 4):
            optimizer.zero_grad()
            for n in (first, first + 2):
                if mistake == "last":
                    optimizer.zero_grad()
                source, target = collated(pairs[n : n + 2], "")
                mean = foreign.loss(made(source, target[:, :-1]), target[:, 1:], 0.1)
                (mean if mistake == "sum" else mean / 2).backward()
            optimizer.step()

    told = one(Adapter(run=run), name)
    assert cause in told.cause and told.verdict == ("failed" if cause else "passed")
    assert cause or "means of 2 batches of unequal size" in told.measured


def fixed_dropout(sizes):
    return TORCH.make_model(replace(sizes, dropout=0.1))


class Noisy(nn.Module):
    """A model that drops logits, with a function that nobody can switch off from outside."""

    def __init__(self, sizes):
        super().__init__()
        self.inner = TORCH.make_model(sizes)

    def forward(self, source, target):
        return F.dropout(self.inner(source, target), 0.1, self.training)


def not_cleared(made, batches, training):
    """An epoch that adds the gradients of all its batches."""
    if not training:
        return foreign.epoch(made, batches, False)
    optimizer = torch.optim.Adam(made.train().parameters(), 0.001)
    for each in batches:
        loss = foreign.loss(made(each.src, each.trg[:, :-1]), each.labels, 0.1)
        loss.backward()
        optimizer.step()
    return loss.item()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make_model", "epoch", "verdict"),
    [
        (fixed_dropout, foreign.epoch, "passed"),
        (fixed_dropout, not_cleared, "failed"),
        (Noisy, foreign.epoch, "passed"),
    ],
)
def test_dropout_that_nobody_asked_for_is_no_uncleared_gradient(make_model, epoch, verdict):
    adapter = replace(TORCH, make_model=make_model, epoch=epoch)
    assert one(adapter, "run.gradients").verdict == verdict


# Arguments that are not heeded, and other conventions


def test_a_dropout_of_its_own_is_undecided_and_a_forgotten_place_is_not():
    adapter = replace(TORCH, make_model=fixed_dropout)
    report = run_checks(adapter, only=["layers.no_dropout", "layers.dropout_rate"])
    assert {result.verdict for result in report.results} == {"skipped"}

    def forgotten(sizes):
        made = OURS.make_model(sizes)
        for layer in made.encoder:
            layer.feed_forward.dropout.p = 0.5
        made.decoder[0].feed_forward.dropout.p = 0.4  # somebody has chosen it
        return made

    result = one(replace(OURS, make_model=forgotten), "layers.dropout_rate")
    assert result.verdict == "failed"
    assert result.measured.endswith("there is 0.5 in 'encoder.*.feed_forward.dropout'")


def test_dropout_that_is_made_and_never_used_is_found():
    adapter = replace(OURS, logits=lambda made, *given: made.eval()(*given))
    result = one(adapter, "layers.dropout_rate")
    assert (result.verdict, result.cause) == ("failed", "Dropout is never applied.")


def test_all_names_are_listed_once():
    assert listed(["a.0.b", "a.1.b", "c.2"]) == "'a.*.b', 'c.2'"


def test_sources_are_framed_as_the_adapter_says():
    said = {"pad": 0, "bos": 1, "eos": 2}
    assert source_frame(Adapter(**said)) == ([], [2])
    assert source_frame(Adapter(source_bos=True, **said)) == ([1], [2])
    assert source_frame(Adapter(source_eos=False, **said)) == ([], [])
    source, _, _ = batch(Adapter(source_bos=True, **said), [([7, 8], [9]), ([7], [9])])
    assert source.tolist() == [[1, 7, 8, 2], [1, 7, 2, 0]]


def test_what_hardly_moves_the_logits_tells_nothing_of_the_order():
    faint = replace(TORCH, logits=lambda m, s, t: m(s, t) * 1e-10)
    assert one(faint, "positions.target_order").verdict == "skipped"
    small = replace(TORCH, logits=lambda m, s, t: m(s, t) * 1e-6)
    assert one(small, "positions.target_order").verdict == "passed"


# Searches


@pytest.mark.slow
def test_a_search_that_says_at_least_one_word_is_right():
    def often_empty(made, source, target):
        """What the model wants to say to some sources is nothing; the search knows no such wish."""
        ending = torch.zeros(target.size(1), made.output.out_features)
        ending[0, foreign.EOS] = 50.0
        return made(source, target) + ending * (source[:, 0] == 4)[:, None, None]

    report = run_checks(replace(TORCH, logits=often_empty), only=["decoding", "search"])
    assert not report.failed and len(report.passed) >= 3, str(report)


def test_an_embedding_is_known_by_the_size_of_the_vocabulary():
    assert Sizes().source_vocab_size not in (Sizes().d_model, Sizes().max_length)


# Who sees what


def narrowed(of, name, change):
    """nmtlib, its attentions of that name under a mask (Q, K) that `change` takes from ones."""

    def make_model(sizes):
        made = OURS.make_model(sizes)
        for layer in getattr(made, of):
            attention = getattr(layer, name)
            attention.register_forward_pre_hook(narrow)
        return made

    def narrow(module, given):
        query, key, value, mask = given
        return query, key, value, mask & change(mask.new_ones(query.size(1), key.size(1)))

    return replace(OURS, make_model=make_model)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("adapter", "name", "said"),
    [
        (narrowed("encoder", "self_attention", torch.tril), "inside.padding", "causal"),
        (narrowed("decoder", "cross_attention", torch.tril), "inside.padding", "causal"),
        (
            narrowed("decoder", "self_attention", lambda ones: ones.triu(-1)),
            "positions.target_order",
            "never read",
        ),
    ],
)
def test_whoever_sees_too_little_is_found(adapter, name, said, seed):
    result = one(adapter, name, seed=seed)
    assert result.verdict == "failed" and said in result.cause


@pytest.mark.parametrize("seed", [0, 27])
def test_attention_so_sharp_that_it_hides_an_order_is_not_blamed(seed):
    post = ours(norm="post")

    def make_model(sizes):
        made = post.make_model(sizes)
        for embedding in (made.source_embedding, made.target_embedding):
            nn.init.normal_(embedding.weight)
        return made

    result = one(replace(post, make_model=make_model), "positions.target_order", seed=seed)
    assert result.verdict == "passed", result.measured
