"""What is unusual and right raises no alarm, and what is wrong gets the cause that it has."""

import math
from dataclasses import replace
from pathlib import Path

import peer_torch as foreign
import pytest
import torch
from peer_time_major import time_major
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
    assert only or len(report.passed) >= 21, str(report)


# Validation


def validate(made, pairs, smoothing=0.0, quiet=True):
    made.train(not quiet)
    source, target, labels = foreign.make_batch(pairs)
    return math.exp(foreign.loss(made(source, target), labels, smoothing).detach())


@pytest.mark.parametrize(
    ("smoothing", "quiet", "verdict"),
    [(0.0, True, "passed"), (0.3, True, "passed"), (0.0, False, "failed"), (0.3, False, "failed")],
)
def test_the_mode_of_validation_is_judged_whatever_it_measures(smoothing, quiet, verdict):
    adapter = replace(TORCH, validate=lambda *given: validate(*given, smoothing, quiet))
    assert one(adapter, "validation.eval_mode").verdict == verdict


def test_a_model_without_dropout_tells_nothing_of_the_mode():
    def without(sizes):
        return TORCH.make_model(replace(sizes, dropout=0.0))

    adapter = replace(TORCH, make_model=without, validate=lambda *g: validate(*g, quiet=False))
    assert one(adapter, "validation.eval_mode").verdict == "skipped"


def test_a_loss_is_no_perplexity_and_is_named():
    adapter = replace(TORCH, validate=lambda *given: math.log(validate(*given)))
    result = one(adapter, "validation.perplexity")
    assert result.verdict == "failed" and result.measured.startswith("the loss ")


# Training


class Loop(foreign.Loop):
    """torch's loop with one mistake in how it accumulates."""

    mistake = ""

    def update(self, micro_batches):
        self.model.train()
        self.optimizer.zero_grad()
        for number, pairs in enumerate(micro_batches):
            if self.mistake == "last":
                self.optimizer.zero_grad()
            source, target, labels = foreign.make_batch(pairs)
            mean = foreign.loss(self.model(source, target), labels, 0.1)
            (mean if self.mistake == "sum" else mean / len(micro_batches)).backward()
            if self.mistake == "first" and number == 0:
                self.optimizer.step()
        if self.mistake != "first":
            self.optimizer.step()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "name", "cause"),
    [
        ("first", "run.gradients", "Gradients are cleared between the batches."),
        ("last", "run.gradients", "Gradients are cleared between the batches."),
        ("mean", "run.weights", ""),
        ("sum", "run.weights", "never divided by their number"),
    ],
)
def test_micro_batches_that_are_put_together_wrongly_are_told_apart(mistake, name, cause):
    def train(made, updates, clip):
        loop = Loop(made, clip)
        loop.mistake = mistake
        for update in updates:
            loop.update(update)

    adapter = replace(TORCH, train=train, fit=None, epoch=None)
    assert one(adapter, "training.accumulation").verdict == "failed"
    told = one(adapter, name)
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


def not_cleared(made, updates, clip):
    loop = foreign.Loop(made, clip)
    loop.optimizer.zero_grad = lambda: None
    for update in updates:
        loop.update(update)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make_model", "train", "verdict"),
    [
        (fixed_dropout, foreign.train, "passed"),
        (fixed_dropout, not_cleared, "failed"),
        (Noisy, foreign.train, "passed"),
    ],
)
def test_dropout_that_nobody_asked_for_is_no_uncleared_gradient(make_model, train, verdict):
    adapter = replace(TORCH, make_model=make_model, train=train, fit=None, epoch=None)
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


def test_a_loss_that_never_smooths_is_undecided():
    never = replace(OURS, loss=lambda x, y, smoothing: OURS.loss(x, y, 0.0))
    assert {r.verdict for r in run_checks(never, only="loss").results} == {"passed", "skipped"}


@pytest.mark.parametrize("start", [foreign.EOS, foreign.PAD])
def test_another_start_symbol_is_no_mistake_of_the_shift(start):
    def make_batch(pairs):
        source, target, labels = foreign.make_batch(pairs)
        return source, F.pad(target[:, 1:], (1, 0), value=start), labels

    assert one(replace(TORCH, make_batch=make_batch), "data.shift").verdict == "passed"


