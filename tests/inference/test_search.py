"""Search finds what it promises: greedy = beam 1, a wide beam = all translations; no leaks."""

import dataclasses
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import some

from nmtcourse.recipes.sampling import sample
from nmtlib.inference.search import (
    Hypothesis,
    beam_search,
    best,
    greedy_search,
    length_limits,
    length_norm,
)
from nmtlib.model.transformer import Transformer, TransformerConfig
from nmtlib.specials import BOS, EOS, PAD, UNK

CONFIG = TransformerConfig(
    9, 7, d_model=8, n_heads=2, n_encoder_layers=1, n_decoder_layers=2, d_ff=16, max_length=40
)
SOURCE = torch.tensor([[4, 5, 6, 7, EOS], [8, 4, EOS, PAD, PAD], [6, EOS, PAD, PAD, PAD]])


def make(seed=0, eos_bias=0.0, **changes) -> Transformer:
    """A random model that is far from indifferent, and as ready to stop as `eos_bias` makes it."""
    torch.manual_seed(seed)
    model = Transformer(dataclasses.replace(CONFIG, **changes)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
        model.output.bias[EOS] += eos_bias
    return model.eval()


def log_prob(model, source, ids) -> float:
    """Log-probability of a translation and its EOS, by teacher forcing, without any cache."""
    with torch.no_grad():
        logp = model(source, torch.tensor([[BOS, *ids]])).log_softmax(-1)[0]
    return float(logp[range(len(ids) + 1), [*ids, EOS]].sum())


def every_translation(model, source, longest, penalty) -> list[tuple[float, list[int]]]:
    """All translations of at most `longest` words with their scores, best first."""
    words = [w for w in range(CONFIG.target_vocab_size) if w not in (PAD, BOS, EOS, UNK)]
    every = [list(ids) for n in range(longest + 1) for ids in itertools.product(words, repeat=n)]
    norms = [((5 + len(ids) + 1) / 6) ** penalty for ids in every]
    scores = [log_prob(model, source, ids) / n for ids, n in zip(every, norms, strict=True)]
    return sorted(zip(scores, every, strict=True), key=lambda pair: -pair[0])


@pytest.mark.parametrize("penalty", some([0.0, 0.6, 1.0, -1.0], every=3))
def test_a_wide_beam_equals_brute_force(penalty):
    for seed, row in itertools.product(range(4), range(3)):
        model, source = make(seed), SOURCE[row : row + 1]
        expected = every_translation(model, source, 4, penalty)
        found = beam_search(model, source, 150, n_best=5, length_penalty=penalty, max_length=4)[0]
        scores, ids = map(list, zip(*expected[:5], strict=True))
        assert [h.ids for h in found] == ids
        assert [h.score for h in found] == pytest.approx(scores, abs=1e-9)


@settings(max_examples=40)
@given(
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 9)),
    count=st.integers(1, 12),
    seed=st.integers(0, 10_000),
)
def test_the_best_candidates_are_those_of_a_full_sort(sizes, count, seed):
    order = torch.randperm(math.prod(sizes), generator=torch.Generator().manual_seed(seed))
    scores = order.view(sizes).double()
    scores[scores < 3] = -math.inf
    values, parents, words = best(scores, count)
    expected = scores.flatten(1).sort(dim=1, descending=True).values[:, :count]
    assert torch.equal(values, expected)
    assert torch.equal(scores[torch.arange(sizes[0])[:, None], parents, words], expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_model_of_few_bits_is_scored_in_float32(dtype):
    model = make(2).to(dtype)
    found = beam_search(model, SOURCE, 4, n_best=4)
    scores = torch.tensor([h.log_prob for hypotheses in found for h in hypotheses])
    assert not torch.equal(scores, scores.bfloat16().float()), "bfloat16 cannot hold the digits"
    for row, hypotheses in enumerate(found):
        assert len({tuple(h.ids) for h in hypotheses}) == len(hypotheses)
        for h in hypotheses:
            source = SOURCE[row : row + 1, : int((SOURCE[row] != PAD).sum())]
            with torch.no_grad():
                logp = model(source, torch.tensor([[BOS, *h.ids]])).float().log_softmax(-1)[0]
            summed = float(logp[range(len(h.ids) + 1), [*h.ids, EOS]].sum())
            assert h.log_prob == pytest.approx(summed, abs=0.2 if dtype == torch.bfloat16 else 1e-4)


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), eos_bias=st.floats(-3, 3))
def test_beam_one_equals_greedy(seed, eos_bias):
    model = make(seed, eos_bias)
    assert [h[0].ids for h in beam_search(model, SOURCE, 1)] == greedy_search(model, SOURCE)


@pytest.mark.slow
@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), eos_bias=st.floats(-3, 3), beam=st.integers(1, 5))
def test_the_score_is_the_models_own_and_a_sentence_is_found_alike_alone_and_in_a_batch(
    seed, eos_bias, beam
):
    model = make(seed, eos_bias)
    together = beam_search(model, SOURCE, beam, n_best=beam)
    for row, hypotheses in enumerate(together):
        source = SOURCE[row : row + 1, : int((SOURCE[row] != PAD).sum())]
        alone = beam_search(model, source, beam, n_best=beam)[0]
        assert [h.ids for h in alone] == [h.ids for h in hypotheses]
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        for h in hypotheses:
            assert h.log_prob == pytest.approx(log_prob(model, source, h.ids), abs=1e-8)
            assert h.score == pytest.approx(h.log_prob / length_norm(len(h.ids) + 1, 1.0), abs=1e-8)


