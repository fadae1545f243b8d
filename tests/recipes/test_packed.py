"""A packed corpus gives the batches of `collate`, bit for bit, and its examples back."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmtcourse.recipes.packed import PackedExamples
from nmtcourse.teaching.hardware_lab import ledger
from nmtlib.data.batching import collate, lengths_of, make_example

IDS = st.lists(st.integers(4, 60_000), max_size=9)
PAIRS = st.lists(st.tuples(IDS, IDS), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(PAIRS, st.data())
def test_its_batches_are_those_of_collate(pairs, data):
    examples = [make_example(*pair) for pair in pairs]
    packed = PackedExamples(examples)
    assert list(packed) == examples and np.array_equal(packed.lengths, lengths_of(examples))
    numbers = data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=8))
    plain = collate([examples[i] for i in numbers])
    for made in (packed.batch(numbers), packed.batch(np.array(numbers))):
        for mine, theirs in ((made.source, plain.source), (made.target, plain.target)):
            assert torch.equal(mine, theirs) and mine.dtype == theirs.dtype


def test_no_example_lies_beyond_the_last():
    packed = PackedExamples([make_example([4], [5])])
    with pytest.raises(IndexError):
        packed[1]


def test_a_batch_needs_the_same_few_operations_however_many_tokens_it_holds():
    """And it reads nothing back, and takes nothing to the device but the numbers."""
    operations = []
    for count in (2, 200):
        packed = PackedExamples([make_example([4] * 30, [5] * 30)] * count, "meta")
        # On "meta" there is no number that could be read.
        operations.append(ledger(lambda packed=packed, n=count: packed.batch(np.arange(n))))
    assert operations[0].operations == operations[1].operations and not operations[1].waits
    assert operations[0].operations["_to_copy"] <= 3, "the numbers, and int32 to int64 twice"
    assert operations[0].started < 20
