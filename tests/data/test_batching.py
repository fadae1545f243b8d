"""Batches hold every sentence once, within the budget, with little padding, repeatably."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmtlib.data.batching import (
    Batch,
    Example,
    collate,
    lengths_of,
    make_example,
    padding_waste,
    plan_batches,
    token_batches,
)
from nmtlib.specials import BOS, EOS, PAD

examples = st.lists(
    st.tuples(st.integers(1, 30), st.integers(2, 30)).map(
        lambda n: Example([4] * n[0], [5] * n[1])
    ),
    min_size=1,
    max_size=80,
)


def test_source_ends_with_eos_and_the_target_is_shifted_once():
    batch = collate([make_example([7, 8], [9, 10, 11]), make_example([7], [9])])
    assert batch.source.tolist() == [[7, 8, EOS], [7, EOS, PAD]]
    assert batch.decoder_input.tolist() == [[BOS, 9, 10, 11], [BOS, 9, EOS, PAD]]
    assert batch.labels.tolist() == [[9, 10, 11, EOS], [9, EOS, PAD, PAD]]


@settings(max_examples=60)
@given(examples, st.integers(30, 200), st.one_of(st.none(), st.integers(0, 5)))
def test_every_sentence_stands_in_one_batch_within_the_budget(examples, max_tokens, seed):
    batches = token_batches(examples, max_tokens, seed=seed)
    assert sorted(i for batch in batches for i in batch) == list(range(len(examples)))
    for numbers in batches:
        batch = collate([examples[i] for i in numbers])
        assert max(batch.source.numel(), batch.target.numel()) <= max_tokens


@settings(max_examples=30)
@given(examples, st.integers(0, 5))
def test_the_order_depends_on_the_seed_alone_and_so_does_not_the_number_of_batches(examples, seed):
    assert token_batches(examples, 60, seed=seed) == token_batches(examples, 60, seed=seed)
    assert len(token_batches(examples, 60, seed=seed)) == len(token_batches(examples, 60))


def test_a_long_sentence_ends_like_a_short_one():
    for length in (3, 150, 700):
        example = make_example([7] * length, [8] * length)
        assert example == ([7] * length + [EOS], [BOS] + [8] * length + [EOS])


def test_another_seed_gives_other_batches_in_another_order():
    same_length = [Example([4] * 5, [5] * 6) for _ in range(100)]
    first, second = (token_batches(same_length, 60, seed=seed) for seed in (1, 2))
    assert first != second and {frozenset(b) for b in first} != {frozenset(b) for b in second}
    mixed = [Example([4] * n, [5] * n) for n in range(2, 100)]
    lengths = [len(mixed[b[0]].source) for b in token_batches(mixed, 200, seed=1)]
    assert lengths != sorted(lengths), "batches must not run from short to long while training"


def test_a_sentence_beyond_the_budget_is_refused_and_not_dropped():
    with pytest.raises(ValueError, match="sentence 1 has 31 tokens, more than max_tokens = 30"):
        token_batches([Example([4], [5]), Example([4] * 31, [5])], 30)
    with pytest.raises(ValueError, match="at least one example"):
        collate([])


def one_by_one(examples, max_tokens, seed):
    """The batches as their description says, sentence by sentence."""
    generator = torch.Generator().manual_seed(seed or 0)
    order = list(range(len(examples)))
    if seed is not None:
        order = torch.randperm(len(examples), generator=generator).tolist()
    cost = [max(len(e.source), len(e.target)) for e in examples]
    batches = []
    for i in sorted(
        order, key=lambda i: (cost[i], len(examples[i].target), len(examples[i].source))
    ):
        if not batches or (len(batches[-1]) + 1) * cost[i] > max_tokens:
            batches.append([])
        batches[-1].append(i)
    if seed is None:
        return batches
    return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]


@settings(max_examples=60)
@given(examples, st.integers(30, 200), st.one_of(st.none(), st.integers(0, 5)))
def test_planning_from_lengths_makes_the_batches_that_sentence_by_sentence_makes(
    examples, max_tokens, seed
):
    expected = one_by_one(examples, max_tokens, seed)
    assert token_batches(examples, max_tokens, seed=seed) == expected
    lengths = lengths_of(examples)
    assert [b.tolist() for b in plan_batches(lengths, max_tokens, seed=seed)] == expected
    assert token_batches([], max_tokens, seed=seed) == []


def test_padding_waste_is_the_share_of_pad():
    batch = Batch(torch.tensor([[4, 5, PAD, PAD]]), torch.tensor([[1, 2], [1, PAD]]))
    assert padding_waste([batch]) == 3 / 8
    with pytest.raises(ValueError, match="at least one batch"):
        padding_waste([])


def test_buckets_waste_far_less_than_random_batches():
    generator = torch.Generator().manual_seed(0)
    lengths = (torch.randn(3000, generator=generator) * 4 + 13).clamp(3, 40).int().tolist()
    mixed = [Example([4] * n, [5] * max(2, n + i % 3 - 1)) for i, n in enumerate(lengths)]
    bucketed = padding_waste(
        collate([mixed[i] for i in b]) for b in token_batches(mixed, 2048, seed=0)
    )
    random = padding_waste(collate(mixed[i : i + 150]) for i in range(0, 3000, 150))
    assert bucketed < 0.08 < 0.3 < random


@pytest.mark.nightly
def test_multi30k_wastes_less_than_eight_percent(multi30k):
    from nmtlib.data.codec import build_codecs, encode_pairs

    source, target = build_codecs(multi30k, "bpe", size=6000, joint=True, lowercase=True)
    pairs, _ = encode_pairs(multi30k.train, source, target)
    batches = (collate([pairs[i] for i in b]) for b in token_batches(pairs, 2048, seed=1))
    assert padding_waste(batches) < 0.08