@pytest.mark.slow
@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_greedy_takes_the_best_word_each_time_by_full_decoding(seed):
    model = make(seed)
    for row, ids in enumerate(greedy_search(model, SOURCE)):
        source, prefix = SOURCE[row : row + 1], [BOS]
        limit = int(length_limits(source, 40)[0])
        while len(prefix) < limit:
            with torch.no_grad():
                logits = model(source, torch.tensor([prefix]))[0, -1]
            logits[[PAD, BOS, UNK]] = -math.inf
            if (word := int(logits.argmax())) == EOS:
                break
            prefix.append(word)
        assert ids == prefix[1:]


@pytest.mark.slow
def test_more_patience_finds_what_scores_at_least_as_high():
    scores = {  # 20 models, three sentences each
        p: [h[0].score for s in range(20) for h in beam_search(make(s), SOURCE, 2, patience=p)]
        for p in (1, 2, math.inf)
    }
    for less, more in ((1, 2), (2, math.inf)):
        assert all(a <= b + 1e-9 for a, b in zip(scores[less], scores[more], strict=True))
        assert scores[less] != scores[more]


@pytest.mark.parametrize("beam", [1, 3])
def test_lengths_stay_within_their_bounds(beam):
    talkative = make(eos_bias=-50.0)
    found = beam_search(talkative, SOURCE, beam, max_length=4)
    assert all(len(h.ids) == 4 for hypotheses in found for h in hypotheses)
    assert [len(ids) for ids in greedy_search(talkative, SOURCE, max_length=4)] == [4, 4, 4]
    # Twice the source's own tokens and ten, EOS included; neither its padding nor its neighbours
    # count.
    assert [len(h[0].ids) for h in beam_search(talkative, SOURCE, beam)] == [19, 15, 13]
    assert length_limits(SOURCE, 12).tolist() == [12, 12, 12]


def test_the_position_table_bounds_a_translation():
    model = make(eos_bias=-50.0, max_length=8)
    assert [len(ids) for ids in greedy_search(model, SOURCE)] == [7, 7, 7]
    assert [len(h[0].ids) for h in beam_search(model, SOURCE, 2)] == [7, 7, 7]


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), temperature=st.floats(0.2, 3))
def test_a_sample_holds_words_only_and_repeats_with_its_seed(seed, temperature):
    model = make(seed)
    first, second = (
        sample(model, SOURCE, temperature=temperature, generator=torch.Generator().manual_seed(7))
        for _ in range(2)
    )
    assert first == second
    assert all(word not in (PAD, BOS, EOS, UNK) for ids in first for word in ids)


def test_samples_follow_the_models_distribution():
    model = make(3)
    source = SOURCE[:1].expand(4000, -1)
    drawn = sample(model, source, generator=torch.Generator().manual_seed(0), max_length=1)
    with torch.no_grad():
        logp = model(SOURCE[:1], torch.tensor([[BOS]]))[0, 0].log_softmax(-1)
    logp[[PAD, BOS, UNK]] = -math.inf
    expected = logp.softmax(-1)
    for word in (4, 5, 6):
        share = sum(ids == [word] for ids in drawn) / 4000
        assert share == pytest.approx(float(expected[word]), abs=0.03)


def test_one_choice_or_no_heat_is_greedy_search():
    for seed in range(5):
        model = make(seed)
        greedy = greedy_search(model, SOURCE)
        assert sample(model, SOURCE, top_k=1) == greedy
        assert sample(model, SOURCE, top_p=1e-9) == greedy
        assert sample(model, SOURCE, temperature=1e-6) == greedy


def test_the_nucleus_is_the_smallest_set_that_reaches_p():
    model = make(3)
    with torch.no_grad():
        p = model(SOURCE[:1], torch.tensor([[BOS]]))[0, 0]
    p[[PAD, BOS, UNK]] = -math.inf
    p, words = p.softmax(-1).sort(descending=True)
    two = float(p[0] + p[1] / 2)  # the first word alone does not reach it, the first two do
    generator = torch.Generator().manual_seed(0)
    source = SOURCE[:1].expand(2000, -1)
    drawn = sample(model, source, top_p=two, generator=generator, max_length=1)
    seen = {ids[0] if ids else EOS for ids in drawn}
    assert seen == set(words[:2].tolist())


def test_search_leaves_the_model_in_the_mode_it_was_in_and_uses_no_dropout():
    model = make(dropout=0.5).train()
    results = [(greedy_search(model, SOURCE), beam_search(model, SOURCE, 3)) for _ in range(2)]
    assert results[0] == results[1] and model.training
    assert isinstance(results[0][1][0][0], Hypothesis)


def test_no_sentences_have_no_translations():
    model, none = make(), SOURCE[:0]
    assert greedy_search(model, none) == beam_search(model, none, 3) == sample(model, none) == []


def test_what_no_search_can_do_is_refused():
    wrong = [{"beam": 0}, {"beam": 2, "n_best": 3}, {"n_best": 0}, {"patience": 0.9}]
    wrong += [{"length_penalty": value} for value in (math.nan, math.inf, 1e308, -11.0)]
    for options in [*wrong, {"patience": math.nan}]:
        with pytest.raises(ValueError, match="a length_penalty from -10 to 10 and patience >= 1;"):
            beam_search(make(), SOURCE, **options)
    for options in ({"temperature": 0}, {"top_p": 0}, {"top_p": 1.5}, {"top_k": 0}):
        with pytest.raises(ValueError, match="sampling needs"):
            sample(make(), SOURCE, **options)
    with pytest.raises(ValueError, match="max_length"):
        greedy_search(make(), SOURCE, max_length=0)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [-10.0, 10.0])
def test_the_steepest_length_penalties_give_finite_scores(penalty):
    model = make(eos_bias=-50.0, max_length=1000)
    for h in beam_search(model, SOURCE, 2, length_penalty=penalty, max_length=900)[0]:
        assert math.isfinite(h.score) and len(h.ids) == 900