def test_sources_are_framed_as_the_batches_are():
    def make_batch(pairs):
        source, target, labels = foreign.make_batch(pairs)
        return F.pad(source, (1, 0), value=foreign.BOS), target, labels

    said = {"pad": 0, "bos": 1, "eos": 2}
    assert source_frame(Adapter(**said)) == ([], [2])
    assert source_frame(Adapter(source_bos=True, **said)) == ([1], [2])
    assert source_frame(Adapter(make_batch=make_batch, **said)) == ([1], [2])
    assert source_frame(Adapter(make_batch=lambda pairs: None, **said)) == ([], [2])
    source, _, _ = batch(Adapter(source_bos=True, **said), [([7, 8], [9]), ([7], [9])])
    assert source.tolist() == [[1, 7, 8, 2], [1, 7, 2, 0]]


def test_what_hardly_moves_the_logits_tells_nothing_of_the_order():
    faint = replace(TORCH, logits=lambda m, s, t: m(s, t) * 1e-10)
    assert one(faint, "positions.target_order").verdict == "skipped"
    small = replace(TORCH, logits=lambda m, s, t: m(s, t) * 1e-6)
    assert one(small, "positions.target_order").verdict == "passed"


# Parts


def minus_infinity(query, key, value, mask, dropout):
    scores = query @ key.mT / math.sqrt(query.size(-1))
    scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1) @ value, None


def not_a_number_at_padding(made, source, target):
    return made(source, target).masked_fill((target == 0)[..., None], math.nan)


def reading_padding(made, source, target):
    memory = made.transformer.encoder(made.embed(made.source_embedding, source))
    return made.decode(target, memory, torch.ones_like(source))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "part", "judge", "logits"),
    [
        (
            "attention.masked_row",
            {"attention": minus_infinity},
            "masks.padded_queries",
            not_a_number_at_padding,
        ),
        ("embedding.pad_gradient", {"embedding": nn.Embedding}, "inside.padding", reading_padding),
    ],
)
def test_whether_a_model_comes_to_a_fault_of_a_part_another_check_tells(name, part, judge, logits):
    assert one(Adapter(**part), name).verdict == "failed"
    assert one(replace(TORCH, **part, strict=True), name).verdict == "failed"
    note = one(replace(TORCH, **part), name)
    assert note.verdict == "skipped" and judge in note.measured
    assert one(replace(TORCH, **part, logits=logits), judge).verdict == "failed"


# Searches


@pytest.mark.slow
def test_a_beam_is_never_as_wide_as_half_the_vocabulary():
    def beam(made, source, width, *options):
        print(width / made.output.out_features)
        return foreign.beam_search(made, source, width, *options)

    asked = one(replace(TORCH, beam=beam), "beam.scores").printed.split()
    assert asked and max(map(float, asked)) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "verdict"),
    [(([4, 3, 3], -math.inf), "passed"), (([4, 0], -9.0), "passed"), (([4, 2, 4], -9.0), "failed")],
)
def test_what_fills_the_last_place_of_a_beam_is_no_mistake(extra, verdict):
    adapter = replace(
        TORCH, beam=lambda *given: [[*each[:3], extra] for each in foreign.beam_search(*given)]
    )
    assert one(adapter, "beam.scores").verdict == verdict


@pytest.mark.slow
def test_a_search_that_says_at_least_one_word_is_right():
    def often_empty(made, source, target):
        """What the model wants to say to some sources is nothing; the search knows no such wish."""
        ending = torch.zeros(target.size(1), made.output.out_features)
        ending[0, foreign.EOS] = 50.0
        return made(source, target) + ending * (source[:, 0] == 4)[:, None, None]

    report = run_checks(replace(TORCH, logits=often_empty), only="decoding")
    assert not report.failed and len(report.passed) >= 3, str(report)


@pytest.mark.slow
def test_a_start_symbol_that_gives_no_numbers_is_not_the_one_in_use():
    def greedy(made, source, longest):
        kept, foreign.BOS = foreign.BOS, 3
        try:
            return foreign.greedy(made, source, longest)
        finally:
            foreign.BOS = kept

    def logits(made, source, target):
        return made(source, target).masked_fill((target[:, :1] == 0)[..., None], math.nan)

    result = one(replace(TORCH, greedy=greedy, logits=logits), "decoding.start_symbol")
    assert result.verdict == "failed" and "starts with id 3" in result.measured


@pytest.mark.slow
def test_wrong_words_are_found():
    def alone(made, source, longest):
        """The first sentence that ends, ends them all."""
        said = foreign.greedy(made, source, longest)
        return [ids[: min(map(len, said))] for ids in said]

    assert one(replace(TORCH, greedy=alone), "decoding.greedy").verdict == "failed"
    short = replace(TORCH, greedy=lambda *g: [ids[:1] for ids in foreign.greedy(*g)])
    assert one(short, "decoding.greedy").verdict == "failed"


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
